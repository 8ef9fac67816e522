// Spans of time, as options and time-outs take them.
#pragma once

#include <chrono>

namespace speed {

// Whatever std::chrono calls a duration becomes one: `5s`, `250ms`, `std::chrono::minutes(2)`.
using Seconds = std::chrono::duration<double>;

}  // namespace speed
