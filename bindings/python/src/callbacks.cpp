#include "callbacks.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "channel.hpp"
#include "convert.hpp"
#include "errors.hpp"
#include "speed/embedding.hpp"
#include "speed/log.hpp"

namespace speed::python {

namespace {

// It stays for as long as it runs, even if the node lets go of it meanwhile.
nb::object call(const Kept& callable, nb::handle arguments) {
  const nb::object held = nb::borrow(callable.get());
  if (!held.is_valid()) throw Unavailable("the node was closed");
  PyObject* const answer = guarded([&] { return PyObject_Call(held.ptr(), arguments.ptr(), nullptr); });
  if (answer == nullptr) throw nb::python_error();
  return nb::steal(answer);
}

// A text whatever it holds; none is the empty one.
std::string text_of(nb::handle given) {
  if (given.is_none()) return {};
  const nb::object bytes = nb::str(given).attr("encode")("utf-8", "replace");
  return {nb::cast<nb::bytes>(bytes).c_str(), nb::cast<nb::bytes>(bytes).size()};
}

Response response_of(nb::handle answer) {
  const nb::tuple parts = nb::cast<nb::tuple>(answer);
  if (parts[1].is_none()) return to_value(parts[0], "result");
  Response response = Response::error(nb::isinstance<nb::str>(parts[1]) ? text_of(parts[1]) : "", text_of(parts[2]));
  if (parts[3].is_none()) return response;
  try {
    const Value details = to_value(nb::dict(parts[3]), "details");
    if (const auto* const map = details.get_if<Map>()) response.details = *map;
  } catch (const UnserialisableError&) {
    response.error_message += " (its details have no representation and are left out)";
  } catch (const nb::python_error&) {  // the error itself matters more than what it carries
    response.error_message += " (its details have no representation and are left out)";
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
    if (is_away(error)) throw Unavailable(described(error));
    failure = described(error);
  }
  throw ExecutionFailedError(failure);
}

}  // namespace

Response PythonService::invoke(const Request& request) {
  const Taken taken;
  return translated([&] {
    const nb::object answered = call(answer_, arguments_of(request));
    try {
      return response_of(answered);
    } catch (const nb::python_error& error) {
      return Response::error("INTERNAL_ERROR", "the answer could not be made: " + described(error));
    } catch (const UnserialisableError& error) {
      return Response::error("EXECUTION_FAILED", std::string("the result cannot be sent: ") + error.what());
    }
  });
}

nb::tuple PythonService::arguments_of(const Request& request) const {
  const nb::object arguments = dict_of(request.arguments);
  if (is_plain_) return nb::make_tuple(arguments, request.caller, request.traceparent);
  return nb::make_tuple(request.service, arguments, request.caller, request.request_id, request.deadline_ms,
                        request.traceparent, request.redelivered(), Cancellation(request.stop_token()),
                        request.channel == nullptr ? nb::none() : nb::cast(Channel(request.channel)),
                        request.caller_identity);
}

nb::object PythonService::dict_of(const Map& arguments) const {
  if (viewed_.empty()) return python::to_object(arguments);
  nb::dict dict;
  for (const Member& member : arguments) {
    const auto* const name = member.key.get_if<std::string>();
    const bool views = name != nullptr && std::ranges::find(viewed_, *name) != viewed_.end();
    dict[python::to_object(member.key)] = python::to_object(member.value, views);
  }
  return dict;
}

Node::MessageHandler message_handler(Kept handle) {
  return [kept = std::move(handle)](Message& message) {
    const Taken taken;
    translated([&] { return call(kept, to_tuple(message)); });
  };
}

Node::BatchHandler batch_handler(Kept handle) {
  return [kept = std::move(handle)](std::vector<Message>& messages) {
    const Taken taken;
    return translated([&] {
      nb::list batch;
      for (const Message& message : messages) batch.append(to_tuple(message));
      Node::Refusals refused;
      for (nb::handle pair : call(kept, nb::make_tuple(batch))) {
        refused.emplace(nb::cast<std::size_t>(pair[0]),
                        Node::Refusal(nb::cast<std::string>(pair[1]), nb::cast<std::string>(pair[2])));
      }
      return refused;
    });
  };
}

Node::NodeHandler node_handler(Kept handle) {
  return [kept = std::move(handle)](const NodeInfo& info) {
    const Taken taken;
    translated([&] { return call(kept, nb::make_tuple(to_object(info))); });
  };
}

Node::LostHandler lost_handler(Kept handle) {
  return [kept = std::move(handle)](const std::exception_ptr& error) {
    const Taken taken;
    translated([&] { return call(kept, nb::make_tuple(to_exception(error))); });
  };
}

// --- cancellation ---

// A hook that runs meanwhile on another thread is waited for, and needs the lock.
Cancellation::~Cancellation() {
  if (hooks_.empty()) return;
  const Released released;
  hooks_.clear();
}

bool Cancellation::wait(std::optional<double> timeout) const {
  const Released released;
  std::mutex lock;
  std::condition_variable_any changed;
  std::unique_lock guard(lock);
  const auto is_over = [&] { return token_.stop_requested(); };
  if (!timeout) return changed.wait(guard, token_, is_over);
  return changed.wait_for(guard, token_, std::chrono::duration<double>(*timeout), is_over);
}

void Cancellation::call_when_set(nb::handle hook) {
  const Kept kept(hook.ptr());
  given_.add(kept);
  auto run = [kept] {
    const Taken taken;
    const nb::object held = nb::borrow(kept.get());
    if (!held.is_valid()) return;
    PyObject* const done = guarded([&] { return PyObject_CallNoArgs(held.ptr()); });
    if (done == nullptr) PyErr_WriteUnraisable(held.ptr());
    Py_XDECREF(done);
  };
  hooks_.push_back(std::make_unique<Hook>(token_, std::move(run)));
}

// --- the log ---

void log_to(nb::handle write) {
  constexpr int levels[] = {10, 20, 30, 40};
  set_log([kept = Kept(write.ptr()), levels](LogLevel level, std::string_view logger, std::string_view text) {
    if (is_finalizing()) return;
    const Taken taken;
    const nb::str name(logger.data(), logger.size());
    PyObject* const line = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
    if (line == nullptr) return PyErr_Clear();
    const nb::tuple arguments = nb::make_tuple(levels[static_cast<std::size_t>(level)], name, nb::steal(line));
    PyObject* const done = guarded([&] { return PyObject_Call(kept.get(), arguments.ptr(), nullptr); });
    if (done == nullptr) PyErr_WriteUnraisable(kept.get());
    Py_XDECREF(done);
  });
}

nb::object to_tuple(const Message& message) {
  return nb::make_tuple(message, bytes_of(held_bytes(message)), message.source(), message.sequence(),
                        message.timestamp_ms(), message.redelivered(), message.deliveries(),
                        has_only_publisher(message), is_large(message), message.sender_identity());
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
  entry["identity"] = info.identity;
  entry["identities"] = texts(info.identities);
  entry["deny"] = texts(info.deny);
  entry["shared"] = texts(info.shared);
  entry["observers"] = texts(info.observers);
  entry["subscriptions"] = texts(info.subscriptions);
  entry["language"] = info.language;
  entry["version"] = info.version;
  entry["features"] = texts(info.features);
  entry["ephemeral"] = info.ephemeral;
  return entry;
}

}  // namespace speed::python
