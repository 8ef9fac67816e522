#include "speed/node.hpp"

#include <algorithm>
#include <iterator>

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
    const bool names_member = wire::is_family(called.peer->name()) && !error.node().empty();
    error.set_called(names_member ? error.node() : called.peer->name(), called.service);
  } catch (...) {  // nothing that knows of calls
  }
  return thrown;
}

Value settled(core::Outcome outcome, const Called& called) {
  outcome = called.peer->outcome(engine::read(std::move(outcome), called.views));
  if (const auto* const error = std::get_if<std::exception_ptr>(&outcome)) std::rethrow_exception(with(*error, called));
  return std::move(std::get<Value>(outcome));
}

void settle(std::promise<Value>& promise, core::Outcome outcome, const Called& called) {
  outcome = called.peer->outcome(engine::read(std::move(outcome), called.views));
  if (auto* const error = std::get_if<std::exception_ptr>(&outcome)) {
    promise.set_exception(with(*error, called));
  } else {
    promise.set_value(std::move(std::get<Value>(outcome)));
  }
}

void settle(std::promise<Value>& promise, CallOutcome outcome) {
  if (outcome.error != nullptr) {
    promise.set_exception(outcome.error);
  } else {
    promise.set_value(std::move(outcome.result));
  }
}

// What a call came to.
template <class Call>
CallOutcome outcome_of(Call call) {
  try {
    return {.result = call(), .error = {}};
  } catch (...) {
    return {.result = {}, .error = std::current_exception()};
  }
}

const char* text_of(ItemsOf items) {
  if (items == ItemsOf::both) return "both";
  return items == ItemsOf::service ? "service" : "caller";
}

void check_submitted(const CallOptions& options) {
  if (!(options.retry && options.retry->hedge) && !options.on_progress) return;
  throw ConfigurationError("a call that is submitted asks no second node and tells no progress: make it by `call`");
}

// `given` gets the outcome on a worker, unless this throws it.
void submit_once(Runtime& node, CallRequest request, const engine::CallGiven& given) {
  auto passage = std::make_shared<engine::Passage>(node.interceptors.around_calls(), std::move(request));
  CallOutcome outcome;
  if (passage->is_over()) {
    outcome = passage->take();
  } else {
    try {
      const CallRequest& let = passage->request();
      const Called called{peer_of(node, let.target, let.options.key), let.service, let.options.views};
      called.peer->start(let.service, let.arguments, let.options,
                         [&node, passage, called, given](core::Outcome answer) {
                           node.workers.submit([&node, passage, called, given, answer = std::move(answer)] {
                             const engine::ProgramsCode scope(*node.context.fork_mark);
                             given(passage->ended(outcome_of([&] { return settled(answer, called); })));
                           });
                         });
      node.workers.ensure_reader();
      return;
    } catch (...) {
      outcome = passage->ended({.result = {}, .error = std::current_exception()});
    }
  }
  if (outcome.error != nullptr) std::rethrow_exception(outcome.error);
  node.workers.submit([given, outcome = std::move(outcome)] { given(outcome); });
}

// The same, tried again where the program says so.
void submit_between(Runtime& node, CallRequest request, engine::CallGiven given) {
  if (!request.options.retry) return submit_once(node, std::move(request), given);
  const std::string target = request.target;
  const CallOptions options = request.options;
  const auto attempt = [&node, request = std::move(request)](const CallOptions& rest, const engine::CallGiven& ended) {
    CallRequest once = request;
    once.options = rest;
    submit_once(node, std::move(once), ended);
  };
  node.retries.submit(target, options, attempt, std::move(given), [&node](auto task) { node.workers.submit(task); });
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
    entry.deny = node.context.observers.denials(node.context.policy);
    entry.identities = node.context.policy.identities();
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
      node.context.check_grants();
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

std::vector<std::string> Node::allowed() const {
  const AccessPolicy& policy = runtime_->context.policy;
  std::vector<std::string> patterns = policy.allowed();
  std::ranges::move(policy.identities(), std::back_inserter(patterns));
  return patterns;
}

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
  serve(name, std::move(service), options, std::nullopt);
}

void Node::serve(const std::string& name, std::shared_ptr<Service> service, const ServiceOptions& options,
                 std::optional<ItemsOf> streams) {
  Runtime& node = open();
  std::optional<std::vector<std::string>> allow;
  if (options.allow) allow = local_grants(*options.allow);
  Map described;
  if (options.description || streams) {
    described = options.description.value_or(ServiceDescription()).as_map(name, options.idempotent);
    described.set("streaming", streams.has_value());
    if (streams) described.set("items", text_of(*streams));
  }
  if (options.description && service != nullptr) {
    service = std::make_shared<DescribedService>(std::move(service), *options.description);
  }
  if (service != nullptr) service = node.interceptors.around(std::move(service));
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
  Runtime& node = open();
  const auto attempted = [&](const CallOptions& rest) -> Value {
    if (rest.on_progress || node.interceptors.around_calls() != nullptr) {
      return attempt({.target = target, .service = service, .arguments = arguments, .options = rest});
    }
    return peer_of(node, target, rest.key)->call(service, arguments, rest);
  };
  return options.retry && !options.on_progress ? node.retries.repeated(target, options, attempted) : attempted(options);
}

// One attempt of a call between its interceptors.
Value Node::attempt(const CallRequest& request) {
  Runtime& node = open();
  const auto proceed = [&](const CallRequest& let) {
    if (let.options.on_progress) return call_with_progress(let);
    return peer_of(node, let.target, let.options.key)->call(let.service, let.arguments, let.options);
  };
  const engine::CallInterceptors around = node.interceptors.around_calls();
  if (around == nullptr) return proceed(request);
  engine::Passage passage(around, request);
  CallOutcome outcome =
      passage.is_over() ? passage.take() : passage.ended(outcome_of([&] { return proceed(passage.request()); }));
  if (outcome.error != nullptr) std::rethrow_exception(outcome.error);
  return std::move(outcome.result);
}

std::future<Value> Node::submit(const std::string& target, const std::string& service, const Map& arguments,
                                const CallOptions& options) {
  Runtime& node = open();
  check_submitted(options);
  auto promise = std::make_shared<std::promise<Value>>();
  std::future<Value> future = promise->get_future();
  if (options.retry || node.interceptors.around_calls() != nullptr) {
    submit_between(node, {.target = target, .service = service, .arguments = arguments, .options = options},
                   [promise](CallOutcome outcome) { settle(*promise, std::move(outcome)); });
    return future;
  }
  const Called called{peer_of(node, target, options.key), service, options.views};
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
  check_submitted(options);
  const auto handle = [&node, handler = std::move(handler), target, service](std::promise<Value>& promise) {
    const engine::ProgramsCode scope(*node.context.fork_mark);
    try {
      handler(promise.get_future());
    } catch (...) {
      node.context.callback_failed("the handler of a call of '" + service + "' at '" + target + "'");
    }
  };
  if (options.retry || node.interceptors.around_calls() != nullptr) {
    submit_between(node, {.target = target, .service = service, .arguments = arguments, .options = options},
                   [handle](CallOutcome outcome) {
                     std::promise<Value> promise;
                     settle(promise, std::move(outcome));
                     handle(promise);
                   });
    return;
  }
  // The outcome comes on the thread that reads; the handler may take its time on another.
  const Called called{peer_of(node, target, options.key), service, options.views};
  auto deliver = [&node, handle, called](core::Outcome outcome) {
    node.workers.submit([handle, called, outcome = std::move(outcome)] {
      std::promise<Value> promise;
      settle(promise, outcome, called);
      handle(promise);
    });
  };
  called.peer->start(service, arguments, options, std::move(deliver));
  node.workers.ensure_reader();
}

void Node::intercept_calls(CallInterceptor interceptor) { open().interceptors.add(std::move(interceptor)); }
void Node::intercept_services(ServiceInterceptor interceptor) { open().interceptors.add(std::move(interceptor)); }

// --- messages ---

std::string Node::send(const std::string& target, const Value& payload, const SendOptions& options) {
  return peer_of(open(), target, options.key)->send(payload, options);
}

std::string Node::send_batch(const std::string& target, const std::vector<Value>& payloads,
                             const SendOptions& options) {
  Runtime& node = open();
  const wire::MessageFields fields = node.fields_of(options);
  const wire::Buffer message = message_of(node, batch_of(payloads), fields, options);
  peer_of(node, target, options.key)->send_encoded(message.view(), options);
  return fields.message_id;
}

std::string Node::send_large(const std::string& target, const segment::Source& payload, const SendOptions& options,
                             const Progress& progress) {
  return peer_of(open(), target, options.key)->send_large(payload, options, progress);
}

void Node::segment(const std::string& target, std::optional<std::size_t> segment_size, double parity_rate) {
  peer_of(open(), target)->segment(segment_size, parity_rate);
}

void Node::send_all(const std::string& target, const std::vector<Value>& payloads, const SendOptions& options) {
  Runtime& node = open();
  if (options.ack) throw ConfigurationError("send_all gets no acknowledgements: ask for one with a send behind it");
  peer_of(node, target, options.key)->send_all(payloads, options);
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

void Node::check_alike(const std::string& family, Seconds timeout) { peer_of(open(), family)->check_alike(timeout); }

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
