// What the nodes of this process have to say to who runs them: each exception that leaves a service, handler or callback,
// with who called, the id of the request or message, and what it said; never arguments or payloads. Other trouble is told
// with one line of its kind in ten seconds.
// Threads: `set_log` may be called at any time from any thread. The sink runs on a thread of its own, one line at a time,
// and never while a lock of the library is held: it may take its time, and any lock.
#pragma once

#include <functional>
#include <string_view>

#include "speed/export.hpp"

namespace speed {

enum class LogLevel { debug, info, warning, error };

// `logger` is one of speed.protocol, speed.spc, speed.messages, speed.registry.
using LogSink = std::function<void(LogLevel level, std::string_view logger, std::string_view text)>;

// Hands all lines from now on to `sink`, those below `least` excepted; an empty one keeps the library silent. At first
// warnings and errors go to standard error, with time, level and logger.
//   speed::set_log([](speed::LogLevel, std::string_view logger, std::string_view text) { my_log(logger, text); });
SPEED_EXPORT void set_log(LogSink sink, LogLevel least = LogLevel::debug);

SPEED_EXPORT std::string_view name_of(LogLevel level) noexcept;  // "debug", "info", "warning", "error"

}  // namespace speed
