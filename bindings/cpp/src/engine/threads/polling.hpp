// Whether to poll for a moment before blocking on the bell: waking an idle core costs several times what a round trip
// costs. Polling goes on while it pays, stops costing anything while it does not, and rests while others want the core:
// who polls among many uses up its share, and waits for it longer than any wake-up takes.
// Threads: for the holder of the reader's role.
#pragma once

#include <algorithm>
#include <utility>

#include "wire/time.hpp"

namespace speed::engine {

class Polling {
 public:
  explicit Polling(Duration length) : span(length) {}

  const Duration span;  // how long at a time; 0: never

  bool pays(TimePoint now) const { return span > Duration::zero() && credit_ > 0 && now >= rests_until_; }
  void hit() {
    credit_ = full_credit;
    ++hits_;
  }
  void missed() { --credit_; }
  // A wait on the bell ended after this time: had it been polled, would something have come?
  void blocked_for(Duration waited) {
    if (waited < 2 * span && credit_ < full_credit) ++credit_;
  }

  // Between two looks this time passed: was the core taken away? Twice the rest where that comes soon after the last
  // one, before polling has paid for long: an accident costs little, and a crowd is soon left alone.
  bool is_crowded(Duration gap, TimePoint now) {
    if (gap < crowd_gap) return false;
    const bool is_soon = now < rests_until_ + soon * rest_;
    const bool has_paid = std::exchange(hits_, 0) >= paid;
    rest_ = is_soon && !has_paid ? std::min(2 * rest_, longest_rest) : shortest_rest;
    rests_until_ = now + rest_;
    return true;
  }

 private:
  static constexpr int full_credit = 8;
  static constexpr Duration crowd_gap = 200us;
  static constexpr int paid = 100;
  static constexpr int soon = 10;  // times the last rest
  static constexpr Duration shortest_rest = 500us;
  static constexpr Duration longest_rest = 50ms;
  int credit_ = 1;
  int hits_ = 0;  // since the last rest
  Duration rest_ = shortest_rest;
  TimePoint rests_until_ = {};
};

// A core of its own for a thread that polls. Who rings has the kernel wake the reader on the ringing thread's core,
// where the two then poll by turns while another core idles, until the balancer looks (registry_spec/decisions/0033).
// Threads: for the holder of the reader's role.

class OwnCore {
 public:
  static constexpr int patience = 4;
  static constexpr Duration shortest_rest = 4ms;  // at least, between two moves: they cost tens of microseconds

  // Of two processes that share a core only one has to leave: who both did, and met again, rest for different times.
  explicit OwnCore(int process_id = 0);

  // A look and a yield took this long.
  void looked(Duration span) { shared_ |= span > longest_turn; }
  // A poll brought something: whether it is time to leave this core, after several in a row by turns with another.
  bool hit(TimePoint now);

 private:
  static constexpr Duration longest_turn = 4us;  // alone they take 1 µs: meanwhile somebody ran here
  double spread_;  // 1 to 2, and far apart for processes with neighbouring ids
  bool shared_ = false;
  int turns_ = 0;  // since the last poll that was not by turns
  TimePoint rests_until_ = {};
};

// Moves the calling thread to another core that it may use, and leaves its affinity as it was. False without one.
bool leave_this_core();

}  // namespace speed::engine
