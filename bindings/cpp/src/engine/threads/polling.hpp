// Whether to poll for a moment before blocking on the bell: waking an idle core costs several times what a round trip
// costs. Polling goes on while it pays, stops costing anything while it does not, and rests while others want the core:
// who polls among many uses up its share, and waits for it longer than any wake-up takes.
// Threads: for the holder of the reader's role.
#pragma once

#include <algorithm>
#include <utility>

namespace speed::engine {

class Polling {
 public:
  explicit Polling(double length) : seconds(length) {}

  const double seconds;  // how long at a time; 0: never

  bool pays(double now) const { return seconds > 0 && credit_ > 0 && now >= rests_until_; }
  void hit() {
    credit_ = full_credit;
    ++hits_;
  }
  void missed() { --credit_; }
  // A wait on the bell ended after this time: had it been polled, would something have come?
  void blocked_for(double waited) {
    if (waited < 2 * seconds && credit_ < full_credit) ++credit_;
  }

  // Between two looks this time passed: was the core taken away? Twice the rest where that comes soon after the last
  // one, before polling has paid for long: an accident costs little, and a crowd is soon left alone.
  bool is_crowded(double gap, double now) {
    if (gap < crowd_seconds) return false;
    const bool is_soon = now < rests_until_ + soon * rest_seconds_;
    const bool has_paid = std::exchange(hits_, 0) >= paid;
    rest_seconds_ = is_soon && !has_paid ? std::min(2 * rest_seconds_, longest_rest) : shortest_rest;
    rests_until_ = now + rest_seconds_;
    return true;
  }

 private:
  static constexpr int full_credit = 8;
  static constexpr double crowd_seconds = 200e-6;
  static constexpr int paid = 100;
  static constexpr double soon = 10;  // times the last rest
  static constexpr double shortest_rest = 0.0005;
  static constexpr double longest_rest = 0.05;
  int credit_ = 1;
  int hits_ = 0;  // since the last rest
  double rest_seconds_ = shortest_rest;
  double rests_until_ = 0;
};

// A core of its own for a thread that polls. Who rings has the kernel wake the reader on the ringing thread's core,
// where the two then poll by turns while another core idles, until the balancer looks (registry_spec/decisions/0033).
// Threads: for the holder of the reader's role.

class OwnCore {
 public:
  static constexpr int patience = 4;
  static constexpr double rest_seconds = 0.004;  // at least, between two moves: they cost tens of microseconds

  // Of two processes that share a core only one has to leave: who both did, and met again, rest for different times.
  explicit OwnCore(int process_id = 0);

  // A look and a yield took this long.
  void looked(double seconds) { shared_ |= seconds > turn_seconds; }
  // A poll brought something: whether it is time to leave this core, after several in a row by turns with another.
  bool hit(double now);

 private:
  static constexpr double turn_seconds = 4e-6;  // alone they take 1 µs: meanwhile somebody ran here
  double spread_;  // 1 to 2, and far apart for processes with neighbouring ids
  bool shared_ = false;
  int turns_ = 0;  // since the last poll that was not by turns
  double rests_until_ = 0;
};

// Moves the calling thread to another core that it may use, and leaves its affinity as it was. False without one.
bool leave_this_core();

}  // namespace speed::engine
