// Whether to poll the bell for a moment before blocking on it: waking an idle core costs several times what a round
// trip costs. Polling goes on while it pays, and stops costing anything while it does not.
// Threads: for the holder of the reader's role.
#pragma once

namespace speed::runtime {

class Polling {
 public:
  explicit Polling(double length) : seconds(length) {}

  const double seconds;  // how long at a time; 0: never

  bool pays() const { return seconds > 0 && credit_ > 0; }
  void hit() { credit_ = full_credit; }
  void missed() { --credit_; }
  // A wait on the bell ended after this time: had it been polled, would something have come?
  void blocked_for(double waited) {
    if (waited < 2 * seconds && credit_ < full_credit) ++credit_;
  }

 private:
  static constexpr int full_credit = 8;
  int credit_ = 1;
};

}  // namespace speed::runtime
