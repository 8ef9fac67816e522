// What the nodes of this process have to say to who runs them.
// Threads: `set_log` may be called at any time from any thread. The sink runs on a thread of its own, one line at a time,
// and never while a lock of the library is held: it may take its time, and any lock.
#pragma once

#include <functional>
#include <string_view>

namespace speed {

enum class LogLevel { debug, info, warning, error };

// `logger` is one of speed.protocol, speed.spc, speed.messages, speed.registry.
using LogSink = std::function<void(LogLevel level, std::string_view logger, std::string_view text)>;

// Hands all lines from now on to `sink`; an empty one keeps the library silent, as it is at first.
void set_log(LogSink sink);

}  // namespace speed
