#include "engine/link/group_flush.hpp"

#include <algorithm>

namespace speed::engine {

void GroupFlush::wait(std::uint64_t counter, const std::function<std::uint64_t()>& flush) {
  UniqueLock guard(lock_);
  over_.wait(guard, [&]() SPEED_REQUIRES(lock_) { return covered_ >= counter || !is_under_way_; });
  if (covered_ >= counter) return;
  is_under_way_ = true;
  guard.unlock();
  std::uint64_t covered = 0;
  try {
    covered = flush();
  } catch (...) {
    end(0);
    throw;
  }
  end(covered);
}

void GroupFlush::end(std::uint64_t covered) {
  const MutexLock guard(lock_);
  covered_ = std::max(covered_, covered);
  is_under_way_ = false;
  over_.notify_all();
}

}  // namespace speed::engine
