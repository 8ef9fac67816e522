#include "fs/lane/lane_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "fs/clock.hpp"
#include "speed/error.hpp"
#include "wire/envelope/identity.hpp"

namespace speed::fs {

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t clock_back_ns =
    20'000'000;  // a time so far ahead is no tick that goes on: the clock was set back

void sort_in(Listing& listing, const std::string& filename) {
  if (const auto file = wire::parse_lane_file(filename)) {
    listing.files.push_back(*file);
  } else if (const auto cursor = wire::parse_cursor(filename)) {
    listing.cursors.push_back(*cursor);
  } else if (const auto start = wire::parse_start(filename)) {
    listing.starts.push_back(*start);
  } else if (const auto fence = wire::parse_fence(filename)) {
    listing.fences.push_back(*fence);
  } else if (const auto deliveries = wire::parse_deliveries(filename)) {
    listing.deliveries.push_back(*deliveries);
  } else if (const auto slot = wire::parse_slot(filename)) {
    listing.slots.push_back(*slot);
  } else if (const auto opening = wire::parse_opening(filename)) {
    listing.openings.push_back(*opening);
  } else if (!wire::is_temporary(filename)) {
    listing.foreign.push_back(filename);
  }
}

}  // namespace

std::int64_t modified_ns(const struct stat& status) {
  return status.st_mtim.tv_sec * second_ns + status.st_mtim.tv_nsec;
}

bool is_settled(std::int64_t modified) {
  const std::int64_t ahead = modified - file_clock_ns();
  return ahead < 0 || ahead > clock_back_ns;
}

LaneFiles::LaneFiles(const std::string& path, wire::LaneKeys lane_keys, Quarantine& quarantine)
    : path_(path),
      directory_(open_directory(path)),
      owners_(owners_of(directory_.get())),
      keys_(std::move(lane_keys)),
      cursor_key_(keys_.front()),
      cursor_mac_(cursor_key_),
      quarantine_(quarantine) {
  const struct stat status = status_of(directory_.get());
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

int LaneFiles::directory() const {
  if (directory_) return directory_.get();
  Fd again = open_directory(path_);
  const struct stat status = status_of(again.get());
  if (!is_it(status)) refuse_replaced();
  directory_ = std::move(again);
  return directory_.get();
}

bool LaneFiles::is_it(const struct stat& status) const { return status.st_dev == device_ && status.st_ino == inode_; }

void LaneFiles::refuse_replaced() {
  throw std::system_error(ENOENT, std::generic_category(),
                          "it was removed or replaced, and what lay there unread is lost");
}

void LaneFiles::rest() noexcept {
  cursor_.close();
  directory_.close();
}

bool LaneFiles::changed() const { return modified_ns(status_of(directory())) != listed_mtime_; }

// A sender whose lane was removed goes on in a new one (L-2).
Listing LaneFiles::list() {
  struct stat found{};
  if (lstat(path_.c_str(), &found) != 0 || !is_it(found)) refuse_replaced();
  Listing listing;
  const std::int64_t modified = modified_ns(status_of(directory()));
  listed_mtime_ = is_settled(modified) ? modified : -1;
  for (const DirectoryEntry& entry : list_directory(directory(), max_lane_files)) sort_in(listing, entry.name);
  std::ranges::sort(listing.files);
  std::ranges::sort(listing.fences, std::greater<>());
  std::ranges::sort(listing.cursors, std::greater<>());
  std::ranges::sort(listing.starts, std::greater<>());
  std::ranges::sort(listing.deliveries, std::greater<>());
  return listing;
}

Fd LaneFiles::open_file(wire::LaneFileName file) const {
  return open_regular(directory(), wire::lane_file_name(file), owners_);
}

Fd LaneFiles::open_slot(wire::LaneFileName slot) const {
  return open_regular(directory(), wire::slot_name(slot), owners_);
}

std::uint64_t LaneFiles::size_of(wire::LaneFileName file) const {
  struct stat status{};
  const std::string name = wire::lane_file_name(file);
  const bool there = fstatat(directory(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (!there && errno != ENOENT) throw_errno(name);
  return there ? static_cast<std::uint64_t>(status.st_size) : 0;
}

bool LaneFiles::has_file(wire::LaneFileName file) const {
  try {
    open_file(file);
    return true;
  } catch (const std::system_error& error) {
    if (is_gone(error)) return false;
    throw;
  }
}

void LaneFiles::remove(const std::string& filename) {
  try {
    unlink_quietly(directory(), filename);
  } catch (const std::system_error&) {
    // Where it cannot be opened again nothing can be removed.
  }
}

void LaneFiles::put_aside(const std::string& filename, std::string_view reason) {
  quarantine_.take(directory(), filename, reason);
}

Bytes LaneFiles::read_opening(const wire::OpeningName& name) const {
  return read_small(directory(), wire::opening_name(name), owners_, wire::opening_bytes + 1);
}

std::optional<wire::Fence> LaneFiles::read_fence(std::uint32_t generation) const {
  try {
    const Bytes data = read_small(directory(), wire::fence_name(generation), owners_, wire::fence_bytes + 1);
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
    return wire::decode_deliveries(read_small(directory(), name, owners_, wire::max_deliveries_bytes + 1), keys_);
  } catch (const WireError&) {
    return std::nullopt;
  } catch (const std::system_error& error) {
    if (is_gone(error)) return std::nullopt;
    throw;
  }
}

void LaneFiles::write_deliveries(std::uint32_t generation, const wire::Deliveries& deliveries) const {
  replace_file(directory(), wire::deliveries_name(generation), wire::encode_deliveries(deliveries, keys_.front()));
}

std::optional<wire::Cursor> LaneFiles::read_cursor(std::uint32_t generation) const {
  return fs::read_cursor(directory(), generation, keys_);
}

void LaneFiles::write_cursor(const wire::Cursor& cursor) {
  if (has_new_key()) {
    cursor_key_ = keys_.front();
    cursor_mac_ = wire::MacKey(cursor_key_);
  }
  wire::Block<wire::max_cursor_bytes> block;
  const ByteView data = wire::encode_cursor(cursor, cursor_mac_, block);
  if (has_cursor_) {
    if (!cursor_) cursor_ = open_regular(directory(), wire::cursor_name(cursor.receiver_generation), owners_, true);
    return write_at_start(cursor_.get(), data);
  }
  std::fill(block.begin() + static_cast<std::ptrdiff_t>(data.size()), block.end(), std::byte{0});
  cursor_ = replace_file(directory(), wire::cursor_name(cursor.receiver_generation), block);  // full size (L-15)
  has_cursor_ = true;
}

bool LaneFiles::is_replaced() const { return (status_of(cursor_.get()).st_mode & S_IWUSR) == 0; }

void LaneFiles::write_start(std::uint32_t generation, const std::optional<wire::Cursor>& cursor) const {
  const Bytes data = cursor ? wire::encode_cursor(*cursor, keys_.front()) : Bytes();
  replace_file(directory(), wire::start_name(generation), data);
}

bool LaneFiles::seal(std::uint32_t generation) const {
  const Fd fd(
      openat(directory(), wire::cursor_name(generation).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return errno == ENOENT;
  const mode_t mode = status_of(fd.get()).st_mode;
  if ((mode & S_IWUSR) == 0) return true;
  return S_ISREG(mode) && fchmod(fd.get(), mode & sealed_file) == 0;
}

bool LaneFiles::is_writable(std::uint32_t generation) const {
  struct stat status{};
  const std::string name = wire::cursor_name(generation);
  if (fstatat(directory(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return (status.st_mode & S_IWUSR) != 0;
  if (errno != ENOENT) throw_errno(name);
  return false;
}

void LaneFiles::rewrite_unclean(wire::Cursor cursor) const {
  cursor.clean = false;
  const std::string name = wire::cursor_name(cursor.receiver_generation);
  write_at_start(open_regular(directory(), name, owners_, true).get(), wire::encode_cursor(cursor, keys_.front()));
}

}  // namespace speed::fs
