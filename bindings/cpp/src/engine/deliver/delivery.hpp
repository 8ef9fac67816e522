// Received messages and events on their way to handlers and `receive` (S-5, S-17, M-33).
// The Scheduler keeps them in order, and those that nothing takes yet (T-2). One that fails follows the node's policy:
// it becomes a dead letter, is tried again, or is dropped.
// Threads: all methods may be called from any thread.
#pragma once

#include <thread>

#include "engine/context.hpp"
#include "engine/deliver/batches.hpp"
#include "engine/deliver/dead_letters.hpp"
#include "engine/threads/workers.hpp"
#include "speed/node.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

class Delivery {
 public:
  // Makes a message when it is handled; null where it is lost, which was told and finished.
  using Make = std::function<Arrival()>;

  Delivery(Context& context, Workers& workers) : context_(context), workers_(workers) {}

  void bury_in(DeadLetters& dead) { dead_ = &dead; }
  void reply_with(Replies replies) { replies_ = std::move(replies); }  // before the first arrival

  void on_message(Node::MessageHandler handler);  // ConfigurationError for a second one
  using Patterns = std::vector<std::pair<std::string, bool>>;  // and whether each is shared
  // All patterns. ConfigurationError for one that is both.
  Patterns subscribe(const std::string& pattern, Node::MessageHandler handler, bool shared = false);
  void on_batch(std::vector<std::string> patterns, Node::BatchHandler handler);  // ConfigurationError beside another
  void stop_waiting();  // the node leaves
  std::optional<Message> receive(std::optional<Duration> timeout);
  // Likewise, but only its own `done` finishes it; and one that was not taken after all.
  std::optional<Message> fetch(std::optional<Duration> timeout);
  void put_back(const Message& message);
  void wake_receivers();
  void finish(const JobPtr& job);  // its handler closes the node: it counts as handled, and does not close the next one
  void release();  // of all handlers, since nothing is handled any more
  void finish_in_hand();  // on close: what `receive` returned last counts as handled

  void arrive(Arrival arrival);  // what the reader brings
  // One that is put together when it is its turn; `unordered`: its sender's next ones need not wait for it.
  void arrive(const LanePtr& lane, const wire::Header& header, bool unordered, Make make);
  void unclaimed(const std::vector<core::WorkPtr>& events);  // that nothing took in time

 private:
  struct Subscription {
    std::string pattern;
    Node::MessageHandler handler;
    bool shared;
  };
  struct Delivered;
  using DeliveredPtr = std::shared_ptr<Delivered>;

  DeliveredPtr delivered(Arrival arrival);
  bool put(const DeliveredPtr& work, bool claimed) SPEED_REQUIRES(lock_);
  bool takes(bool is_event, std::string_view topic) const SPEED_REQUIRES(lock_);
  std::size_t claim() SPEED_REQUIRES(lock_);
  void run(const DeliveredPtr& work) SPEED_EXCLUDES(lock_);
  bool make(const DeliveredPtr& work);
  bool awaits_subscription(const DeliveredPtr& work) SPEED_EXCLUDES(lock_);
  bool was_begun_too_often(const DeliveredPtr& work) const;
  void count_delivery(const DeliveredPtr& work) const;
  bool handle(const DeliveredPtr& work);
  void call_handlers(const Arrival& arrival, std::optional<TimePoint> arrived) SPEED_EXCLUDES(lock_);
  void tell_subscribers(const Arrival& arrival, std::optional<TimePoint> arrived) SPEED_EXCLUDES(lock_);
  void log_failure(const DeliveredPtr& work, const std::string& thrown);
  bool failed(const DeliveredPtr& work, std::string_view code, const std::string& text);
  bool give_up(const DeliveredPtr& work, std::string_view code, const std::string& text);
  bool is_given_up(Message::State& message, std::string_view code, const std::string& text);
  bool retry(const DeliveredPtr& work);
  DeliveredPtr next_received(std::optional<Duration> timeout) SPEED_EXCLUDES(lock_);
  bool is_buried(const DeliveredPtr& work);
  void finish_in_hand(std::thread::id of) SPEED_EXCLUDES(lock_);
  void acknowledge(Message::State& message, bool waiting = false);
  void refuse(Message::State& message, std::string_view code, const std::string& text);

  Context& context_;
  Workers& workers_;
  DeadLetters* dead_ = nullptr;
  Replies replies_;
  mutable Mutex lock_;  // that of the workers is taken under it
  Condition arrived_;
  std::shared_ptr<const Node::MessageHandler> handler_ SPEED_GUARDED_BY(lock_);  // set once, as the next
  std::vector<std::shared_ptr<const Subscription>> subscriptions_ SPEED_GUARDED_BY(lock_);
  std::shared_ptr<Batches> batches_ SPEED_GUARDED_BY(lock_);
  // That the Scheduler still has: what comes later waits behind them.
  std::size_t before_batches_ SPEED_GUARDED_BY(lock_) = 0;
  std::map<std::thread::id, Message> in_hand_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::engine
