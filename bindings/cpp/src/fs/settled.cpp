#include "fs/settled.hpp"

#include <algorithm>
#include <map>

#include "speed/error.hpp"

namespace speed::fs {

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
std::optional<wire::Cursor> read_deciding(int lane, const std::string& name, std::uint32_t generation, const wire::LaneKeys& keys) {
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
  if (!lowest_above(lane, generation, above).empty()) throw std::system_error(ENOENT, std::generic_category(), "cursor");
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
  bool behind_full = false;
  for (const std::uint64_t sequence : request.sequences) {
    const Verdict verdict = judge_one(sequence, cursor, is_whole);
    if (verdict == Verdict::not_begun) return verdict;
    repeatable |= verdict == Verdict::repeatable;
    behind_full |= verdict == Verdict::may_have_run && sequence > cursor.last_sequence && !is_whole;
  }
  return repeatable && !behind_full ? Verdict::repeatable : Verdict::may_have_run;
}

}  // namespace speed::fs
