// Spans of time that a program gives, as numbers that no sum of them with a clock overflows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "speed/error.hpp"
#include "speed/seconds.hpp"

namespace speed::engine {

inline constexpr double max_timeout_seconds = 1e9;

// ConfigurationError, which names the span, for what is no number or too large; below 0 it is over already.
inline double in_seconds(std::string_view name, Seconds span) {
  if (span.count() > -max_timeout_seconds && span.count() < max_timeout_seconds) return span.count();
  throw ConfigurationError(std::string(name) + " is " + std::to_string(span.count()) +
                           " s; use one below 1000000000 s");
}

// Likewise, whole milliseconds as they travel, 0 at least.
inline std::int64_t in_milliseconds(std::string_view name, Seconds span) {
  return std::max<std::int64_t>(0, std::llround(in_seconds(name, span) * 1000));
}

}  // namespace speed::engine
