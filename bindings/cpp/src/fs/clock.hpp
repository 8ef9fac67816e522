// The two clocks: Unix time for people and deadlines that travel, CLOCK_MONOTONIC for everything else. And the one that
// the kernel stamps files with. What processes of one boot compare is that of the initial time namespace.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "wire/time.hpp"

namespace speed::fs {

// How far the clocks of this process are ahead of those of the initial time namespace.
struct ClockOffsets {
  std::int64_t monotonic_ns = 0;
  std::int64_t boottime_ns = 0;
  std::string space;  // the own one, if these are unknown: then nothing can be compared with others
};

const ClockOffsets& clock_offsets();
// What /proc/self/timens_offsets says.
ClockOffsets parse_clock_offsets(const std::string& text);

inline std::int64_t unix_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

// One clock for all processes of a boot (libstdc++'s steady clock is CLOCK_MONOTONIC).
inline std::int64_t monotonic_ms() {
  using namespace std::chrono;
  const nanoseconds now = steady_clock::now().time_since_epoch();
  return duration_cast<milliseconds>(now - nanoseconds(clock_offsets().monotonic_ns)).count();
}

// One clock for all processes of a boot, which goes on while the machine sleeps and never jumps.
inline std::int64_t boot_ms() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec - clock_offsets().boottime_ns) / 1'000'000;
}

// Modification times are taken from this clock, which ticks every few milliseconds.
inline std::int64_t file_clock_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

inline TimePoint monotonic_now() { return std::chrono::steady_clock::now(); }
inline WallTime wall_now() { return std::chrono::system_clock::now(); }

}  // namespace speed::fs
