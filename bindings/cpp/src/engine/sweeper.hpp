// A node's share of sweeping: what others left in the root, a little at a time.
// Threads: `heard` may be called from any thread; `turn` is for the thread that renews the lease.
#pragma once

#include <functional>
#include <set>

#include "engine/context.hpp"
#include "fs/registry/sweep.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

// Looks through the registry about once a lease, and soon at names that are said to be gone.
class Sweeper {
 public:
  // `each_lease`: what to do once a lease, however many nodes there are. An ephemeral node is in no hurry: it may be gone
  // before its first round.
  Sweeper(Context& context, Duration lease, bool ephemeral, std::function<void()> each_lease);

  // A node is gone, or its lane is: if its name does not come back, it is forgotten soon.
  void note_gone(const std::string& name);
  void turn();  // sweeps for a short time; what is left is for the next turns

 private:
  void look_after_own(TimePoint now);
  bool sweep_one();
  std::optional<std::string> next_gone() SPEED_EXCLUDES(lock_);
  void begin_round_if_due();

  Context& context_;
  const Duration lease_;
  std::function<void()> each_lease_;
  TimePoint next_lease_;
  TimePoint next_round_;
  bool is_first_ = true;
  fs::Leftovers leftovers_;
  Mutex lock_;
  std::set<std::string> gone_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::engine
