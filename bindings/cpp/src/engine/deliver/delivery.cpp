#include "engine/deliver/delivery.hpp"

#include <algorithm>

#include "core/counters.hpp"
#include "core/fault.hpp"
#include "engine/deliver/opening.hpp"
#include "engine/tracing.hpp"
#include "fs/clock.hpp"
#include "speed/error.hpp"
#include "wire/limits.hpp"
#include "wire/names/names.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::engine {

namespace {

constexpr const char* too_often = "its handling ended its process too often";
constexpr Duration look_period = 500ms;  // between two looks for a subscription to an event of many segments

Duration back_off(unsigned tries) {
  return std::min(wire::limits::retry_first * (1 << std::min(tries, 20U)), wire::limits::retry_most);
}

}  // namespace

// One message or event on its way.
struct Delivery::Delivered : Job {
  explicit Delivered(Delivery& by) : Job(core::Kind::message), delivery(by) {}
  void run() override { delivery.run(self.lock()); }

  Delivery& delivery;
  std::weak_ptr<Delivered> self;
  Arrival arrival;      // null until it is made
  Make make;            // for one that is put together when it is its turn
  bool is_answered = false;  // its sender was told that it waits, before it is put together
  TimePoint arrived_at = fs::monotonic_now();
  unsigned begun = 0;   // how often, in this life and before; 0: not looked at yet
  unsigned tries = 0;   // that failed in this life
  bool is_waiting_for_trust = false;
};

// --- what takes them ---

// What waited for it is handled before what came later: it is claimed under the lock under which arrivals look.
void Delivery::on_message(Node::MessageHandler handler) {
  workers_.serve();
  {
    const MutexLock guard(lock_);
    if (handler_ != nullptr || batches_ != nullptr) {
      throw ConfigurationError("this node already has a message handler: use one");
    }
    handler_ = std::make_shared<const Node::MessageHandler>(std::move(handler));
    claim();
  }
  workers_.notice();
}

Delivery::Patterns Delivery::subscribe(const std::string& pattern, Node::MessageHandler handler, bool shared) {
  wire::check_topic_pattern(pattern);
  workers_.serve();
  Patterns patterns;
  {
    const MutexLock guard(lock_);
    if (batches_ != nullptr) {
      throw ConfigurationError("this node already has a handler: one for batches is the only one");
    }
    if (std::ranges::any_of(subscriptions_,
                            [&](const auto& one) { return one->pattern == pattern && one->shared != shared; })) {
      throw ConfigurationError("'" + pattern + "' is subscribed to both shared and not: choose one of them");
    }
    subscriptions_.push_back(std::make_shared<const Subscription>(Subscription{pattern, std::move(handler), shared}));
    for (const auto& one : subscriptions_) {
      const std::pair<std::string, bool> found(one->pattern, one->shared);
      if (std::ranges::find(patterns, found) == patterns.end()) patterns.push_back(found);
    }
    claim();
  }
  workers_.notice();
  return patterns;
}

void Delivery::on_batch(std::vector<std::string> patterns, Node::BatchHandler handler) {
  workers_.serve();
  for (const std::string& pattern : patterns) wire::check_topic_pattern(pattern);
  {
    const MutexLock guard(lock_);
    if (handler_ != nullptr || !subscriptions_.empty() || batches_ != nullptr) {
      throw ConfigurationError("this node already has a handler: one for batches is the only one");
    }
    const auto give_up = [this](Message::State& message, const std::string& why) {
      return is_given_up(message, "EXECUTION_FAILED", why);
    };
    batches_ =
        std::make_shared<Batches>(context_, workers_, replies_, std::move(patterns), std::move(handler), give_up);
    before_batches_ = claim();
  }
  workers_.notice();
}

bool Delivery::takes(bool is_event, std::string_view topic) const {
  if (batches_ != nullptr) return !is_event || batches_->wants(topic);
  if (!is_event) return handler_ != nullptr;
  return std::ranges::any_of(subscriptions_, [&](const auto& one) { return wire::matches(one->pattern, topic); });
}

std::size_t Delivery::claim() {
  return workers_.scheduling([&](core::Scheduler& scheduler) {
    return scheduler.claim([&](const core::Work& work) SPEED_REQUIRES(lock_) {
      const auto& waiting = static_cast<const Delivered&>(work);
      if (waiting.arrival == nullptr) return takes(false, {});
      return takes(waiting.is_event, waiting.arrival->view.topic());
    });
  });
}

void Delivery::stop_waiting() { const MutexLock guard(lock_); }

// What runs keeps its own handlers until it ends. Destructors, which may be the program's, run outside of the lock.
void Delivery::release() {
  decltype(handler_) handler;
  decltype(subscriptions_) subscriptions;
  decltype(batches_) batches;
  const MutexLock guard(lock_);
  handler.swap(handler_);
  subscriptions.swap(subscriptions_);
  batches.swap(batches_);
}

// --- arrival ---

Delivery::DeliveredPtr Delivery::delivered(Arrival arrival) {
  auto work = std::make_shared<Delivered>(*this);
  work->self = work;
  work->sender = arrival->source();
  work->order = work->sender;
  work->priority = arrival->view.priority();
  work->is_event = arrival->is_event;
  work->arrival = std::move(arrival);
  return work;
}

void Delivery::arrive(Arrival arrival) {
  const auto work = delivered(std::move(arrival));
  const std::string_view topic = work->arrival->view.topic();
  bool is_claimed = false;
  {
    const MutexLock guard(lock_);
    is_claimed = takes(work->is_event, topic);
    const bool is_open =
        workers_.scheduling([](core::Scheduler& scheduler) { return scheduler.life() == core::Life::open; });
    if (batches_ != nullptr && is_claimed && before_batches_ == 0 && is_open) return batches_->add(work->arrival);
    if (!put(work, is_claimed)) return;
    if (batches_ != nullptr && is_claimed) ++before_batches_;
  }
  if (is_claimed) {
    workers_.notice();
  } else if (!work->is_event) {
    acknowledge(*work->arrival, true);
    arrived_.notify_one();
  }
}

// What an event of many segments is about is known once it is put together: a worker looks for who takes it then.
void Delivery::arrive(const LanePtr& lane, const wire::Header& header, bool unordered, Make make) {
  const auto work = std::make_shared<Delivered>(*this);
  work->self = work;
  work->sender = lane->source();
  work->is_event = header.type == wire::EnvelopeType::event;
  work->make = std::move(make);
  if (unordered) work->order = work->sender + "#" + std::to_string(header.sequence);
  bool is_claimed = work->is_event;
  {
    const MutexLock guard(lock_);
    is_claimed = is_claimed || takes(false, {});
    work->is_answered = !is_claimed && (header.flags & wire::flag_ack_requested) != 0;
    if (!put(work, is_claimed)) return;
    if (batches_ != nullptr && is_claimed) ++before_batches_;
  }
  if (is_claimed) {
    workers_.notice();
  } else {
    if (work->is_answered) replies_.acknowledge(work->sender, header.sequence, true);
    arrived_.notify_one();
  }
}

// False for one that comes while the node leaves: it stays in its lane.
bool Delivery::put(const DeliveredPtr& work, bool claimed) {
  return workers_.scheduling(
      [&](core::Scheduler& scheduler) { return scheduler.message(work, fs::monotonic_now(), claimed); });
}

void Delivery::unclaimed(const std::vector<core::WorkPtr>& events) {
  for (const core::WorkPtr& event : events) {
    Message::State& message = *std::static_pointer_cast<Delivered>(event)->arrival;
    context_.stats.count(core::counters::events_unsubscribed);
    context_.log.limited(LogLevel::warning, "speed.messages", "events_unsubscribed",
                         "an event '" + std::string(message.view.topic()) + "' of '" + message.source() +
                             "' waited for a subscription in vain");
    acknowledge(message);
    message.done();
  }
}

// --- receive ---

std::optional<Message> Delivery::receive(std::optional<Duration> timeout) {
  finish_in_hand(std::this_thread::get_id());
  std::optional<Message> message = fetch(timeout);
  if (!message) return std::nullopt;
  const MutexLock guard(lock_);
  in_hand_.insert_or_assign(std::this_thread::get_id(), *message);
  return message;
}

std::optional<Message> Delivery::fetch(std::optional<Duration> timeout) {
  workers_.serve();
  const TimePoint until = fs::monotonic_now() + timeout.value_or(Duration::zero());
  while (true) {
    const Duration left = std::max(Duration::zero(), until - fs::monotonic_now());
    const DeliveredPtr work = next_received(timeout ? std::optional(left) : std::nullopt);
    if (work == nullptr) return std::nullopt;
    const bool was_made = work->make != nullptr;
    if (!make(work) || is_buried(work)) continue;
    count_delivery(work);
    try {
      if (!open_message(context_, replies_, *work->arrival)) continue;
    } catch (const Unavailable&) {  // it waits in its place
      context_.stats.count(core::counters::messages_waiting_for_trust);
      put_back(MessageAccess::of(work->arrival));
      if (timeout && left <= Duration::zero()) return std::nullopt;
      context_.life.wait_for_end(wire::limits::retry_first);
      continue;
    }
    if (was_made) acknowledge(*work->arrival, true);
    return MessageAccess::of(work->arrival);
  }
}

// Null after the timeout.
Delivery::DeliveredPtr Delivery::next_received(std::optional<Duration> timeout) {
  const Workers::PlaceRelease released;
  UniqueLock guard(lock_);
  DeliveredPtr work;
  const auto ready = [&] {
    work = std::static_pointer_cast<Delivered>(
        workers_.scheduling([](core::Scheduler& scheduler) { return scheduler.receive(); }));
    return work != nullptr || context_.life.has_ended();
  };
  if (timeout) {
    arrived_.wait_for(guard, *timeout, ready);
  } else {
    arrived_.wait(guard, ready);
  }
  if (work == nullptr) context_.life.check();
  return work;
}

// It is fetched next, or handled if there is a handler by now.
void Delivery::put_back(const Message& message) {
  const auto work = delivered(MessageAccess::arrival(message));
  work->begun = work->arrival->deliveries - 1;
  {
    const MutexLock guard(lock_);
    workers_.scheduling([&](core::Scheduler& scheduler) { scheduler.put_back(work); });
    claim();
    arrived_.notify_one();
  }
  workers_.notice();
}

// One that ended its process too often is given up; where there is no room for dead letters it is given out.
bool Delivery::is_buried(const DeliveredPtr& work) {
  Message::State& message = *work->arrival;
  if (!was_begun_too_often(work) || !dead_->add(message, "EXECUTION_FAILED", too_often)) return false;
  context_.stats.count(core::counters::dead_letters);
  message.done();
  return true;
}

void Delivery::wake_receivers() {
  const MutexLock guard(lock_);
  arrived_.notify_all();
}

void Delivery::finish_in_hand(std::thread::id of) {
  std::optional<Message> finished;
  {
    const MutexLock guard(lock_);
    const auto found = in_hand_.find(of);
    if (found == in_hand_.end()) return;
    finished.emplace(std::move(found->second));
    in_hand_.erase(found);
  }
  finished->done();
}

void Delivery::finish(const JobPtr& job) {
  const auto work = std::dynamic_pointer_cast<Delivered>(job);
  if (work != nullptr && work->arrival != nullptr) work->arrival->done();
}

void Delivery::finish_in_hand() {
  std::map<std::thread::id, Message> finished;
  {
    const MutexLock guard(lock_);
    finished.swap(in_hand_);
  }
  for (auto& [thread, message] : finished) message.done();
}

// --- on a worker ---

void Delivery::run(const DeliveredPtr& work) {
  const bool is_made = make(work);
  if (is_made && awaits_subscription(work)) return;
  {
    const MutexLock guard(lock_);
    if (batches_ != nullptr) {
      if (is_made) batches_->add(work->arrival);
      if (before_batches_ > 0) --before_batches_;
      return;
    }
  }
  if (!is_made) return;
  if (was_begun_too_often(work)) {
    if (give_up(work, "EXECUTION_FAILED", too_often)) work->arrival->done();
    return;
  }
  count_delivery(work);
  if (handle(work)) work->arrival->done();
}

// False if there is no message after all.
bool Delivery::make(const DeliveredPtr& work) {
  if (work->make == nullptr) return true;
  work->arrival = std::exchange(work->make, nullptr)();
  if (work->arrival == nullptr) return false;
  if (work->is_answered) work->arrival->wants_answer = false;
  return true;
}

// An event that was put together and that nothing takes yet is looked at again for a while.
bool Delivery::awaits_subscription(const DeliveredPtr& work) {
  const Arrival& arrival = work->arrival;
  {
    const MutexLock guard(lock_);
    if (takes(work->is_event, arrival->view.topic())) return false;
  }
  const TimePoint now = fs::monotonic_now();
  if (now - work->arrived_at < wire::limits::unclaimed_event) {
    workers_.again(work, now + look_period);
  } else {
    unclaimed({work});
  }
  return true;
}

// Each time its process ended.
bool Delivery::was_begun_too_often(const DeliveredPtr& work) const {
  const Message::State& message = *work->arrival;
  if (work->begun == 0 && message.redelivered) work->begun = message.lane->deliveries(message.sequence);
  const bool too_many = message.redelivered && work->tries == 0 && work->begun >= context_.max_deliveries;
  if (too_many) work->arrival->deliveries = work->begun + 1;  // as it would be
  return too_many;
}

// Notes that it begins once more, before it does (L-25).
void Delivery::count_delivery(const DeliveredPtr& work) const {
  Message::State& message = *work->arrival;
  if (!work->is_waiting_for_trust) ++work->begun;
  message.deliveries = work->begun;
  if (message.redelivered) message.lane->begin_again(message.sequence, work->begun);
}

// False if it is tried again.
bool Delivery::handle(const DeliveredPtr& work) {
  const Arrival& arrival = work->arrival;
  const TraceScope trace(arrival->view.traceparent());
  try {
    work->is_waiting_for_trust = false;
    if (!open_message(context_, replies_, *arrival)) return true;
    call_handlers(arrival, work->tries == 0 ? std::optional(arrival->arrived) : std::nullopt);
    acknowledge(*arrival);
    return true;
  } catch (const Unavailable& error) {  // what it is checked with is away for the moment (S-17)
    context_.stats.count(core::counters::messages_waiting_for_trust);
    context_.log.limited(LogLevel::warning, "speed.messages", "trust", std::string("a message waits: ") + error.what());
    work->is_waiting_for_trust = true;
    return retry(work);
  } catch (const WireError& error) {
    context_.stats.count(core::counters::messages_malformed);
    refuse(*arrival, "INVALID_ARGUMENTS", error.what());
    return true;
  } catch (const std::exception& error) {
    log_failure(work, core::kind_of(error) + ": " + error.what());
    return failed(work, "EXECUTION_FAILED", wire::readable(error.what(), wire::limits::max_error_characters));
  } catch (...) {
    log_failure(work, "what is no std::exception");
    return failed(work, "EXECUTION_FAILED", "the handler threw what is no std::exception");
  }
}

void Delivery::log_failure(const DeliveredPtr& work, const std::string& thrown) {
  context_.log.always(LogLevel::error, "speed.messages",
                      "the handler failed for message '" + std::string(work->arrival->view.message_id()) + "' of '" +
                          work->sender + "': " + thrown);
}

bool Delivery::failed(const DeliveredPtr& work, std::string_view code, const std::string& text) {
  context_.stats.count(core::counters::handler_failures);
  const bool again = context_.on_error == OnError::retry && work->begun < context_.max_deliveries;
  return again ? retry(work) : give_up(work, code, text);
}

// True once it is gone for good, and its sender told; false if it is tried again.
bool Delivery::give_up(const DeliveredPtr& work, std::string_view code, const std::string& text) {
  return is_given_up(*work->arrival, code, text) || retry(work);
}

// False if there is no room for dead letters: nothing is lost.
bool Delivery::is_given_up(Message::State& message, std::string_view code, const std::string& text) {
  if (context_.on_error == OnError::drop) {
    context_.stats.count(core::counters::messages_dropped);
    context_.log.limited(LogLevel::warning, "speed.messages", "messages_dropped",
                         "a message of '" + message.source() + "' was dropped: " + text);
  } else if (!message.lane->is_dead_letter() && !dead_->add(message, code, text)) {
    return false;
  } else {
    context_.stats.count(core::counters::dead_letters);
    message.lane->failed(message.sequence);
  }
  refuse(message, code, text);
  return true;
}

bool Delivery::retry(const DeliveredPtr& work) {
  workers_.again(work, fs::monotonic_now() + back_off(work->tries++));
  return false;
}

void Delivery::acknowledge(Message::State& message, bool waiting) {
  if (message.wants_answer.exchange(false)) replies_.acknowledge(message.source(), message.sequence, waiting);
}

void Delivery::refuse(Message::State& message, std::string_view code, const std::string& text) {
  if (message.wants_answer.exchange(false)) replies_.refuse(message, code, text);
}

// A message runs only once there is a handler, which stays until the node ended.
void Delivery::call_handlers(const Arrival& arrival, std::optional<TimePoint> arrived) {
  const ProgramsCode scope(*context_.fork_mark);
  if (arrival->is_event) return tell_subscribers(arrival, arrived);
  std::shared_ptr<const Node::MessageHandler> handler;
  {
    const MutexLock guard(lock_);
    handler = handler_;
  }
  if (handler == nullptr) throw Unavailable("the node was closed");
  Message message = MessageAccess::of(arrival);
  const HandlerSpan span(context_.stats, HandlerSpan::messages, arrived);
  (*handler)(message);
}

void Delivery::tell_subscribers(const Arrival& arrival, std::optional<TimePoint> arrived) {
  std::vector<std::shared_ptr<const Subscription>> subscriptions;
  {
    const MutexLock guard(lock_);
    subscriptions = subscriptions_;
  }
  if (subscriptions.empty()) throw Unavailable("the node was closed");
  const std::string_view topic = arrival->view.topic();
  std::erase_if(subscriptions, [&](const auto& one) { return !wire::matches(one->pattern, topic); });
  Message message = MessageAccess::of(arrival);
  for (const auto& one : subscriptions) {
    const HandlerSpan span(context_.stats, one->pattern, arrived);
    one->handler(message);
  }
}

}  // namespace speed::engine
