#include "fs/lane/lane_state.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <map>

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
    struct stat status{};
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
      const Bytes data = read_small(dir_fd, wire::cursor_name(generation), owners_of(dir_fd), wire::max_cursor_bytes);
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
    for (const DirectoryEntry& entry : list_directory(open_directory(path).get(), SIZE_MAX))
      names.push_back(entry.name);
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
    if (const auto named = wire::parse_lane_file(file)) newest = std::max(newest, named->generation);
    if (const auto slot = wire::parse_slot(file)) newest = std::max(newest, slot->generation);
    newest = std::max(newest, wire::parse_fence(file).value_or(0));
  }
  return newest;
}

}  // namespace

std::uint32_t generation_left(const std::string& root, const std::string& name, const wire::Keyring& keyring) {
  struct stat status{};
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
    found = is_unopened(wire::lane_dir(root, target, source),
                        keyring.lane_keys(wire::node_id(source), wire::node_id(target)));
  });
  return found;
}

namespace {

constexpr int most_looks = 2;  // files may be replaced by those of the next generation meanwhile

// The file of the lowest generation above one, if there is any: a start before a cursor.
std::string lowest_above(int lane, std::uint32_t generation, std::uint32_t& found) {
  std::map<std::uint32_t, std::string> files;
  for (DirectoryEntry& entry : list_directory(lane, max_lane_files)) {
    const auto start = wire::parse_start(entry.name);
    const auto cursor = start ? start : wire::parse_cursor(entry.name);
    if (!cursor || *cursor <= generation) continue;
    if (start) files[*cursor] = std::move(entry.name);
    else files.emplace(*cursor, std::move(entry.name));
  }
  if (files.empty()) return {};
  found = files.begin()->first;
  return files.begin()->second;
}

// Null if it is not authentic; std::system_error if it is not there.
std::optional<wire::Cursor> read_deciding(int lane, const std::string& name, std::uint32_t generation,
                                          const wire::LaneKeys& keys) {
  constexpr int most_reads = 3;
  for (int tries = 0; tries < most_reads; ++tries) {
    try {
      wire::Cursor cursor = wire::decode_cursor(read_small(lane, name, owners_of(lane), wire::max_cursor_bytes), keys);
      if (cursor.receiver_generation == generation) return cursor;
      return std::nullopt;
    } catch (const WireError&) {
      continue;
    }
  }
  return std::nullopt;
}

Decision decision_of(std::optional<wire::Cursor> cursor) {
  if (!cursor) return {};
  return {Decision::Kind::cursor, std::move(*cursor)};
}

Decision look_for_decision(int lane, std::uint32_t generation, bool is_over, const wire::LaneKeys& keys) {
  std::uint32_t above = 0;
  if (const std::string name = lowest_above(lane, generation, above); !name.empty()) {
    std::optional<wire::Cursor> cursor = read_deciding(lane, name, above, keys);
    if (cursor && !cursor->sealed && !is_over) return {};
    return decision_of(std::move(cursor));
  }
  if (!is_over) return {};
  try {
    return decision_of(read_deciding(lane, wire::cursor_name(generation), generation, keys));
  } catch (const std::system_error& error) {
    if (error.code().value() != ENOENT) throw;
  }
  // A successor that publishes removes it: then that one decides.
  if (!lowest_above(lane, generation, above).empty())
    throw std::system_error(ENOENT, std::generic_category(), "cursor");
  return {Decision::Kind::nothing};
}

Verdict judge_one(std::uint64_t sequence, const wire::Cursor& cursor, bool is_whole) {
  const auto listed = std::ranges::find(cursor.unfinished, sequence, &wire::Unfinished::sequence);
  if (listed != cursor.unfinished.end()) return listed->begun ? Verdict::repeatable : Verdict::not_begun;
  if (sequence <= cursor.last_sequence || is_whole) return Verdict::may_have_run;
  return cursor.unfinished.size() < wire::limits::max_unfinished ? Verdict::not_begun : Verdict::may_have_run;
}

}  // namespace

Decision deciding(const std::string& lane, std::uint32_t generation, bool is_over, const wire::LaneKeys& keys) {
  for (int looks = 0; looks < most_looks; ++looks) {
    try {
      return look_for_decision(open_directory(lane).get(), generation, is_over, keys);
    } catch (const std::system_error&) {
      continue;
    }
  }
  return {};
}

// Of the verdicts on its envelopes the first of the contract's table that occurs: not begun, behind a full list,
// repeatable, before the position.
Verdict judge(const WrittenRequest& request, const Decision& decision) {
  if (decision.kind == Decision::Kind::nothing) return Verdict::not_begun;
  if (decision.kind == Decision::Kind::unknown) return Verdict::may_have_run;
  const wire::Cursor& cursor = decision.cursor;
  const auto used = std::ranges::count_if(request.sequences, [&](std::uint64_t sequence) {
    return judge_one(sequence, cursor, true) != Verdict::not_begun && sequence <= cursor.last_sequence;
  });
  // With parity it is whole before the last of its segments was read.
  const bool is_whole = static_cast<std::size_t>(used) >= request.needed;
  bool repeatable = false;
  bool is_past_position = false;
  for (const std::uint64_t sequence : request.sequences) {
    const Verdict verdict = judge_one(sequence, cursor, is_whole);
    if (verdict == Verdict::not_begun) return verdict;
    repeatable |= verdict == Verdict::repeatable;
    is_past_position |= verdict == Verdict::may_have_run && sequence > cursor.last_sequence && !is_whole;
  }
  return repeatable && !is_past_position ? Verdict::repeatable : Verdict::may_have_run;
}

}  // namespace speed::fs
