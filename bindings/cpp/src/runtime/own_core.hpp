// A core of its own for a thread that polls. Who rings has the kernel wake the reader on the ringing thread's core,
// where the two then poll by turns while another core idles, until the balancer looks (registry_spec/decisions/0033).
// Threads: for the holder of the reader's role.
#pragma once

namespace speed::runtime {

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

}  // namespace speed::runtime
