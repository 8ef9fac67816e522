#include "fs/committed.hpp"

#include <fcntl.h>

#include <algorithm>
#include <functional>

#include "speed/error.hpp"

namespace speed::fs {

namespace {

constexpr int torn_reads = 3;

}  // namespace

void Outstanding::add(wire::LaneFileName file, std::uint64_t size) {
  files_[file].written += size;
  bytes_ += size;
}

void Outstanding::commit(const wire::Position& position) {
  while (!files_.empty() && files_.begin()->first < position.file()) {
    const Size& size = files_.begin()->second;
    bytes_ -= size.written - size.freed;
    files_.erase(files_.begin());
  }
  const auto here = files_.find(position.file());
  if (here == files_.end() || position.offset <= here->second.freed) return;
  const std::uint64_t freed = std::min(position.offset, here->second.written);
  bytes_ -= freed - here->second.freed;
  here->second.freed = freed;
}

std::vector<LaneFileSize> lane_files_in(int dir_fd) {
  std::vector<LaneFileSize> found;
  for (const DirectoryEntry& entry : list_directory(dir_fd, max_lane_files)) {
    const auto name = wire::parse_lane_file(entry.name);
    struct stat status {};
    if (!name) continue;
    if (fstatat(dir_fd, entry.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT) throw_errno(entry.name);
      continue;  // consumed and removed meanwhile
    }
    if (S_ISREG(status.st_mode)) found.push_back({*name, static_cast<std::uint64_t>(status.st_size)});
  }
  std::ranges::sort(found, {}, &LaneFileSize::name);
  return found;
}

std::optional<wire::Cursor> read_cursor(int dir_fd, std::uint32_t generation, const std::vector<wire::Key>& keys) {
  for (int tries = 0; tries < torn_reads; ++tries) {
    try {
      const Bytes data =
          read_small(dir_fd, wire::cursor_name(generation), owners_of(dir_fd), wire::max_cursor_bytes);
      const wire::Cursor cursor = wire::decode_cursor(data, keys);
      return cursor.receiver_generation == generation ? std::optional(cursor) : std::nullopt;
    } catch (const WireError&) {
      continue;
    } catch (const std::system_error&) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<wire::Cursor> newest_cursor(int dir_fd, const std::vector<wire::Key>& keys) {
  std::vector<std::uint32_t> generations;
  for (const DirectoryEntry& entry : list_directory(dir_fd, max_lane_files)) {
    if (const auto generation = wire::parse_cursor(entry.name)) generations.push_back(*generation);
  }
  std::ranges::sort(generations, std::greater<>());
  for (const std::uint32_t generation : generations) {
    if (auto cursor = read_cursor(dir_fd, generation, keys)) return cursor;
  }
  return std::nullopt;
}

}  // namespace speed::fs
