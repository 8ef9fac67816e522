#include "runtime/log.hpp"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <thread>
#include <utility>

#include "fs/bell.hpp"
#include "fs/clock.hpp"
#include "wire/harmless.hpp"

namespace speed {

namespace {

constexpr std::size_t max_characters = 4096;  // of one line
constexpr std::size_t max_waiting = 1024;  // lines; further ones are dropped, for a sink that hangs must cost no memory

struct Line {
  LogLevel level;
  std::string logger;
  std::string text;
};

// The lines of this process on their way to its sink.
class Outlet {
 public:
  void set(LogSink sink) {
    const std::lock_guard guard(lock_);
    sink_ = sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
  }

  void put(Line line) {
    const std::lock_guard guard(lock_);
    if (sink_ == nullptr || lines_.size() >= max_waiting) return;
    lines_.push_back(std::move(line));
    if (!std::exchange(writes_, true)) begin();
    there_.notify_one();
  }

 private:
  void begin() {
    std::thread([this] {
      fs::block_signals();
      write();
    }).detach();
  }

  [[noreturn]] void write() {
    while (true) {
      std::unique_lock guard(lock_);
      there_.wait(guard, [&] { return !lines_.empty(); });
      const Line line = std::move(lines_.front());
      lines_.pop_front();
      const auto sink = sink_;
      guard.unlock();
      if (sink == nullptr) continue;
      try {
        (*sink)(line.level, line.logger, line.text);
      } catch (...) {  // a sink that fails has nowhere to say so
      }
    }
  }

  std::mutex lock_;  // guards what follows
  std::condition_variable there_;
  std::shared_ptr<const LogSink> sink_;
  std::deque<Line> lines_;
  bool writes_ = false;
};

// Never destroyed: its thread goes on while the process ends.
std::atomic<Outlet*> made = nullptr;
pid_t maker = -1;

// A forked child begins with an outlet of its own: the lock of its parent's may be held by a thread that stayed there.
Outlet& outlet() {
  static std::mutex* const lock = [] {
    static std::mutex one;
    return &one;
  }();
  Outlet* known = made;
  if (known != nullptr && maker == getpid()) return *known;
  const std::lock_guard guard(*lock);
  if (made == nullptr || maker != getpid()) {
    maker = getpid();
    made = new Outlet;  // NOLINT: kept for ever on purpose
  }
  return *made;
}

}  // namespace

void set_log(LogSink sink) { outlet().set(std::move(sink)); }

namespace runtime {

void Log::always(LogLevel level, std::string_view logger, const std::string& text) const {
  outlet().put({level, std::string(logger), "'" + node_ + "': " + wire::harmless(text, max_characters)});
}

void Log::rarely(LogLevel level, std::string_view logger, std::string_view kind, const std::string& text) {
  std::uint64_t left_out = 0;
  {
    const std::lock_guard guard(lock_);
    auto found = kinds_.find(kind);
    if (found == kinds_.end()) {
      if (kinds_.size() >= max_kinds) return;
      found = kinds_.emplace(kind, Kind{}).first;
    }
    const double now = fs::monotonic_seconds();
    if (now < found->second.quiet_until) {
      ++found->second.left_out;
      return;
    }
    found->second.quiet_until = now + quiet_seconds;
    left_out = std::exchange(found->second.left_out, 0);
  }
  always(level, logger, left_out == 0 ? text : text + " (" + std::to_string(left_out) + " more like it before)");
}

}  // namespace runtime

}  // namespace speed
