#include "runtime/delivery.hpp"

#include <algorithm>

#include "fs/clock.hpp"
#include "runtime/opening.hpp"
#include "runtime/tracing.hpp"
#include "speed/error.hpp"
#include "wire/names.hpp"

namespace speed::runtime {

namespace {

constexpr std::size_t max_error_characters = 2000;
constexpr double turn_seconds = 0.0005;  // how long the messages of one sender are handled before other work

}  // namespace

void Delivery::on_message(Node::MessageHandler handler) {
  workers_.serve();
  std::vector<Arrival> runnable;
  {
    // Under one lock: what arrives from now on comes after those that waited, which were acknowledged when they came.
    const std::lock_guard guard(lock_);
    if (handler_ != nullptr || batches_ != nullptr) {
      throw ConfigurationError("this node already has a message handler: use one");
    }
    handler_ = std::move(handler);
    for (const Arrival& arrival : received_) {
      if (auto first = order_.push(arrival->source(), arrival)) runnable.push_back(std::move(*first));
    }
    received_.clear();
  }
  for (const Arrival& first : runnable) workers_.submit([this, first] { run(first); });
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
    batches_ = std::make_unique<Batches>(context_, workers_, replies_, std::move(patterns), std::move(handler),
                                         std::exchange(received_, {}));
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
  Arrival first = std::move(received_.front());
  received_.pop_front();
  return first;
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
    received_.push_back(arrival);
    arrived_.notify_one();
  }
  if (answer) replies_.acknowledge(*arrival);
}

void Delivery::enqueue(Arrival arrival) {
  std::optional<Arrival> runnable;
  {
    const std::lock_guard guard(lock_);
    const std::string& source = arrival->source();
    runnable = order_.push(source, std::move(arrival));
  }
  if (runnable) workers_.submit([this, first = std::move(*runnable)] { run(first); });
}

// Handles the messages of one sender one after the other, then queues the rest behind other work: no sender starves
// others.
void Delivery::run(Arrival arrival) {
  const double until = fs::monotonic_seconds() + turn_seconds;
  while (true) {
    handle(arrival);
    std::optional<Arrival> next = next_of(arrival->source());
    if (!next) return;
    arrival = std::move(*next);
    if (fs::monotonic_seconds() < until) continue;
    return workers_.submit([this, first = std::move(arrival)] { run(first); });
  }
}

std::optional<Arrival> Delivery::next_of(const std::string& source) {
  const std::lock_guard guard(lock_);
  return order_.done(source);
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
    refuse(*arrival, "EXECUTION_FAILED", std::string(error.what()).substr(0, max_error_characters));
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
