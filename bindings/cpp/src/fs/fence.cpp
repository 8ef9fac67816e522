#include "fs/fence.hpp"

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

}  // namespace

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
