// Where refused files and damaged bytes go: bounded in number and bytes, each with a reason (L-20).
// Threads: not thread-safe; the thread that reads the lanes owns it.
#pragma once

#include <string>

#include "fs/files.hpp"
#include "wire/limits.hpp"

namespace speed::fs {

class Quarantine {
 public:
  Quarantine(const std::string& root, const std::string& name);

  // Moves an entry of another directory here, unopened; deletes it when the bounds are reached.
  void take(int dir_fd, const std::string& name, std::string_view reason);
  // Keeps damaged bytes that begin at `offset` of the lane file `origin`.
  void put(ByteView data, const std::string& origin, std::string_view reason, std::uint64_t offset);
  void close() noexcept { directory_.close(); }

 private:
  struct Reason {
    std::string name;
    std::string_view reason;
    std::optional<std::uint64_t> offset;
  };
  void survey();
  bool fits(std::uint64_t size) const;
  std::string next_number();
  void note(const std::string& number, std::uint64_t size, const Reason& reason);

  Fd directory_;
  std::size_t files_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t next_ = 1;
};

}  // namespace speed::fs
