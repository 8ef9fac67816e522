// Hints that nodes came or went: inotify where it can be had, a timer elsewhere.
// Heartbeats overwrite entries in place and wake nobody: only creations, moves and deletions are watched.
// Threads: one thread waits and asks `is_polling`; `watch` and `wake` may come from any.
#pragma once

#include <atomic>
#include <string>

#include "fs/files.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::fs {

class Watch {
 public:
  explicit Watch(const std::string& directory);

  // Waits for a hint, the time, or `wake`.
  void wait(Duration longest);
  void wake() noexcept;
  void close() noexcept;  // once nobody waits any more; a later `wake` does nothing
  void watch() noexcept;  // has the waiting thread watch from now on; without it only time and `wake` end a wait

  bool is_polling() const { return watching_ && !notify_; }

 private:
  void begin() noexcept;

  std::string directory_;
  std::atomic<bool> wanted_ = false;
  bool watching_ = false;
  Fd notify_;
  Mutex lock_;  // no wake may reach another file that has the number of a closed one
  Fd woken_;
};

}  // namespace speed::fs
