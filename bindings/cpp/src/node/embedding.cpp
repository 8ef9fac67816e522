#include "speed/embedding.hpp"

#include "engine/call/calling.hpp"
#include "engine/deliver/message_state.hpp"
#include "engine/link/publishing.hpp"
#include "engine/runtime.hpp"
#include "engine/span.hpp"
#include "fs/bell.hpp"
#include "fs/clock.hpp"
#include "fs/process.hpp"
#include "wire/names/names.hpp"
#include "wire/value/control.hpp"

namespace speed {

using engine::duration_of;
using engine::Runtime;
using engine::Waiter;
using engine::Workers;
using wire::EnvelopeType;

struct SPEED_LOCAL Answer::State {
  explicit State(core::Outcome ended) : outcome(std::move(ended)) {}  // Clang 14 makes no aggregate by parentheses
  core::Outcome outcome;
};

Value Answer::value() const {
  core::Outcome outcome = engine::read(std::move(state_->outcome), true);
  if (const auto* const failure = std::get_if<std::exception_ptr>(&outcome)) std::rethrow_exception(*failure);
  return std::get<Value>(std::move(outcome));
}

namespace {

std::shared_ptr<Runtime> prepared(const std::string& name, const NodeOptions& options, EmbeddingHooks hooks) {
  std::shared_ptr<Runtime> node = Runtime::make(name, options);
  node->context.is_judge = false;  // nothing takes messages yet
  node->workers.at_each_tick(std::move(hooks.at_each_tick));
  node->workers.at_end(std::move(hooks.at_end));
  return node;
}

}  // namespace

EmbeddedNode::EmbeddedNode(const std::string& name, const NodeOptions& options, EmbeddingHooks hooks)
    : node_(prepared(name, options, std::move(hooks))) {}

void EmbeddedNode::check() const { node_.open(); }
bool EmbeddedNode::polling() const { return node_.runtime_->context.polling; }
void EmbeddedNode::run(std::function<void()> task) {
  node_.runtime_->workers.follow([node = node_.runtime_.get(), task = std::move(task)] {
    const engine::ProgramsCode scope(*node->context.fork_mark);
    task();
  });
}

// --- calls ---

Value EmbeddedNode::call(const std::string& target, const std::string& service, const Map& arguments,
                         const CallOptions& options) {
  Runtime& node = node_.open();
  Waiter waiter;
  const std::string id = node.calls.start(
      {target, service, arguments, duration_of("timeout", options.timeout), options.traceparent}, waiter.completion());
  try {
    return waiter.result(node.workers, true);
  } catch (const Interrupted&) {
    withdraw(target, id);
    throw;
  } catch (Error& error) {
    error.set_called(target, service);
    throw;
  }
}

std::string EmbeddedNode::start(const std::string& target, const std::string& service, const Map& arguments,
                                const CallOptions& options, std::function<void(Answer)> answered) {
  Runtime& node = node_.open();
  auto completion = [answered = std::move(answered)](core::Outcome outcome) {
    answered(Answer(std::make_shared<Answer::State>(std::move(outcome))));
  };
  std::string id =
      node.calls.start({target, service, arguments, duration_of("timeout", options.timeout), options.traceparent},
                       std::move(completion));
  node.workers.ensure_reader();
  return id;
}

std::shared_ptr<StreamChannel> EmbeddedNode::open_stream(const std::string& target, const std::string& service,
                                                         const Map& arguments, const CallOptions& options,
                                                         const StreamOffer& offer) {
  Runtime& node = node_.open();
  const Duration timeout = duration_of("timeout", options.timeout);
  auto channel =
      node.calls.open_stream({target, service, arguments, timeout, options.traceparent, offer}, node.weak_from_this());
  node.workers.ensure_reader();
  return channel;
}

void EmbeddedNode::withdraw(const std::string& target, const std::string& id) {
  node_.runtime_->calls.withdraw(target, id);
  node_.runtime_->workers.ensure_reader();
}

Seconds EmbeddedNode::ping(const std::string& target, Seconds timeout) {
  const TimePoint began = fs::monotonic_now();
  engine::ask(node_.open(), target, EnvelopeType::heartbeat, {}, timeout);
  return fs::monotonic_now() - began;
}

void EmbeddedNode::serve(const std::string& name, std::shared_ptr<Service> service, const ServiceOptions& options,
                         Map description) {
  engine::Runtime& node = node_.open();
  std::optional<std::vector<std::string>> allow;
  if (options.allow) allow = wire::local_grants(*options.allow);
  node.serving.services.add(name, std::move(service), allow, options.idempotent, options.views, std::move(description));
  node.workers.serve();
}

Map EmbeddedNode::discover(const std::string& target, const char* operation, Seconds timeout) {
  return engine::discover(node_.open(), target, operation, timeout);
}

std::vector<std::optional<Map>> EmbeddedNode::discover_each(const std::vector<std::string>& targets,
                                                            const char* operation, Seconds timeout) {
  return engine::discover_each(node_.open(), targets, operation, timeout);
}

// --- messages ---

Sent EmbeddedNode::send(const std::string& target, const Value& payload, const SendOptions& options) {
  return node_.open().send(target, payload, options);
}

Sent EmbeddedNode::send_large(const std::string& target, const segment::Source& payload, const SendOptions& options,
                              const Progress& progress) {
  return node_.open().send_large(target, payload, options, progress);
}

void EmbeddedNode::forward(const std::string& target, std::span<const ByteView> messages, bool as_events, bool ack,
                           Seconds timeout) {
  Runtime& node = node_.open();
  const TimePoint deadline = fs::monotonic_now() + duration_of("timeout", timeout);
  const auto type = as_events ? EnvelopeType::event : EnvelopeType::message;
  const bool acknowledged = ack && !messages.empty();
  auto left = messages.first(messages.size() - (acknowledged ? 1 : 0));
  while (!left.empty()) {
    const auto batch = engine::first_write(left);
    node.links.granted(target, deadline)->send({type, 0, batch, deadline});
    left = left.subspan(batch.size());
  }
  if (!acknowledged) return;
  Waiter waiter;
  const Duration timeout_left = std::max(Duration::zero(), deadline - fs::monotonic_now());
  node.calls.send_acknowledged(target, type, messages.back(), timeout_left, false, waiter.completion());
  waiter.result(node.workers);
}

std::optional<Message> EmbeddedNode::fetch(Seconds timeout) {
  return node_.open().delivery.fetch(duration_of("timeout", timeout));
}
void EmbeddedNode::put_back(const Message& message) { node_.runtime_->delivery.put_back(message); }
void EmbeddedNode::wake_receivers() { node_.runtime_->delivery.wake_receivers(); }

ByteView held_bytes(const Message& message) { return engine::MessageAccess::arrival(message)->view.bytes(); }
std::size_t encoded_size(const Message& message) { return engine::MessageAccess::arrival(message)->large->size(); }
bool is_finished(const Message& message) { return engine::MessageAccess::arrival(message)->finished; }
bool is_large(const Message& message) { return engine::MessageAccess::arrival(message)->large != nullptr; }
bool has_only_publisher(const Message& message) {
  return engine::MessageAccess::arrival(message)->view.security().says_only_publisher();
}

// --- work that another thread goes on with ---

struct SPEED_LOCAL PresentWork::State {
  Workers::Present here = Workers::present();
};

PresentWork::PresentWork() : state_(std::make_shared<State>()) {}

bool PresentWork::give_place() {
  const Workers::Present& here = state_->here;
  return here.job != nullptr && here.workers->give_place(here.job);
}

void PresentWork::take_place() { state_->here.workers->take_place(state_->here.job); }

void PresentWork::close(Node& node, Seconds drain) const {
  const Workers::PresentScope scope(state_->here);
  node.close(drain);
}

struct SPEED_LOCAL PlaceGiven::State {
  Workers::PlaceRelease released;
};

PlaceGiven::PlaceGiven() : state_(std::make_unique<State>()) {}
PlaceGiven::~PlaceGiven() = default;

void block_signals() { fs::block_signals(); }
void name_thread(const char* name) noexcept { fs::name_thread(name); }

}  // namespace speed
