#include "runtime/delivery.hpp"

#include <algorithm>

#include "fs/clock.hpp"
#include "runtime/tracing.hpp"
#include "speed/error.hpp"
#include "wire/names.hpp"

namespace speed::runtime {

namespace {

constexpr std::size_t max_error_characters = 2000;

}  // namespace

void Delivery::on_message(Node::MessageHandler handler) {
  workers_.serve();
  std::vector<ArrivalPtr> runnable;
  {
    // Under one lock: what arrives from now on comes after those that waited, which were acknowledged when they came.
    const std::lock_guard guard(lock_);
    if (handler_ != nullptr) throw ConfigurationError("this node already has a message handler: use one");
    handler_ = std::make_shared<const Node::MessageHandler>(std::move(handler));
    for (auto& message : received_) {
      auto arrival = std::make_shared<Arrival>(Arrival{message, false, [] {}, [](auto, auto&) {}});
      if (auto first = order_.push(message->source, arrival)) runnable.push_back(std::move(*first));
    }
    received_.clear();
  }
  for (const ArrivalPtr& first : runnable) workers_.submit([this, first] { run(first); });
}

std::vector<std::string> Delivery::subscribe(const std::string& pattern, Node::MessageHandler handler) {
  wire::check_topic_pattern(pattern);
  workers_.serve();
  const std::lock_guard guard(lock_);
  subscriptions_.push_back(std::make_shared<const Subscription>(Subscription{pattern, std::move(handler)}));
  std::vector<std::string> patterns;
  for (const auto& one : subscriptions_) {
    if (std::ranges::find(patterns, one->pattern) == patterns.end()) patterns.push_back(one->pattern);
  }
  return patterns;
}

std::optional<Message> Delivery::receive(std::optional<double> timeout_seconds) {
  workers_.serve();
  finish_in_hand();
  std::unique_lock guard(lock_);
  const auto ready = [&] { return !received_.empty() || context_.stop.requested(); };
  if (timeout_seconds) {
    arrived_.wait_for(guard, std::chrono::duration<double>(*timeout_seconds), ready);
  } else {
    arrived_.wait(guard, ready);
  }
  if (received_.empty()) {
    context_.stop.check();
    return std::nullopt;
  }
  in_hand_ = std::move(received_.front());
  received_.pop_front();
  return Message(in_hand_);
}

void Delivery::wake_receivers() {
  const std::lock_guard guard(lock_);
  arrived_.notify_all();
}

void Delivery::finish_in_hand() {
  std::shared_ptr<Message::State> finished;
  {
    const std::lock_guard guard(lock_);
    finished.swap(in_hand_);
  }
  if (finished != nullptr) finished->done();
}

void Delivery::arrive(Arrival arrival) {
  {
    std::unique_lock guard(lock_);
    if (arrival.is_event || handler_ != nullptr) {
      guard.unlock();
      return enqueue(std::make_shared<Arrival>(std::move(arrival)));
    }
    received_.push_back(arrival.message);
    arrived_.notify_one();
  }
  arrival.acknowledge();
}

void Delivery::enqueue(ArrivalPtr arrival) {
  std::optional<ArrivalPtr> runnable;
  {
    const std::lock_guard guard(lock_);
    runnable = order_.push(arrival->message->source, arrival);
  }
  if (runnable) workers_.submit([this, first = std::move(*runnable)] { run(first); });
}

// Handles one message, then queues its sender's next behind other work: no sender starves others.
void Delivery::run(const ArrivalPtr& arrival) {
  handle(*arrival);
  std::optional<ArrivalPtr> following;
  {
    const std::lock_guard guard(lock_);
    following = order_.done(arrival->message->source);
  }
  if (following) workers_.submit([this, next = std::move(*following)] { run(next); });
}

void Delivery::handle(const Arrival& arrival) {
  const TraceScope trace(arrival.message->view.traceparent());
  try {
    call_handlers(arrival);
    arrival.acknowledge();
  } catch (const WireError& error) {
    context_.stats.count("messages_malformed");
    arrival.refuse("INVALID_ARGUMENTS", error.what());
  } catch (const std::exception& error) {
    context_.stats.count("handler_failures");
    arrival.refuse("EXECUTION_FAILED", std::string(error.what()).substr(0, max_error_characters));
  } catch (...) {
    context_.stats.count("handler_failures");
    arrival.refuse("EXECUTION_FAILED", "the handler threw what is no std::exception");
  }
  arrival.message->done();
}

void Delivery::call_handlers(const Arrival& arrival) {
  std::shared_ptr<const Node::MessageHandler> handler;
  std::vector<std::shared_ptr<const Subscription>> subscriptions;
  {
    const std::lock_guard guard(lock_);
    handler = handler_;
    if (arrival.is_event) subscriptions = subscriptions_;
  }
  Message message(arrival.message);
  if (!arrival.is_event) return (*handler)(message);
  const std::string topic = arrival.message->view.topic();
  const auto is_other = [&](const auto& one) { return !wire::matches(one->pattern, topic); };
  std::erase_if(subscriptions, is_other);
  if (subscriptions.empty()) context_.stats.count("events_unsubscribed");
  for (const auto& one : subscriptions) one->handler(message);
}

}  // namespace speed::runtime
