#include "core/progress.hpp"

#include <algorithm>

namespace speed::core {

void Progress::redispatched(const wire::Unfinished& entry) {
  pending_.push_back({entry.sequence, entry.start, entry.start.offset, 0, 0, entry.begun});
}

// Most are finished in order: the first place is looked at first.
std::deque<Progress::Pending>::iterator Progress::find(std::uint64_t sequence) {
  if (!pending_.empty() && pending_.front().sequence == sequence) return pending_.begin();
  const auto found = std::ranges::lower_bound(pending_, sequence, {}, &Pending::sequence);
  return found != pending_.end() && found->sequence == sequence ? found : pending_.end();
}

bool Progress::holds(std::uint64_t sequence) const {
  return std::ranges::binary_search(pending_, sequence, {}, &Pending::sequence);
}

void Progress::found_again(std::uint64_t sequence, std::uint64_t end, std::uint64_t in_slot) {
  const auto found = find(sequence);
  if (found == pending_.end()) return;
  found->end = end;
  found->in_slot = in_slot;
  bytes_ += found->bytes();
}

void Progress::dispatched(std::uint64_t sequence, const wire::Position& start, std::uint64_t end,
                          std::uint64_t in_slot) {
  pending_.push_back({sequence, start, end, tail_sequence_, in_slot, false});
  bytes_ += pending_.back().bytes();
  tail_ = start;
  tail_.offset = end;
  tail_sequence_ = sequence;
}

std::uint64_t Progress::finish(std::uint64_t sequence) {
  const auto found = find(sequence);
  if (found == pending_.end()) return 0;
  const Pending done = *found;
  pending_.erase(found);
  pass(done);
  bytes_ -= done.bytes();
  return done.bytes();
}

void Progress::begin(std::uint64_t sequence) {
  const auto found = find(sequence);
  if (found == pending_.end()) return;
  found->begun = true;
  pass(*found);
}

void Progress::pass(const Pending& one) {
  if (one.sequence <= done_sequence_) return;
  done_sequence_ = one.sequence;
  done_ = one.start;
  done_.offset = one.end;
}

wire::Cursor Progress::cursor(std::uint32_t receiver_generation, bool clean) const {
  if (pending_.empty()) return {receiver_generation, tail_, tail_sequence_, {}, clean};
  wire::Cursor cursor{receiver_generation, done_, done_sequence_, {}, clean};
  for (const Pending& one : pending_) {
    if (one.sequence > cursor.last_sequence) break;
    if (cursor.unfinished.size() == wire::limits::max_unfinished) {
      cursor.position = one.start;
      cursor.last_sequence = one.previous;
      break;
    }
    cursor.unfinished.push_back({one.sequence, one.start, one.begun});
  }
  return cursor;
}

}  // namespace speed::core
