// Spans of time that a program gives, checked: no sum of them with a clock overflows.
#pragma once

#include <string>
#include <string_view>

#include "speed/error.hpp"
#include "wire/time.hpp"

namespace speed::engine {

inline constexpr Seconds max_timeout(1e9);

// ConfigurationError, which names the span, for what is no number or too large; below 0 it is over already.
inline Duration duration_of(std::string_view name, Seconds span) {
  if (span > -max_timeout && span < max_timeout) return saturated(span);
  throw ConfigurationError(std::string(name) + " is " + std::to_string(span.count()) +
                           " s; use one below 1000000000 s");
}

// Likewise, whole milliseconds as they travel, 0 at least.
inline std::int64_t in_milliseconds(std::string_view name, Seconds span) {
  return std::max<std::int64_t>(0, std::chrono::round<std::chrono::milliseconds>(duration_of(name, span)).count());
}

}  // namespace speed::engine
