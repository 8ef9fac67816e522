// The verbs of a node for nodes of other hosts: `billing@hostb` is asked through the gateway of this root (H-2, H-3).
#pragma once

#include <string>

#include "engine/runtime.hpp"

namespace speed::engine::across {

// What the service `call` of the gateway takes. InvalidNameError for no name of another host's node.
Map asking(const std::string& target, const std::string& service, const Map& arguments);

// The result of a call; throws what ended it.
Value call(Runtime& node, const std::string& target, const std::string& service, const Map& arguments,
           const CallOptions& options);

// What the gateway answered to a question about `target`; an error of it is the exception that ended the call.
core::Outcome carried(core::Outcome answer, const std::string& target);

// An error of the way to the gateway, as it is thrown.
std::exception_ptr failed(const std::exception_ptr& thrown, const std::string& target, const std::string& service);

// The result of `ping`, `services`, `info` or `stats`.
Value ask(Runtime& node, const std::string& target, const char* operation, Seconds timeout);

// Messages that are encoded. NotAcknowledgedError where the other host does not say in time that it has them.
void send(Runtime& node, const std::string& target, Array messages, const SendOptions& options);

}  // namespace speed::engine::across
