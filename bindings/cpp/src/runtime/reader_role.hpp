// The role of the thread that reads the lanes: held by one thread at a time, and handed on.
// Threads: all methods may be called from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace speed::runtime {

class ReaderRole {
 public:
  bool try_take() {
    const std::lock_guard guard(lock_);
    return !std::exchange(held_, true);
  }
  void give_up() {
    const std::lock_guard guard(lock_);
    held_ = false;
    free_.notify_all();
  }
  bool is_held() const {
    const std::lock_guard guard(lock_);
    return held_;
  }
  void wait_until_free(double seconds) const {
    std::unique_lock guard(lock_);
    free_.wait_for(guard, std::chrono::duration<double>(seconds), [&] { return !held_; });
  }

 private:
  mutable std::mutex lock_;
  mutable std::condition_variable free_;
  bool held_ = false;
};

}  // namespace speed::runtime
