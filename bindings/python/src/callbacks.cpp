#include "callbacks.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "convert.hpp"
#include "errors.hpp"
#include "runtime/message_state.hpp"

namespace speed::python {

namespace {

nb::object call(const Kept& callable, nb::handle arguments) {
  PyObject* const answer = guarded([&] { return PyObject_Call(callable.get(), arguments.ptr(), nullptr); });
  if (answer == nullptr) throw nb::python_error();
  return nb::steal(answer);
}

Response response_of(nb::handle answer) {
  const nb::tuple parts = nb::cast<nb::tuple>(answer);
  if (parts[1].is_none()) return to_value(parts[0], "result");
  Response response = Response::error(nb::cast<std::string>(parts[1]), nb::cast<std::string>(nb::str(parts[2])));
  try {
    const Value details = to_value(nb::dict(parts[3]), "details");
    if (const auto* const map = details.get_if<Map>()) response.details = *map;
  } catch (const UnserialisableError&) {
    // The error itself matters more than what it carries.
  }
  return response;
}

nb::tuple texts(const std::vector<std::string>& names) {
  nb::list list;
  for (const std::string& name : names) list.append(name);
  return nb::tuple(list);
}

// What Python raised, as an exception that needs no interpreter lock.
template <class Run>
auto translated(Run run) {
  std::string failure;
  try {
    return run();
  } catch (const nb::python_error& error) {
    if (is_wire_error(error)) throw wire_error(error);
    failure = described(error);
  }
  throw ExecutionFailedError(failure);
}

}  // namespace

Response PythonService::invoke(const Request& request) {
  const Taken taken;
  return translated([&] {
    const nb::tuple arguments =
        nb::make_tuple(request.service, python::to_object(request.arguments), request.caller, request.request_id,
                       request.deadline_ms, request.traceparent);
    try {
      return response_of(call(answer_, arguments));
    } catch (const UnserialisableError& error) {
      return Response::error("EXECUTION_FAILED", std::string("the result cannot be sent: ") + error.what());
    }
  });
}

Node::MessageHandler message_handler(nb::handle handle) {
  return [kept = Kept(handle.ptr())](Message& message) {
    const Taken taken;
    translated([&] { return call(kept, to_tuple(message)); });
  };
}

Node::BatchHandler batch_handler(nb::handle handle) {
  return [kept = Kept(handle.ptr())](std::vector<Message>& messages) {
    const Taken taken;
    return translated([&] {
      nb::list batch;
      for (const Message& message : messages) batch.append(to_tuple(message));
      Node::Refusals refused;
      for (nb::handle pair : call(kept, nb::make_tuple(batch))) {
        refused.emplace(nb::cast<std::size_t>(pair[0]), nb::cast<std::string>(pair[1]));
      }
      return refused;
    });
  };
}

Node::NodeHandler node_handler(nb::handle handle) {
  return [kept = Kept(handle.ptr())](const NodeInfo& info) {
    const Taken taken;
    translated([&] { return call(kept, nb::make_tuple(to_object(info))); });
  };
}

nb::object to_tuple(const Message& message) {
  return nb::make_tuple(message, bytes_of(message.state().view.bytes()), message.source(), message.sequence(),
                        message.timestamp_ms(), message.redelivered());
}

nb::object to_object(const NodeInfo& info) {
  nb::dict entry;
  entry["name"] = info.name;
  entry["generation"] = info.generation;
  entry["pid"] = info.pid;
  entry["pid_start"] = info.pid_start;
  entry["pid_namespace"] = info.pid_namespace;
  entry["host"] = info.host;
  entry["boot_id"] = info.boot_id;
  entry["startup_timestamp"] = info.startup_timestamp;
  entry["last_heartbeat"] = info.last_heartbeat;
  entry["heartbeat_monotonic_ms"] = info.heartbeat_monotonic_ms;
  entry["lease"] = info.lease;
  entry["heartbeat_interval"] = info.heartbeat_interval;
  entry["status"] = info.status;
  entry["fabrics"] = texts(info.fabrics);
  entry["allow"] = texts(info.allow);
  entry["subscriptions"] = texts(info.subscriptions);
  entry["language"] = info.language;
  entry["version"] = info.version;
  return entry;
}

}  // namespace speed::python
