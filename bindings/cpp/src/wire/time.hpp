// Spans and instants as all of the library has them: std::chrono, in nanoseconds. Decisions are given instants as
// values; fs/clock.hpp reads the clocks. What a program gave is checked on its way in (engine/span.hpp).
#pragma once

#include <algorithm>
#include <chrono>

#include "speed/seconds.hpp"

namespace speed {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;  // what programs and people do not set
using WallTime = std::chrono::time_point<std::chrono::system_clock, Duration>;

using namespace std::chrono_literals;

inline constexpr TimePoint never = TimePoint::max();  // to be compared with; nothing is added to it or taken from it

// Of what was read or calculated: the nearest span within 126 years, which no sum of two overflows; 0 for no number.
constexpr Duration saturated(Seconds span) {
  constexpr Seconds most(4e9);
  return span == span ? std::chrono::round<Duration>(std::clamp(span, -most, most)) : Duration::zero();
}

constexpr double in_seconds(Duration span) { return std::chrono::duration_cast<Seconds>(span).count(); }

}  // namespace speed
