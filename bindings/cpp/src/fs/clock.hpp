// The two clocks: Unix time for people and deadlines that travel, CLOCK_MONOTONIC for everything else.
#pragma once

#include <chrono>
#include <cstdint>

namespace speed::fs {

inline std::int64_t unix_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

// One clock for all processes of a boot (libstdc++'s steady clock is CLOCK_MONOTONIC).
inline std::int64_t monotonic_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

inline double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace speed::fs
