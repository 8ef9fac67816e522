// The part of LaneReader that takes a lane over from earlier processes, so that callers can tell from it what these had
// begun (L-31).
#include <algorithm>

#include "core/counters.hpp"
#include "fs/lane/lane_reader.hpp"
#include "speed/error.hpp"

namespace speed::fs {

namespace {

constexpr int most_takings = 16;  // each after another predecessor came in between

}  // namespace

// Seals, reads, publishes, and looks whether that held: a predecessor that publishes later finds this cursor and stops.
std::optional<wire::Cursor> LaneReader::take_over(const Surroundings& around) {
  is_again_ = std::ranges::find(listing_.cursors, generation_) != listing_.cursors.end();
  std::optional<wire::Cursor> before;
  for (int tries = 0; tries < most_takings && !is_published_; ++tries) {
    check_newest();
    seal_predecessors();
    const std::uint64_t damaged = count_of("cursors_damaged");
    before = recover(around);
    try {
      if (count_of("cursors_damaged") != damaged) keep_nothing();
      publish(cursor());
    } catch (const std::system_error&) {
      count(core::counters::commits_failed);
      dirty_ = std::max<std::uint64_t>(1, dirty_);
      return before;
    }
  }
  is_published_ = true;
  return before;
}

// What a predecessor had begun is not known: an empty file decides nothing.
void LaneReader::keep_nothing() {
  has_start_ = true;
  if (is_again_ || std::ranges::find(listing_.starts, generation_) != listing_.starts.end()) return;
  files_.write_start(generation_, std::nullopt);
}

std::uint64_t LaneReader::count_of(const std::string& what) const {
  const auto found = counts_.find(what);
  return found == counts_.end() ? 0 : found->second;
}

// One of the own generation that a successor sealed tells the same as the successor's.
void LaneReader::check_newest() const {
  const bool is_replaced =
      !listing_.cursors.empty() && (listing_.cursors.front() > generation_ ||
                                    (is_again_ && !files_.has_cursor() && !files_.is_writable(generation_)));
  if (is_replaced) throw LeaseLostError("a newer process reads the lane of '" + source_ + "': this one was replaced");
}

void LaneReader::seal_predecessors() {
  for (const std::uint32_t generation : listing_.cursors) {
    if (generation < generation_) files_.seal(generation);
  }
}

// Not those of another member of a group.
bool LaneReader::can_seal() {
  seal_predecessors();
  return !has_unsealed();
}

bool LaneReader::has_unsealed() const {
  return std::ranges::any_of(listing_.cursors, [&](std::uint32_t generation) {
    return generation < generation_ && files_.is_writable(generation);
  });
}

// The first cursor of this process: without the mark, until a second listing has shown that nobody came in between.
void LaneReader::publish(wire::Cursor cursor) {
  files_.write_cursor(cursor);
  listing_ = files_.list();
  check_newest();
  const bool unsealed = has_unsealed();
  if (!is_again_ && !is_remote_ && !unsealed) {
    sealed_ = cursor.sealed = true;
    files_.write_cursor(cursor);
  }
  is_published_ = is_again_ || !unsealed || !can_seal();
  first_ = cursor;
  committed_generation_ = cursor.position.generation;
  dirty_ = 0;
}

bool LaneReader::keep_start() {
  if (has_start_) return true;
  if (!is_published_) return false;
  try {
    if (std::ranges::find(listing_.starts, generation_) == listing_.starts.end()) {
      files_.write_start(generation_, first_);
      listing_.starts.insert(listing_.starts.begin(), generation_);
    }
  } catch (const std::system_error&) {
    count(core::counters::starts_failed);
    return false;
  }
  has_start_ = true;
  for (; listing_.starts.size() > wire::limits::max_starts; listing_.starts.pop_back()) {
    files_.remove(wire::start_name(listing_.starts.back()));
  }
  return true;
}

// The part of LaneReader that counts how often messages that came again were begun (L-25).

std::uint32_t LaneReader::deliveries(std::uint64_t sequence) const {
  const auto found = deliveries_.find(sequence);
  return found == deliveries_.end() ? 1 : found->second;
}

void LaneReader::begin_again(std::uint64_t sequence, std::uint32_t count) {
  deliveries_[sequence] = count;
  write_deliveries();
}

// Takes over what the newest authentic file says; those of older generations go once there is one of this.
void LaneReader::read_deliveries() {
  for (const std::uint32_t generation : listing_.deliveries) {
    if (generation > generation_) continue;
    if (auto found = files_.read_deliveries(generation)) {
      deliveries_ = std::move(*found);
      break;
    }
    count(core::counters::deliveries_damaged);
  }
  if (!deliveries_.empty()) write_deliveries();
  const bool is_kept = std::ranges::find(listing_.deliveries, generation_) != listing_.deliveries.end();
  for (const std::uint32_t generation : listing_.deliveries) {
    if (generation < generation_ && (is_kept || deliveries_.empty())) files_.remove(wire::deliveries_name(generation));
  }
}

// Without those that are finished. A count that cannot be written is one less after a crash.
void LaneReader::write_deliveries() {
  std::erase_if(deliveries_,
                [&](const auto& one) { return one.first <= link_.last_sequence() && !progress_.holds(one.first); });
  while (deliveries_.size() > wire::max_deliveries_listed) deliveries_.erase(deliveries_.begin());
  try {
    files_.write_deliveries(generation_, deliveries_);
    if (std::ranges::find(listing_.deliveries, generation_) == listing_.deliveries.end()) {
      listing_.deliveries.push_back(generation_);
    }
  } catch (const std::system_error&) {
    count(core::counters::deliveries_failed);
  }
}

}  // namespace speed::fs
