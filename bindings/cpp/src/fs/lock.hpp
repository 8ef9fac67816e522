// Locks between processes: the kernel holds them, so each goes with its process, however that ends.
// Threads: each object for one thread.
#pragma once

#include <optional>
#include <string>

#include "fs/files.hpp"

namespace speed::fs {

// flock(2) of a file, which stays and means nothing by itself.
class Lock {
 public:
  // Null while another has it for `seconds`; std::system_error.
  static std::optional<Lock> take(const std::string& path, double seconds);
  Lock(Lock&&) = default;
  Lock& operator=(Lock&&) = delete;
  ~Lock();  // a child that was forked meanwhile does not keep it

 private:
  explicit Lock(Fd fd) : fd_(std::move(fd)) {}
  static std::optional<Lock> try_once(const std::string& path);

  Fd fd_;
};

}  // namespace speed::fs
