// Sequence rules of one link on the receiving side: replay, gaps, generations (L-12, L-13).
// Threads: not thread-safe; the lane's lock guards it.
#pragma once

#include "wire/envelope.hpp"

namespace speed::core {

enum class SequenceVerdict { next, gap, duplicate, old_generation };  // the first two are accepted

class LinkReceiver {
 public:
  explicit LinkReceiver(std::uint64_t last_sequence = 0) : last_(last_sequence) {}

  // What a sequence means after the ones before it; remembered if it is accepted.
  SequenceVerdict judge(std::uint64_t sequence) {
    const std::uint64_t last = last_;
    const bool same = wire::generation_of(sequence) == wire::generation_of(last);
    if (sequence <= last) return same ? SequenceVerdict::duplicate : SequenceVerdict::old_generation;
    last_ = sequence;
    // Each generation starts at 1; what an older one wrote last cannot be known.
    const std::uint64_t expected = same ? wire::counter_of(last) + 1 : 1;
    return wire::counter_of(sequence) == expected ? SequenceVerdict::next : SequenceVerdict::gap;
  }

  std::uint64_t last_sequence() const { return last_; }

 private:
  std::uint64_t last_;
};

}  // namespace speed::core
