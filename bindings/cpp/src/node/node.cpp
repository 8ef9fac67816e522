#include "speed/node.hpp"

#include <algorithm>

#include "engine/link/publishing.hpp"
#include "engine/remote/peer.hpp"
#include "engine/span.hpp"
#include "fs/clock.hpp"
#include "speed/error.hpp"
#include "speed/interruption.hpp"
#include "topics/topic_host.hpp"
#include "wire/message/batch.hpp"
#include "wire/message/message.hpp"
#include "wire/names/names.hpp"
#include "wire/value/control.hpp"

namespace speed {

using engine::duration_of;
using engine::peer_of;
using engine::Runtime;
using wire::local_grants;

namespace {

constexpr std::size_t large_answer_bytes = 64 << 10;

// A function as a service object.
class FunctionService : public Service {
 public:
  explicit FunctionService(ServiceFunction function) : function_(std::move(function)) {}
  Response invoke(const Request& request) override { return function_(request); }

 private:
  ServiceFunction function_;
};

// A service that says what it takes: arguments are checked before it sees them (S-9).
class DescribedService : public Service {
 public:
  DescribedService(std::shared_ptr<Service> service, ServiceDescription description)
      : service_(std::move(service)), description_(std::move(description)) {}
  Response invoke(const Request& request) override {
    description_.check(request);
    return service_->invoke(request);
  }

 private:
  std::shared_ptr<Service> service_;
  ServiceDescription description_;
};

// What was called: what ends a call says so.
struct Called {
  engine::PeerPtr peer;
  std::string service;
  bool views = false;
};

std::exception_ptr with(const std::exception_ptr& thrown, const Called& called) {
  try {
    std::rethrow_exception(thrown);
  } catch (Error& error) {
    error.set_called(called.peer->name(), called.service);
  } catch (...) {  // nothing that knows of calls
  }
  return thrown;
}

void settle(std::promise<Value>& promise, core::Outcome outcome, const Called& called) {
  outcome = called.peer->outcome(engine::read(std::move(outcome), called.views));
  if (auto* const error = std::get_if<std::exception_ptr>(&outcome)) {
    promise.set_exception(with(*error, called));
  } else {
    promise.set_value(std::move(std::get<Value>(outcome)));
  }
}

// Too large to be decoded by the thread that reads.
bool is_large(const core::Outcome& outcome) {
  const auto* const unread = std::get_if<core::Unread>(&outcome);
  return unread != nullptr && unread->payload.bytes.size() > large_answer_bytes;
}

wire::Batch batch_of(const std::vector<Value>& payloads) {
  wire::Batch batch;
  for (const Value& payload : payloads) batch.add(payload);
  return batch;
}

wire::Buffer message_of(Runtime& node, wire::Batch batch, const wire::MessageFields& fields,
                        const SendOptions& options) {
  wire::Buffer message;
  node.encode(wire::batch_type, std::move(batch).take(), fields, options.protection, message);
  return message;
}

}  // namespace

Node::Node(const std::string& name, const NodeOptions& options) : Node(Runtime::make(name, options)) {}

Node::Node(std::shared_ptr<Runtime> runtime) : runtime_(std::move(runtime)) { runtime_->start(); }

Node::~Node() {
  if (runtime_ == nullptr) return;  // moved from
  if (runtime_->is_forked()) {
    // Threads and locks stayed with the parent: nothing of this copy can be ended or destroyed.
    new std::shared_ptr<Runtime>(std::move(runtime_));  // NOLINT: kept for ever on purpose
    return;
  }
  const Interruptible not_at_all({});
  close();
}

Node& Node::operator=(Node&& other) noexcept {
  Node ends(std::move(*this));
  runtime_ = std::move(other.runtime_);
  return *this;
}

Runtime& Node::open() const {
  if (runtime_ == nullptr) throw NodeClosedError("the node was moved to another object: use that one");
  runtime_->check_usable();
  return *runtime_;
}

// --- access ---

namespace {

void publish_grants(Runtime& node) {
  node.context.registration->update([&](wire::Entry& entry) {
    entry.allow = node.context.policy.allowed();
    entry.deny = node.context.policy.denied();
  });
}

}  // namespace

void Node::allow(const Names& patterns) {
  Runtime& node = open();
  {
    const MutexLock guard(node.lock);
    AccessPolicy::Rules before = node.context.policy.rules();
    node.context.policy.allow(local_grants(patterns));
    try {
      publish_grants(node);
    } catch (...) {
      node.context.policy.restore(std::move(before));  // nothing is granted that is not published
      throw;
    }
  }
  node.protocol->look_again();
}

void Node::deny(const Names& patterns) {
  Runtime& node = open();
  const MutexLock guard(node.lock);
  node.context.policy.deny(local_grants(patterns));
  publish_grants(node);
}

std::vector<std::string> Node::allowed() const { return runtime_->context.policy.allowed(); }

void Node::ready() {
  Runtime& node = open();
  const MutexLock guard(node.lock);
  if (node.context.registration->entry().status != "starting") return;
  node.context.registration->update([](wire::Entry& entry) {
    if (entry.status == "starting") entry.status = "online";
  });
}

// --- services ---

void Node::serve(const std::string& name, std::shared_ptr<Service> service, const ServiceOptions& options) {
  Runtime& node = open();
  std::optional<std::vector<std::string>> allow;
  if (options.allow) allow = local_grants(*options.allow);
  Map described;
  if (options.description) {
    described = options.description->as_map(name, options.idempotent);
    if (service != nullptr) service = std::make_shared<DescribedService>(std::move(service), *options.description);
  }
  node.serving.services.add(name, std::move(service), allow, options.idempotent, options.views, std::move(described));
  node.workers.serve();
}

void Node::serve(const std::string& name, ServiceFunction function, const ServiceOptions& options) {
  std::shared_ptr<Service> service;  // null for no function, as for no object
  if (function) service = std::make_shared<FunctionService>(std::move(function));
  serve(name, std::move(service), options);
}

void Node::serve(const std::string& name, Service* service, const ServiceOptions& options) {
  serve(name, std::shared_ptr<Service>(std::shared_ptr<void>(), service), options);  // owned by nobody here
}

void Node::unregister(const std::string& name) { open().serving.services.remove(name); }

// --- calls ---

Value Node::call(const std::string& target, const std::string& service, const Map& arguments,
                 const CallOptions& options) {
  return peer_of(open(), target)->call(service, arguments, options);
}

std::future<Value> Node::submit(const std::string& target, const std::string& service, const Map& arguments,
                                const CallOptions& options) {
  Runtime& node = open();
  auto promise = std::make_shared<std::promise<Value>>();
  std::future<Value> future = promise->get_future();
  const Called called{peer_of(node, target), service, options.views};
  called.peer->start(service, arguments, options, [&node, promise, called](core::Outcome outcome) {
    if (!is_large(outcome)) return settle(*promise, std::move(outcome), called);
    node.workers.submit([promise, called, outcome = std::move(outcome)] { settle(*promise, outcome, called); });
  });
  node.workers.ensure_reader();
  return future;
}

void Node::submit(const std::string& target, const std::string& service, const Map& arguments, CallHandler handler,
                  const CallOptions& options) {
  Runtime& node = open();
  // The outcome comes on the thread that reads; the handler may take its time on another.
  const Called called{peer_of(node, target), service, options.views};
  auto deliver = [&node, handler = std::move(handler), called](core::Outcome outcome) {
    node.workers.submit([&node, handler, called, outcome = std::move(outcome)] {
      std::promise<Value> promise;
      settle(promise, outcome, called);
      const engine::ProgramsCode scope(*node.context.fork_mark);
      try {
        handler(promise.get_future());
      } catch (...) {
        node.context.callback_failed("the handler of a call of '" + called.service + "' at '" + called.peer->name() +
                                     "'");
      }
    });
  };
  called.peer->start(service, arguments, options, std::move(deliver));
  node.workers.ensure_reader();
}

// --- messages ---

std::string Node::send(const std::string& target, const Value& payload, const SendOptions& options) {
  return peer_of(open(), target)->send(payload, options);
}

std::string Node::send_batch(const std::string& target, const std::vector<Value>& payloads,
                             const SendOptions& options) {
  Runtime& node = open();
  const wire::MessageFields fields = node.fields_of(options);
  const wire::Buffer message = message_of(node, batch_of(payloads), fields, options);
  peer_of(node, target)->send_encoded(message.view(), options);
  return fields.message_id;
}

std::string Node::send_large(const std::string& target, const segment::Source& payload, const SendOptions& options,
                             const Progress& progress) {
  return peer_of(open(), target)->send_large(payload, options, progress);
}

void Node::segment(const std::string& target, std::optional<std::size_t> segment_size, double parity_rate) {
  peer_of(open(), target)->segment(segment_size, parity_rate);
}

void Node::send_all(const std::string& target, const std::vector<Value>& payloads, const SendOptions& options) {
  Runtime& node = open();
  if (options.ack) throw ConfigurationError("send_all gets no acknowledgements: ask for one with a send behind it");
  peer_of(node, target)->send_all(payloads, options);
}

void Node::on_message(MessageHandler handler) { open().delivery.on_message(std::move(handler)); }

std::optional<Message> Node::receive(std::optional<Seconds> timeout) {
  return open().delivery.receive(timeout ? std::optional(duration_of("timeout", *timeout)) : std::nullopt);
}

// --- events ---

namespace {

wire::Buffer event_of(Runtime& node, wire::Batch batch, const SendOptions& options) {
  return message_of(node, std::move(batch), node.fields_of(options), options);
}

// One after the other, within one timeout for all.
std::map<std::string, Published> published_each(Runtime& node,
                                                const std::vector<std::pair<std::string, wire::Buffer>>& events,
                                                SendOptions options) {
  const TimePoint ends = fs::monotonic_now() + duration_of("timeout", options.timeout);
  std::map<std::string, Published> published;
  for (const auto& [topic, event] : events) {
    options.timeout = std::max(Duration::zero(), ends - fs::monotonic_now());
    published.emplace(topic, engine::Publishing(node, topic, event.view(), options).publish());
  }
  return published;
}

}  // namespace

Published Node::publish(const std::string& topic, const Value& payload, SendOptions options) {
  Runtime& node = open();
  wire::check_topic(topic);
  options.topic = topic;
  wire::Buffer encoded;
  node.encode(payload, node.fields_of(options), options.protection, encoded);
  return engine::Publishing(node, topic, encoded.view(), options).publish();
}

Published Node::publish_batch(const std::string& topic, const std::vector<Value>& payloads, SendOptions options) {
  Runtime& node = open();
  wire::check_topic(topic);
  options.topic = topic;
  const wire::Buffer event = event_of(node, batch_of(payloads), options);
  return engine::Publishing(node, topic, event.view(), options).publish();
}

std::map<std::string, Published> Node::publish_batch(const std::vector<std::pair<std::string, Value>>& payloads,
                                                     SendOptions options) {
  Runtime& node = open();
  std::vector<std::pair<std::string, wire::Buffer>> events;
  for (auto& [topic, batch] : wire::batches_of(payloads)) {
    options.topic = topic;
    events.emplace_back(topic, event_of(node, std::move(batch), options));
  }
  return published_each(node, events, options);
}

void Node::on_batch(const Names& topics, BatchHandler handler, SubscribeOptions options) {
  Runtime& node = open();
  const MutexLock guard(node.lock);
  node.delivery.on_batch(topics, std::move(handler));
  node.context.registration->update([&](wire::Entry& entry) {
    entry.subscriptions = topics;
    entry.shared = options.shared ? topics : Names();
  });
}

void Node::subscribe(const std::string& pattern, MessageHandler handler, SubscribeOptions options) {
  Runtime& node = open();
  const MutexLock guard(node.lock);
  const engine::Delivery::Patterns patterns = node.delivery.subscribe(pattern, std::move(handler), options.shared);
  node.context.registration->update([&](wire::Entry& entry) {
    entry.subscriptions.clear();
    entry.shared.clear();
    for (const auto& [one, is_shared] : patterns) {
      entry.subscriptions.push_back(one);
      if (is_shared) entry.shared.push_back(one);
    }
  });
}

Topic Node::topic(const std::string& name, const std::string& host) {
  open();
  return Topic(std::make_shared<const engine::TopicHost>(runtime_, name, host));
}

// --- other nodes ---

Seconds Node::ping(const std::string& target, Seconds timeout) {
  const TimePoint began = fs::monotonic_now();
  peer_of(open(), target)->ping(timeout);
  return fs::monotonic_now() - began;
}

std::vector<std::string> Node::services(const std::string& target, Seconds timeout) {
  const Map answer = peer_of(open(), target)->discover("SERVICES", timeout);
  std::vector<std::string> names;
  for (const Value& name : *answer.find("services")->get_if<Array>()) names.push_back(name.as<std::string>());
  return names;
}

std::vector<Map> Node::describe(const std::string& target, Seconds timeout) {
  const Map answer = peer_of(open(), target)->discover("DESCRIBE", timeout);
  std::vector<Map> described;
  for (const Value& one : *answer.find("services")->get_if<Array>()) described.push_back(one.as<Map>());
  return described;
}

Map Node::info(const std::string& target, Seconds timeout) {
  return peer_of(open(), target)->discover("INFO", timeout);
}

Map Node::stats(const std::string& target, Seconds timeout) {
  return peer_of(open(), target)->discover("STATS", timeout);
}

Map Node::stats() const { return *runtime_->introspection.answer("STATS", runtime_->context.name); }

std::vector<NodeInfo> Node::nodes(const std::optional<std::string>& fabric) {
  std::vector<NodeInfo> found;
  for (const wire::Entry& entry : open().context.registry->surely_live_entries()) {
    if (entry.status != "online") continue;
    if (!fabric || std::ranges::find(entry.fabrics, *fabric) != entry.fabrics.end()) {
      found.push_back(engine::info_of(entry));
    }
  }
  return found;
}

NodeInfo Node::wait_for(const std::string& target, Seconds timeout) {
  return open().wait_for(target, duration_of("timeout", timeout));
}

void Node::on_join(NodeHandler handler) { open().registrar->on_join(std::move(handler)); }
void Node::on_lost(LostHandler handler) { open().on_lost(std::move(handler)); }
void Node::on_leave(NodeHandler handler) { open().registrar->on_leave(std::move(handler)); }
std::vector<std::string> Node::remove_stale() { return open().context.registry->remove_stale(); }

// --- life ---

const std::string& Node::name() const { return runtime_->context.name; }
const std::string& Node::root() const { return runtime_->context.root; }
std::uint32_t Node::generation() const { return runtime_->context.generation; }
bool Node::closed() const { return runtime_ == nullptr || runtime_->context.life.has_ended() || runtime_->is_forked(); }

void Node::close(Seconds drain) {
  if (runtime_ != nullptr && !runtime_->is_forked()) runtime_->leave(duration_of("drain", drain));
}

}  // namespace speed
