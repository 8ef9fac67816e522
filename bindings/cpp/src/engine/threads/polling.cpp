#include "engine/threads/polling.hpp"

#include <sched.h>

#include <cmath>
#include <utility>

namespace speed::engine {

namespace {
constexpr double golden_ratio = 0.618034;
}

OwnCore::OwnCore(int process_id) : spread_(1 + std::fmod(process_id * golden_ratio, 1)) {}

bool OwnCore::hit(TimePoint now) {
  if (!std::exchange(shared_, false)) {
    turns_ = 0;
    return false;
  }
  if (++turns_ < patience || now < rests_until_) return false;
  turns_ = 0;
  rests_until_ = now + std::chrono::duration_cast<Duration>(spread_ * shortest_rest);
  return true;
}

bool leave_this_core() {
  cpu_set_t allowed;
  const int here = sched_getcpu();
  if (here < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  cpu_set_t others = allowed;
  CPU_CLR(static_cast<std::size_t>(here), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return false;
  sched_setaffinity(0, sizeof allowed, &allowed);
  return true;
}

}  // namespace speed::engine
