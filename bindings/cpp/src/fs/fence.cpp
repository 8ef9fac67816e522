#include "fs/fence.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "fs/committed.hpp"

namespace speed::fs {

namespace {

// Records the newest older file and its size; zeros where none is left: nothing old counts.
void fence_lane(int lane, std::uint32_t generation, const wire::Key& lane_key) {
  wire::Fence fence{generation, {}, 0};
  for (const LaneFileSize& one : lane_files_in(lane)) {
    if (one.name.generation >= generation) break;
    fence.old = one.name;
    fence.size = one.bytes;
  }
  replace_file(lane, wire::fence_name(generation), wire::encode_fence(fence, lane_key));
}

// Whether a lane is there, and no receiver has a cursor in it. After a power cut one may be a name without its bytes.
bool is_unopened(const std::string& path, const wire::LaneKeys& keys) {
  try {
    return !newest_cursor(open_directory(path).get(), keys).has_value();
  } catch (const std::system_error& error) {
    return error.code().value() != ENOENT && error.code().value() != ENOTDIR;
  }
}

// Names in a directory; none if it is not there, or is another user's.
std::vector<std::string> names_below(const std::string& path) {
  std::vector<std::string> names;
  try {
    for (const DirectoryEntry& entry : list_directory(open_directory(path).get(), SIZE_MAX)) names.push_back(entry.name);
  } catch (const std::system_error& error) {
    const int why = error.code().value();
    if (why != ENOENT && why != ENOTDIR && why != ELOOP && why != EACCES) throw;
  }
  return names;
}

// By the names of cursors and deliveries in one lane of its inbox.
std::uint32_t read_up_to(const std::string& lane) {
  std::uint32_t newest = 0;
  for (const std::string& file : names_below(lane)) {
    newest = std::max({newest, wire::parse_cursor(file).value_or(0), wire::parse_deliveries(file).value_or(0)});
  }
  return newest;
}

// By what it wrote into one lane, and by what was read there.
std::uint32_t written_up_to(const std::string& lane, const wire::LaneKeys& keys) {
  const std::vector<std::string> files = names_below(lane);
  if (files.empty()) return 0;
  const auto cursor = newest_cursor(open_directory(lane).get(), keys);
  std::uint32_t newest = cursor ? cursor->position.generation : 0;
  for (const std::string& file : files) {
    if (const auto segment = wire::parse_lane_file(file)) newest = std::max(newest, segment->generation);
    if (const auto slot = wire::parse_slot(file)) newest = std::max(newest, slot->generation);
    newest = std::max(newest, wire::parse_fence(file).value_or(0));
  }
  return newest;
}

}  // namespace

std::uint32_t generation_left(const std::string& root, const std::string& name, const wire::Keyring& keyring) {
  struct stat status {};
  if (lstat(wire::node_dir(root, name).c_str(), &status) != 0) return 0;
  std::uint32_t newest = 0;
  for (const std::string& sender : names_below(wire::inbox_dir(root, name))) {
    if (wire::is_node_name(sender)) newest = std::max(newest, read_up_to(wire::lane_dir(root, name, sender)));
  }
  for (const std::string& target : names_below(root)) {
    if (!wire::is_node_name(target)) continue;
    const wire::LaneKeys keys = keyring.lane_keys(wire::node_id(name), wire::node_id(target));
    newest = std::max(newest, written_up_to(wire::lane_dir(root, target, name), keys));
  }
  return newest;
}

void fence_lanes(const std::string& root, const std::string& source, std::uint32_t generation,
                 const wire::Keyring& keyring) {
  const Fd directory = open_directory(root);
  for (const DirectoryEntry& entry : list_directory(directory.get(), SIZE_MAX)) {
    if (!wire::is_node_name(entry.name)) continue;
    Fd lane;
    try {
      lane = open_directory(wire::lane_dir(root, entry.name, source));
    } catch (const std::system_error& error) {
      const int why = error.code().value();
      if (why == ENOENT || why == ENOTDIR || why == ELOOP) continue;  // no lane, or nothing that could be one
      if (why == EACCES) continue;                                    // another user's: it holds none of ours
      throw;
    }
    const wire::Key key = wire::lane_key(keyring.sealing_key(), wire::node_id(source), wire::node_id(entry.name));
    fence_lane(lane.get(), generation, key);
  }
}

bool has_unopened_lanes(const std::string& root, const std::string& source, const wire::Keyring& keyring) {
  bool found = false;
  for_each_name(open_directory(root).get(), [&](const char* target) {
    if (found || !wire::is_node_name(target)) return;
    found = is_unopened(wire::lane_dir(root, target, source), keyring.lane_keys(wire::node_id(source), wire::node_id(target)));
  });
  return found;
}

}  // namespace speed::fs
