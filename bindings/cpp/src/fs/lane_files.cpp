#include "fs/lane_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "fs/clock.hpp"
#include "speed/error.hpp"

namespace speed::fs {

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t clock_back_ns = 20'000'000;  // a time so far ahead is no tick that goes on: the clock was set back

std::int64_t modified_ns(int fd) {
  const struct stat status = status_of(fd);
  return status.st_mtim.tv_sec * second_ns + status.st_mtim.tv_nsec;
}

// Whether every later change must show another time: the clock that stamps files has passed this one (L-18).
bool is_settled(std::int64_t modified) {
  const std::int64_t ahead = modified - file_clock_ns();
  return ahead < 0 || ahead > clock_back_ns;
}

void sort_in(Listing& listing, const std::string& filename) {
  if (const auto segment = wire::parse_segment(filename)) {
    listing.segments.push_back(*segment);
  } else if (const auto cursor = wire::parse_cursor(filename)) {
    listing.cursors.push_back(*cursor);
  } else if (const auto fence = wire::parse_fence(filename)) {
    listing.fences.push_back(*fence);
  } else if (const auto deliveries = wire::parse_deliveries(filename)) {
    listing.deliveries.push_back(*deliveries);
  } else if (!wire::is_temporary(filename)) {
    listing.foreign.push_back(filename);
  }
}

}  // namespace

LaneFiles::LaneFiles(const std::string& path, std::vector<wire::Key> lane_keys, Quarantine& quarantine)
    : directory_(open_directory(path)),
      owners_(owners_of(directory_.get())),
      keys_(std::move(lane_keys)),
      cursor_key_(keys_.front()),
      quarantine_(quarantine) {}

bool LaneFiles::changed() const { return modified_ns(directory_.get()) != listed_mtime_; }

Listing LaneFiles::list() {
  Listing listing;
  const std::int64_t modified = modified_ns(directory_.get());
  listed_mtime_ = is_settled(modified) ? modified : -1;
  for (const DirectoryEntry& entry : list_directory(directory_.get(), max_lane_files)) sort_in(listing, entry.name);
  std::ranges::sort(listing.segments);
  std::ranges::sort(listing.fences, std::greater<>());
  std::ranges::sort(listing.cursors, std::greater<>());
  std::ranges::sort(listing.deliveries, std::greater<>());
  return listing;
}

Fd LaneFiles::open_segment(wire::SegmentName segment) const {
  return open_regular(directory_.get(), wire::segment_name(segment), owners_);
}

std::uint64_t LaneFiles::segment_bytes(wire::SegmentName segment) const {
  struct stat status {};
  const std::string name = wire::segment_name(segment);
  const bool there = fstatat(directory_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (!there && errno != ENOENT) throw_errno(name);
  return there ? static_cast<std::uint64_t>(status.st_size) : 0;
}

bool LaneFiles::has_segment(wire::SegmentName segment) const {
  try {
    open_segment(segment);
    return true;
  } catch (const std::system_error& error) {
    if (is_gone(error)) return false;
    throw;
  }
}

void LaneFiles::remove(const std::string& filename) { unlink_quietly(directory_.get(), filename); }

void LaneFiles::put_aside(const std::string& filename, std::string_view reason) {
  quarantine_.take(directory_.get(), filename, reason);
}

std::optional<wire::Fence> LaneFiles::read_fence(std::uint32_t generation) const {
  try {
    const Bytes data = read_small(directory_.get(), wire::fence_name(generation), owners_, wire::fence_bytes + 1);
    const wire::Fence fence = wire::decode_fence(data, keys_);
    return fence.new_generation == generation ? std::optional(fence) : std::nullopt;
  } catch (const WireError&) {
    return std::nullopt;
  } catch (const std::system_error& error) {
    if (is_gone(error)) return std::nullopt;
    throw;
  }
}

std::optional<wire::Deliveries> LaneFiles::read_deliveries(std::uint32_t generation) const {
  try {
    const std::string name = wire::deliveries_name(generation);
    return wire::decode_deliveries(read_small(directory_.get(), name, owners_, wire::max_deliveries_bytes + 1), keys_);
  } catch (const WireError&) {
    return std::nullopt;
  } catch (const std::system_error& error) {
    if (is_gone(error)) return std::nullopt;
    throw;
  }
}

void LaneFiles::write_deliveries(std::uint32_t generation, const wire::Deliveries& deliveries) const {
  replace_file(directory_.get(), wire::deliveries_name(generation), wire::encode_deliveries(deliveries, keys_.front()));
}

std::optional<wire::Cursor> LaneFiles::read_cursor(std::uint32_t generation) const {
  return fs::read_cursor(directory_.get(), generation, keys_);
}

void LaneFiles::write_cursor(const wire::Cursor& cursor) {
  wire::Block<wire::max_cursor_bytes> block;
  const ByteView data = wire::encode_cursor(cursor, cursor_key_, block);
  if (cursor_) {
    write_at_start(cursor_.get(), data);
    return;
  }
  std::fill(block.begin() + static_cast<std::ptrdiff_t>(data.size()), block.end(), std::byte{0});
  cursor_ = replace_file(directory_.get(), wire::cursor_name(cursor.receiver_generation), block);  // full size (L-15)
}

void LaneFiles::rewrite_unclean(wire::Cursor cursor) const {
  cursor.clean = false;
  const std::string name = wire::cursor_name(cursor.receiver_generation);
  write_at_start(open_regular(directory_.get(), name, owners_, true).get(), wire::encode_cursor(cursor, keys_.front()));
}

}  // namespace speed::fs
