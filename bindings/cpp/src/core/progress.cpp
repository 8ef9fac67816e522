#include "core/progress.hpp"

namespace speed::core {

void Progress::redispatched(const wire::Unfinished& entry) {
  pending_[entry.sequence] = {entry.start, entry.start.offset, 0};
}

void Progress::found_again(std::uint64_t sequence, std::uint64_t end) {
  if (const auto found = pending_.find(sequence); found != pending_.end()) found->second.end = end;
}

void Progress::dispatched(std::uint64_t sequence, const wire::Position& start, std::uint64_t end) {
  pending_.insert_or_assign(pending_.end(), sequence, Pending{start, end, tail_sequence_});
  tail_ = start;
  tail_.offset = end;
  tail_sequence_ = sequence;
}

std::uint64_t Progress::finish(std::uint64_t sequence) {
  const auto found = pending_.find(sequence);
  if (found == pending_.end()) return 0;
  const Pending done = found->second;
  pending_.erase(found);
  if (sequence > done_sequence_) {
    done_sequence_ = sequence;
    done_ = done.start;
    done_.offset = done.end;
  }
  return done.end - done.start.offset;
}

wire::Cursor Progress::cursor(std::uint32_t receiver_generation, bool clean) const {
  if (pending_.empty()) return {receiver_generation, tail_, tail_sequence_, {}, clean};
  wire::Cursor cursor{receiver_generation, done_, done_sequence_, {}, clean};
  for (const auto& [sequence, one] : pending_) {
    if (sequence > cursor.last_sequence) break;
    if (cursor.unfinished.size() == wire::limits::max_unfinished) {
      cursor.position = one.start;
      cursor.last_sequence = one.previous;
      break;
    }
    cursor.unfinished.push_back({sequence, one.start});
  }
  return cursor;
}

}  // namespace speed::core
