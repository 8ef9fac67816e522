#include "engine/log_limiter.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <ctime>
#include <deque>
#include <memory>
#include <thread>
#include <utility>

#include "fs/bell.hpp"
#include "fs/clock.hpp"
#include "fs/process.hpp"
#include "wire/mutex.hpp"
#include "wire/names/harmless.hpp"

namespace speed {

namespace {

constexpr std::size_t max_characters = 4096;  // of one line
constexpr std::size_t max_waiting = 1024;  // lines; further ones are dropped, for a sink that hangs must cost no memory

struct Line {
  LogLevel level;
  std::string logger;
  std::string text;
};

// One write for a line, so that those of several processes do not mix; "2026-01-31T12:00:00Z error speed.spc: ...".
void write_on_stderr(LogLevel level, std::string_view logger, std::string_view text) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::array<char, 32> time{};
  if (gmtime_r(&now, &utc) != nullptr) std::strftime(time.data(), time.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  std::string line = time.data();
  line.append(" ").append(name_of(level)).append(" ").append(logger).append(": ").append(text).append("\n");
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // there is nowhere to say so
}

// The lines of one process on their way to its sink.
class Outlet {
 public:
  const pid_t maker = getpid();

  void set(LogSink sink, LogLevel least) {
    const MutexLock guard(lock_);
    sink_ = sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
    least_ = least;
  }

  void put(Line line) {
    const MutexLock guard(lock_);
    if (sink_ == nullptr || line.level < least_ || lines_.size() >= max_waiting) return;
    lines_.push_back(std::move(line));
    if (!std::exchange(writes_, true)) begin();
    there_.notify_one();
  }

 private:
  void begin() {
    std::thread([this] {
      fs::block_signals();
      fs::name_thread("speed-log");
      write();
    }).detach();
  }

  [[noreturn]] void write() {
    while (true) {
      UniqueLock guard(lock_);
      there_.wait(guard, [&]() SPEED_REQUIRES(lock_) { return !lines_.empty(); });
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

  Mutex lock_;
  Condition there_;
  std::shared_ptr<const LogSink> sink_ SPEED_GUARDED_BY(lock_);
  LogLevel least_ SPEED_GUARDED_BY(lock_) = LogLevel::debug;
  std::deque<Line> lines_ SPEED_GUARDED_BY(lock_);
  bool writes_ SPEED_GUARDED_BY(lock_) = false;
};

// Never destroyed: its thread goes on while the process ends.
std::atomic<Outlet*> made = nullptr;
std::atomic<bool> is_set = false;  // the program chose: a forked child of it stays silent until it chooses again

// A forked child begins with an outlet of its own: the lock of its parent's may be held by a thread that stayed there.
Outlet& outlet() {
  Outlet* known = made;
  if (known != nullptr && known->maker == getpid()) return *known;
  auto fresh = std::make_unique<Outlet>();
  if (!is_set) fresh->set(write_on_stderr, LogLevel::warning);
  if (!made.compare_exchange_strong(known, fresh.get())) return *known;  // another thread of this process made one
  return *fresh.release();  // kept for ever on purpose
}

}  // namespace

void set_log(LogSink sink, LogLevel least) {
  is_set = true;
  outlet().set(std::move(sink), least);
}

std::string_view name_of(LogLevel level) noexcept {
  constexpr std::array<std::string_view, 4> names{"debug", "info", "warning", "error"};
  return names[static_cast<std::size_t>(level)];
}

namespace engine {

void LogLimiter::always(LogLevel level, std::string_view logger, const std::string& text) const {
  outlet().put({level, std::string(logger), "'" + node_ + "': " + wire::harmless(text, max_characters)});
}

void LogLimiter::limited(LogLevel level, std::string_view logger, std::string_view kind, const std::string& text,
                         Duration quiet) {
  if (const auto left_out = due(kind, quiet)) counted(level, logger, text, *left_out);
}

void LogLimiter::limited(LogLevel level, std::string_view logger, std::string_view kind,
                         const std::function<std::string()>& make) {
  if (const auto left_out = due(kind, quiet_time)) counted(level, logger, make(), *left_out);
}

std::optional<std::uint64_t> LogLimiter::due(std::string_view kind, Duration quiet) {
  const MutexLock guard(lock_);
  auto found = kinds_.find(kind);
  if (found == kinds_.end()) {
    if (kinds_.size() >= max_kinds) return std::nullopt;
    found = kinds_.emplace(kind, Kind{}).first;
  }
  const TimePoint now = fs::monotonic_now();
  if (now < found->second.quiet_until) {
    ++found->second.left_out;
    return std::nullopt;
  }
  found->second.quiet_until = now + quiet;
  return std::exchange(found->second.left_out, 0);
}

void LogLimiter::counted(LogLevel level, std::string_view logger, const std::string& text,
                         std::uint64_t left_out) const {
  always(level, logger, left_out == 0 ? text : text + " (" + std::to_string(left_out) + " more like it before)");
}

}  // namespace runtime

}  // namespace speed
