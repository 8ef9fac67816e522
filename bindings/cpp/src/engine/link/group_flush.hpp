// Group commit: what many threads appended is flushed once for all of them (L-7).
// Threads: all methods may be called from any thread. Its lock is never held while anything is flushed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

namespace speed::engine {

class GroupFlush {
 public:
  // Returns once a flush is over that began when `counter` had been appended, whether it failed or not. One of those who
  // wait does it: `flush` returns the counter up to which things had been appended when it began. What it throws goes to
  // that one alone, and another one flushes.
  void wait(std::uint64_t counter, const std::function<std::uint64_t()>& flush);

 private:
  void end(std::uint64_t covered);

  std::mutex lock_;
  std::condition_variable over_;
  std::uint64_t covered_ = 0;
  bool is_under_way_ = false;
};

}  // namespace speed::engine
