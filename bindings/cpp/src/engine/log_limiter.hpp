// One line for each kind of thing that goes wrong, and not one for each time: the rest is counted.
// Lines are handed to a thread of their own, since whoever notices something may hold locks that the program's sink
// waits for, and must not wait itself.
// Threads: all methods may be called from any thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "speed/log.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

class LogLimiter {
 public:
  static constexpr Duration quiet_time = 10s;

  // The name that begins each line; set once, before the first.
  void names(const std::string& node) { node_ = node; }

  // One line of this kind in `quiet`; it says how many were left out before it.
  void limited(LogLevel level, std::string_view logger, std::string_view kind, const std::string& text,
               Duration quiet = quiet_time);
  // Likewise; the text is made only for a line that is written.
  void limited(LogLevel level, std::string_view logger, std::string_view kind,
               const std::function<std::string()>& make);
  void always(LogLevel level, std::string_view logger, const std::string& text) const;

 private:
  struct Kind {
    TimePoint quiet_until = {};
    std::uint64_t left_out = 0;
  };
  static constexpr std::size_t max_kinds = 256;

  // How many lines of this kind were left out before this one; none where this one is left out too.
  std::optional<std::uint64_t> due(std::string_view kind, Duration quiet);
  void counted(LogLevel level, std::string_view logger, const std::string& text, std::uint64_t left_out) const;

  std::string node_;
  Mutex lock_;
  std::map<std::string, Kind, std::less<>> kinds_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::engine
