#include "engine.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <utility>

#include "callbacks.hpp"
#include "convert.hpp"
#include "large.hpp"
#include "options.hpp"

namespace speed::python {

namespace {

constexpr double slice_seconds = 0.1;  // how long a wait goes on before signals are looked at

std::string name_in(nb::handle text) {
  Py_ssize_t size = 0;
  const char* const data = PyUnicode_Check(text.ptr()) ? PyUnicode_AsUTF8AndSize(text.ptr(), &size) : nullptr;
  if (data != nullptr) return {data, static_cast<std::size_t>(size)};
  PyErr_Clear();
  throw InvalidNameError("a name must be text, not " + std::string(Py_TYPE(text.ptr())->tp_name));
}

CallOptions call_options(double timeout, nb::handle traceparent) {
  CallOptions options{.timeout = Seconds(timeout)};
  if (!traceparent.is_none()) options.traceparent = nb::cast<std::string>(traceparent);
  return options;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// True when a signal handler of Python raised; the exception is then the thread's.
bool a_signal_raised() {
  const Taken taken;
  return PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0;
}

// Runs a wait without the interpreter lock; an interruption by a signal is what its handler raised.
template <class Wait>
auto without_lock(Wait wait) {
  const Interruptible waits(a_signal_raised);
  try {
    const auto result = [&] {
      const Released released;
      return wait();
    }();
    if (PyErr_Occurred() == nullptr) return result;
  } catch (...) {
    if (PyErr_Occurred() == nullptr) throw;
  }
  throw nb::python_error();
}

ByteView bytes_in(nb::handle message) {
  if (!PyBytes_Check(message.ptr())) throw nb::type_error("an encoded message is bytes");
  const char* const data = PyBytes_AsString(message.ptr());
  return {reinterpret_cast<const std::byte*>(data), static_cast<std::size_t>(PyBytes_Size(message.ptr()))};
}

}  // namespace

Engine::Engine(const std::string& name, NodeOptions options, nb::handle settle)
    : settling_(std::make_shared<Settling>(settle.ptr())) {
  const auto with_settling = [settling = std::weak_ptr(settling_)](void (Settling::*act)()) {
    return [settling, act] {
      if (const auto kept = settling.lock()) (kept.get()->*act)();
    };
  };
  try {
    without_lock([&] {
      node_ = std::make_unique<EmbeddedNode>(
          name, options, EmbeddingHooks{with_settling(&Settling::look), with_settling(&Settling::end)});
      return settling_->begin(*node_), true;
    });
  } catch (...) {  // its end waits for threads that may need the interpreter lock
    const Released released;
    node_.reset();
    throw;
  }
}

Engine::~Engine() {
  const Released released;
  node_.reset();
  settling_.reset();
}

// Has the core hold something of Python's: `hand_over(kept)`, without the interpreter lock. What comes while the node
// ends may have missed the moment at which it lets go.
template <class HandOver>
void Engine::give(nb::handle callable, HandOver hand_over) {
  const Kept kept(callable.ptr());
  {
    const Released released;
    hand_over(kept);
  }
  if (is_closing_ && closed()) return kept.release();
  given_.add(kept);
}

// --- access, services ---

void Engine::allow(const Names& patterns) {
  const Released released;
  node_->node().allow(patterns);
}

void Engine::deny(const Names& patterns) {
  const Released released;
  node_->node().deny(patterns);
}

void Engine::serve(const std::string& name, nb::handle answer, bool is_plain, const Names& viewed,
                   const std::optional<Names>& allow, bool idempotent, nb::handle description) {
  const Value described = to_value(description, "the description");
  give(answer, [&](const Kept& kept) {
    const auto service = std::make_shared<PythonService>(kept, is_plain, viewed);
    node_->serve(name, service, {.allow = allow, .idempotent = idempotent, .views = true}, described.as<Map>());
  });
}

void Engine::unregister(const std::string& name) {
  {
    const Released released;
    node_->node().unregister(name);
  }
  given_.forget_unshared();
}

// --- calls ---

nb::object Engine::call(nb::handle target, nb::handle service, nb::handle arguments, double timeout,
                        nb::handle traceparent, bool views) {
  check();
  const Map members = to_arguments(arguments);
  const std::string node = name_in(target), name = name_in(service);
  const CallOptions options = call_options(timeout, traceparent);
  return to_object(without_lock([&] { return node_->call(node, name, members, options); }), views);
}

std::string Engine::submit(nb::handle target, nb::handle service, nb::handle arguments, double timeout,
                           nb::handle traceparent, bool views, nb::handle future) {
  check();
  const Map members = to_arguments(arguments);
  const std::string node = name_in(target), name = name_in(service);
  auto answered = [settling = settling_, kept = Kept(future.ptr()), views](Answer answer) {
    settling->add(kept, std::move(answer), views);
  };
  const CallOptions options = call_options(timeout, traceparent);
  return without_lock([&] { return node_->start(node, name, members, options, std::move(answered)); });
}

Channel Engine::open_stream(nb::handle target, nb::handle service, nb::handle arguments, double timeout,
                            nb::handle traceparent, const nb::tuple& offer) {
  check();
  const Map members = to_arguments(arguments);
  const std::string node = name_in(target), name = name_in(service);
  const CallOptions options = call_options(timeout, traceparent);
  const StreamOffer wanted{nb::cast<std::uint64_t>(offer[0]), nb::cast<std::uint64_t>(offer[1]),
                           nb::cast<bool>(offer[2]), nb::cast<bool>(offer[3])};
  return Channel(without_lock([&] { return node_->open_stream(node, name, members, options, wanted); }));
}

void Engine::withdraw(const std::string& target, const std::string& id) {
  const Released released;
  node_->withdraw(target, id);
}

double Engine::ping(nb::handle target, double timeout) {
  check();
  const std::string name = name_in(target);
  return without_lock([&] { return node_->ping(name, Seconds(timeout)).count(); });
}

nb::object Engine::discover(nb::handle target, const char* operation, double timeout) {
  check();
  const std::string name = name_in(target);
  return to_object(Value(without_lock([&] { return node_->discover(name, operation, Seconds(timeout)); })));
}

nb::list Engine::discover_each(const std::vector<std::string>& targets, const char* operation, double timeout) {
  check();
  auto answers = without_lock([&] { return node_->discover_each(targets, operation, Seconds(timeout)); });
  nb::list found;
  for (std::optional<Map>& answer : answers) {
    found.append(answer ? to_object(Value(std::move(*answer))) : nb::none());
    answer.reset();
  }
  return found;
}

nb::object Engine::stats() const { return to_object(node_->node().stats()); }

// --- messages and events ---

nb::tuple Engine::send(nb::handle target, nb::handle payload, bool ack, double timeout, const nb::dict& options,
                       bool unordered) {
  check();
  const std::string name = name_in(target);
  const Value value = to_value(payload, "payload");
  SendOptions settings = send_options(options, timeout);
  settings.ack = ack;
  settings.unordered = unordered;
  const Sent sent = without_lock([&] { return node_->send(name, value, settings); });
  return nb::make_tuple(sent.id, sent.waiting);
}

nb::tuple Engine::send_large(nb::handle target, nb::handle source, bool ack, double timeout, const nb::dict& options,
                             nb::handle progress, bool unordered) {
  check();
  const std::string name = name_in(target);
  const PythonSource payload(source);
  const Progress report = progress_of(progress);
  SendOptions settings = send_options(options, timeout);
  settings.ack = ack;
  settings.unordered = unordered;
  const Sent sent = without_lock([&] { return node_->send_large(name, payload, settings, report); });
  return nb::make_tuple(sent.id, sent.waiting);
}

void Engine::cut(nb::handle target, std::optional<std::size_t> segment_size, double parity_rate) {
  const std::string name = name_in(target);
  const Released released;
  node_->node().segment(name, segment_size, parity_rate);
}

void Engine::send_all(nb::handle target, const nb::list& payloads, double timeout, const nb::dict& options) {
  check();
  const std::string name = name_in(target);
  std::vector<Value> values;
  values.reserve(payloads.size());
  for (const nb::handle payload : payloads) values.push_back(to_value(payload, "payload"));
  const SendOptions settings = send_options(options, timeout);
  without_lock([&] { return node_->node().send_all(name, values, settings), true; });
}

void Engine::forward(nb::handle target, const nb::list& messages, bool event, bool ack, double timeout) {
  check();
  const std::string name = name_in(target);
  std::vector<ByteView> views;  // of bytes objects that the caller's list keeps
  views.reserve(messages.size());
  for (const nb::handle message : messages) views.push_back(bytes_in(message));
  without_lock([&] { return node_->forward(name, views, event, ack, Seconds(timeout)), true; });
}

nb::tuple Engine::publish(const std::string& topic, nb::handle payload, double timeout, bool waits,
                          const nb::dict& options) {
  check();
  const Value value = to_value(payload, "payload");
  SendOptions settings = send_options(options, timeout);
  if (!waits) settings.on_full = SendOptions::OnFull::drop;
  const Published published = without_lock([&] { return node_->node().publish(topic, value, settings); });
  nb::dict failed;
  for (const auto& [name, code] : published.failed) failed[name.c_str()] = code;
  return nb::make_tuple(published.delivered, failed);
}

void Engine::on_message(nb::handle handle) {
  give(handle, [&](const Kept& kept) { node_->node().on_message(message_handler(kept)); });
}

void Engine::on_batch(const Names& topics, nb::handle handle, bool shared) {
  give(handle, [&](const Kept& kept) { node_->node().on_batch(topics, batch_handler(kept), {.shared = shared}); });
}

void Engine::subscribe(const std::string& pattern, nb::handle handle, bool shared) {
  give(handle, [&](const Kept& kept) { node_->node().subscribe(pattern, message_handler(kept), {.shared = shared}); });
}

nb::object Engine::receive(std::optional<double> timeout) {
  const double deadline = now() + timeout.value_or(0);
  while (true) {
    const double left = timeout ? deadline - now() : slice_seconds;
    std::optional<Message> message;
    {
      const Released released;
      message = node_->node().receive(Seconds(std::clamp(left, 0.0, slice_seconds)));
    }
    if (message) return to_tuple(*message);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (timeout && left <= slice_seconds) return nb::none();
  }
}

nb::object Engine::fetch(std::optional<double> timeout, nb::handle is_abandoned) {
  const double deadline = now() + timeout.value_or(0);
  while (!nb::cast<bool>(is_abandoned())) {
    const double left = timeout ? deadline - now() : slice_seconds;
    std::optional<Message> message;
    {
      const Released released;
      message = node_->fetch(Seconds(std::clamp(left, 0.0, slice_seconds)));
    }
    if (message) return to_tuple(*message);
    if (timeout && left <= slice_seconds) break;
  }
  return nb::none();
}

void Engine::put_back(const Message& message) {
  const Released released;
  node_->put_back(message);
}

void Engine::wake_receivers() {
  const Released released;
  node_->wake_receivers();
}

// --- other nodes ---

nb::object Engine::nodes() {
  std::vector<NodeInfo> found;
  {
    const Released released;
    found = node_->node().nodes();
  }
  nb::list entries;
  for (const NodeInfo& info : found) entries.append(to_object(info));
  return entries;
}

nb::object Engine::wait_for(nb::handle target, double timeout) {
  check();
  const std::string name = name_in(target);
  return to_object(without_lock([&] { return node_->node().wait_for(name, Seconds(timeout)); }));
}

void Engine::on_join(nb::handle handle) {
  give(handle, [&](const Kept& kept) { node_->node().on_join(node_handler(kept)); });
}

void Engine::on_leave(nb::handle handle) {
  give(handle, [&](const Kept& kept) { node_->node().on_leave(node_handler(kept)); });
}

void Engine::on_lost(nb::handle handle) {
  give(handle, [&](const Kept& kept) { node_->node().on_lost(lost_handler(kept)); });
}

Engine::Names Engine::remove_stale() {
  const Released released;
  return node_->node().remove_stale();
}

void Engine::ready() {
  const Released released;
  node_->node().ready();
}

// Who comes second does not wait, and the services may be needed yet. One that is interrupted has ended the node.
void Engine::close(const std::function<void()>& leave) {
  const bool is_first = !std::exchange(is_closing_, true);
  const auto forget = [&](void*) {
    if (is_first) given_.forget();
  };
  const std::unique_ptr<Engine, decltype(forget)> at_end(this, forget);
  without_lock([&] { return leave(), true; });
}

}  // namespace speed::python
