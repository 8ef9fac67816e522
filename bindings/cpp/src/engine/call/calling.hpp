// How a call of a program begins, and is waited for (S-4, S-16).
#pragma once

#include "engine/runtime.hpp"

namespace speed::engine {

// Begins a call; `completion` runs once unless this throws. Once `stop` is requested, the other side is told.
void start_call(Runtime& node, const Calls::Call& call, const std::stop_token& stop, core::Completion completion);

// The result of a call; throws what ended it.
Value call(Runtime& node, const std::string& target, const std::string& service, const Map& arguments,
           const CallOptions& options);

// Asks a node whether it answers at all (`heartbeat`), or about itself.
Value ask(Runtime& node, const std::string& target, wire::EnvelopeType type, Map body, Seconds timeout);

// What a node says of itself: SERVICES, INFO or STATS.
Map discover(Runtime& node, const std::string& target, const char* operation, Seconds timeout);

// The same of many, asked at once: one that hangs holds up none. Nothing of one that does not answer in time, or may not
// be asked; no room in a lane is waited for.
std::vector<std::optional<Map>> discover_each(Runtime& node, const std::vector<std::string>& targets,
                                              const char* operation, Seconds timeout);

}  // namespace speed::engine
