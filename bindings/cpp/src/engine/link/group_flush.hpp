// Group commit: what many threads appended is flushed once for all of them (L-7).
// Threads: all methods may be called from any thread. Its lock is never held while anything is flushed.
#pragma once

#include <cstdint>
#include <functional>

#include "wire/mutex.hpp"

namespace speed::engine {

class GroupFlush {
 public:
  // Returns once a flush is over that began when `counter` had been appended, whether it failed or not. One of those who
  // wait does it: `flush` returns the counter up to which things had been appended when it began. What it throws goes to
  // that one alone, and another one flushes.
  void wait(std::uint64_t counter, const std::function<std::uint64_t()>& flush);

 private:
  void end(std::uint64_t covered);

  Mutex lock_;
  Condition over_;
  std::uint64_t covered_ SPEED_GUARDED_BY(lock_) = 0;
  bool is_under_way_ SPEED_GUARDED_BY(lock_) = false;
};

}  // namespace speed::engine
