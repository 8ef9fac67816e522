// Python code that the core runs: services and handlers. Each takes the interpreter lock on the thread it is run on.
#pragma once

#include <nanobind/nanobind.h>

#include "gil.hpp"
#include "speed/node.hpp"

namespace speed::python {

namespace nb = nanobind;

// `answer(service, arguments, caller, request_id, deadline_ms, traceparent)` gives (result, code, message, details);
// it raises nothing.
class PythonService : public Service {
 public:
  explicit PythonService(nb::handle answer) : answer_(answer.ptr()) {}
  Response invoke(const Request& request) override;

 private:
  Kept answer_;
};

// `handle(received, data, source, sequence, timestamp_ms, redelivered)`.
Node::MessageHandler message_handler(nb::handle handle);

// `handle(batch)`: a list of what the handler of a message gets; it gives (place, text) pairs of those to refuse.
Node::BatchHandler batch_handler(nb::handle handle);

// `handle(fields)`: a registry entry as a dict.
Node::NodeHandler node_handler(nb::handle handle);

nb::object to_object(const NodeInfo& info);
// What `handle` of a message gets; `data` of a large one has an empty payload.
nb::object to_tuple(const Message& message);

}  // namespace speed::python
