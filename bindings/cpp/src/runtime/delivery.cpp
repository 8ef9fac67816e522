#include "runtime/delivery.hpp"

#include <algorithm>
#include <deque>

#include "fs/clock.hpp"
#include "runtime/opening.hpp"
#include "runtime/tracing.hpp"
#include "speed/error.hpp"
#include "wire/names.hpp"
#include "wire/value_codec.hpp"

namespace speed::runtime {

namespace {

constexpr std::size_t max_error_bytes = 2000;
constexpr double turn_seconds = 0.0005;  // how long the messages of one sender are handled before other work

}  // namespace

void Delivery::on_message(Node::MessageHandler handler) {
  workers_.serve();
  std::size_t runnable = 0;
  {
    // Under one lock: what arrives from now on comes after those that waited, which were acknowledged when they came.
    const std::lock_guard guard(lock_);
    if (handler_ != nullptr || batches_ != nullptr) {
      throw ConfigurationError("this node already has a message handler: use one");
    }
    handler_ = std::move(handler);
    while (!received_.empty()) runnable += make_runnable(received_.pop()) ? 1 : 0;
  }
  while (runnable-- > 0) workers_.submit([this] { run(); });
}

std::vector<std::string> Delivery::subscribe(const std::string& pattern, Node::MessageHandler handler) {
  wire::check_topic_pattern(pattern);
  workers_.serve();
  const std::lock_guard guard(lock_);
  if (batches_ != nullptr) throw ConfigurationError("this node already has a handler: one for batches is the only one");
  subscriptions_.push_back(std::make_shared<const Subscription>(Subscription{pattern, std::move(handler)}));
  std::vector<std::string> patterns;
  for (const auto& one : subscriptions_) {
    if (std::ranges::find(patterns, one->pattern) == patterns.end()) patterns.push_back(one->pattern);
  }
  return patterns;
}

void Delivery::on_batch(std::vector<std::string> patterns, Node::BatchHandler handler) {
  workers_.serve();
  for (const std::string& pattern : patterns) wire::check_topic_pattern(pattern);
  {
    const std::lock_guard guard(lock_);
    if (handler_ != nullptr || !subscriptions_.empty() || batches_ != nullptr) {
      throw ConfigurationError("this node already has a handler: one for batches is the only one");
    }
    std::deque<Arrival> waiting;
    while (!received_.empty()) waiting.push_back(received_.pop());
    batches_ = std::make_unique<Batches>(context_, workers_, replies_, std::move(patterns), std::move(handler),
                                         std::move(waiting));
  }
  batches_->begin();
}

void Delivery::stop_waiting() {
  const std::lock_guard guard(lock_);
  if (batches_ != nullptr) batches_->leave();
}

std::optional<Message> Delivery::receive(std::optional<double> timeout_seconds) {
  workers_.serve();
  finish_in_hand();
  const double until = fs::monotonic_seconds() + timeout_seconds.value_or(0);
  while (true) {
    const auto left = [&] { return std::max(0.0, until - fs::monotonic_seconds()); };
    const Arrival arrival = next_received(timeout_seconds ? std::optional(left()) : std::nullopt);
    if (arrival == nullptr) return std::nullopt;
    if (!open_message(context_, replies_, *arrival)) continue;
    const std::lock_guard guard(lock_);
    in_hand_ = arrival;
    return Message(arrival);
  }
}

// Null after the timeout.
Arrival Delivery::next_received(std::optional<double> timeout_seconds) {
  std::unique_lock guard(lock_);
  const auto ready = [&] { return !received_.empty() || context_.stop.requested(); };
  if (timeout_seconds) {
    arrived_.wait_for(guard, std::chrono::duration<double>(*timeout_seconds), ready);
  } else {
    arrived_.wait(guard, ready);
  }
  if (received_.empty()) {
    context_.stop.check();
    return nullptr;
  }
  return received_.pop();
}

void Delivery::wake_receivers() {
  const std::lock_guard guard(lock_);
  arrived_.notify_all();
}

void Delivery::finish_in_hand() {
  Arrival finished;
  {
    const std::lock_guard guard(lock_);
    finished.swap(in_hand_);
  }
  if (finished != nullptr) finished->done();
}

void Delivery::arrive(Arrival arrival) {
  bool answer = false;
  {
    std::unique_lock guard(lock_);
    if (batches_ != nullptr) {
      guard.unlock();
      return batches_->add(std::move(arrival));
    }
    if (arrival->is_event || handler_ != nullptr) {
      guard.unlock();
      return enqueue(std::move(arrival));
    }
    answer = std::exchange(arrival->wants_answer, false);
    received_.push(arrival->source(), arrival->view.priority(), arrival);
    arrived_.notify_one();
  }
  if (answer) replies_.acknowledge(*arrival);
}

void Delivery::enqueue(Arrival arrival) {
  {
    const std::lock_guard guard(lock_);
    if (!make_runnable(std::move(arrival))) return;
  }
  workers_.submit([this] { run(); });
}

// Under the lock. False: it waits behind its sender's message that runs.
bool Delivery::make_runnable(Arrival arrival) {
  const std::string& source = arrival->source();
  std::optional<Arrival> first = order_.push(source, std::move(arrival));
  if (first) runnable_.push((*first)->view.priority(), *first);
  return first.has_value();
}

// Handles the most urgent message and for a while those of its sender, then queues the rest behind other work: no sender
// starves others.
void Delivery::run() {
  const double until = fs::monotonic_seconds() + turn_seconds;
  for (std::optional<Arrival> arrival = most_urgent(); arrival;) {
    handle(*arrival);
    arrival = following((*arrival)->source(), fs::monotonic_seconds() < until);
  }
}

Arrival Delivery::most_urgent() {
  const std::lock_guard guard(lock_);
  return runnable_.pop();
}

// The sender's next message, if it has one and nothing keeps this worker from going on with it.
std::optional<Arrival> Delivery::following(const std::string& source, bool goes_on) {
  {
    const std::lock_guard guard(lock_);
    std::optional<Arrival> next = order_.done(source);
    if (!next) return std::nullopt;
    const int priority = (*next)->view.priority();
    if (goes_on && !runnable_.has_above(priority)) return next;
    runnable_.push(priority, std::move(*next));
  }
  workers_.submit([this] { run(); });
  return std::nullopt;
}

void Delivery::handle(const Arrival& arrival) {
  const TraceScope trace(arrival->view.traceparent());
  if (!open_message(context_, replies_, *arrival)) return;
  try {
    call_handlers(arrival);
    acknowledge(*arrival);
  } catch (const WireError& error) {
    context_.stats.count("messages_malformed");
    refuse(*arrival, "INVALID_ARGUMENTS", error.what());
  } catch (const std::exception& error) {
    context_.stats.count("handler_failures");
    refuse(*arrival, "EXECUTION_FAILED", wire::readable(error.what(), max_error_bytes));
  } catch (...) {
    context_.stats.count("handler_failures");
    refuse(*arrival, "EXECUTION_FAILED", "the handler threw what is no std::exception");
  }
  arrival->done();
}

void Delivery::acknowledge(Message::State& message) {
  if (std::exchange(message.wants_answer, false)) replies_.acknowledge(message);
}

void Delivery::refuse(Message::State& message, std::string_view code, const std::string& text) {
  if (std::exchange(message.wants_answer, false)) replies_.refuse(message, code, text);
}

// A message runs only once there is a handler, which stays.
void Delivery::call_handlers(const Arrival& arrival) {
  if (arrival->is_event) return tell_subscribers(arrival);
  Message message(arrival);
  handler_(message);
}

void Delivery::tell_subscribers(const Arrival& arrival) {
  std::vector<std::shared_ptr<const Subscription>> subscriptions;
  {
    const std::lock_guard guard(lock_);
    subscriptions = subscriptions_;
  }
  const std::string_view topic = arrival->view.topic();
  const auto is_other = [&](const auto& one) { return !wire::matches(one->pattern, topic); };
  std::erase_if(subscriptions, is_other);
  if (subscriptions.empty()) context_.stats.count("events_unsubscribed");
  Message message(arrival);
  for (const auto& one : subscriptions) one->handler(message);
}

}  // namespace speed::runtime
