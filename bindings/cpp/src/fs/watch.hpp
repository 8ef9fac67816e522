// Hints that nodes came or went: inotify where it can be had, a timer elsewhere.
// Heartbeats overwrite entries in place and wake nobody: only creations, moves and deletions are watched.
// Threads: one thread waits; `stop` may come from any.
#pragma once

#include <string>

#include "fs/files.hpp"

namespace speed::fs {

class Watch {
 public:
  explicit Watch(const std::string& directory);

  // Waits for a hint, the time, or `stop`.
  void wait(double seconds);
  void stop() noexcept;
  void watch() noexcept;  // from now on; without it only time and `stop` end a wait

  bool is_polling() const { return watching_ && !notify_; }

 private:
  std::string directory_;
  bool watching_ = false;
  Fd notify_;
  Fd stop_;
};

}  // namespace speed::fs
