// What a sender may read of a lane: its files' sizes and the receiver's cursor (L-6).
// Threads: not thread-safe; the link's lock guards it.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "fs/files.hpp"
#include "wire/cursor.hpp"

namespace speed::fs {

inline constexpr std::size_t max_lane_files = 65536;

// Bytes written and not committed, per file.
class Outstanding {
 public:
  void add(wire::LaneFileName file, std::uint64_t size);
  // Everything before this position is committed; a position never takes back what it freed.
  void commit(const wire::Position& position);
  std::uint64_t bytes() const { return bytes_; }
  std::size_t files() const { return files_.size(); }

 private:
  struct Size {
    std::uint64_t written = 0;
    std::uint64_t freed = 0;
  };
  std::map<wire::LaneFileName, Size> files_;
  std::uint64_t bytes_ = 0;
};

struct LaneFileSize {
  wire::LaneFileName name;
  std::uint64_t bytes = 0;
};

// The files of a lane in order; links and the like are left out.
std::vector<LaneFileSize> lane_files_in(int dir_fd);

// A valid cursor of the lane, null otherwise; a torn read (it is just being rewritten) is tried again.
std::optional<wire::Cursor> read_cursor(int dir_fd, std::uint32_t generation, const std::vector<wire::Key>& keys);

// The valid cursor of the newest receiver generation.
std::optional<wire::Cursor> newest_cursor(int dir_fd, const std::vector<wire::Key>& keys);

}  // namespace speed::fs
