#include "runtime/group_flush.hpp"

namespace speed::runtime {

void GroupFlush::wait(std::uint64_t counter, const std::function<std::uint64_t()>& flush) {
  std::unique_lock guard(lock_);
  over_.wait(guard, [&] { return covered_ >= counter || !is_under_way_; });
  if (covered_ >= counter) return;
  is_under_way_ = true;
  guard.unlock();
  const std::uint64_t covered = flush();
  guard.lock();
  covered_ = covered;
  is_under_way_ = false;
  over_.notify_all();
}

}  // namespace speed::runtime
