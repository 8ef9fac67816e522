// Received messages and events on their way to handlers and `receive` (S-5, M-33).
// Messages and events of one sender are handled one after the other, in order; different senders side by side, the more
// urgent first when workers are few. Without a message handler, messages wait for `receive`: acknowledged, and committed
// only when done.
// Threads: all methods may be called from any thread.
#pragma once

#include "core/sender_order.hpp"
#include "runtime/batches.hpp"
#include "runtime/context.hpp"
#include "runtime/workers.hpp"
#include "speed/node.hpp"

namespace speed::runtime {

class Delivery {
 public:
  Delivery(Context& context, Workers& workers) : context_(context), workers_(workers) {}

  void reply_with(Replies replies) { replies_ = std::move(replies); }  // before the first arrival

  void on_message(Node::MessageHandler handler);  // ConfigurationError for a second one
  std::vector<std::string> subscribe(const std::string& pattern, Node::MessageHandler handler);  // all patterns
  void on_batch(std::vector<std::string> patterns, Node::BatchHandler handler);  // ConfigurationError beside another
  void stop_waiting();  // the node leaves
  std::optional<Message> receive(std::optional<double> timeout_seconds);
  void wake_receivers();
  void finish_in_hand();  // on close: what `receive` returned last counts as handled

  void arrive(Arrival arrival);  // what the reader brings

 private:
  struct Subscription {
    std::string pattern;
    Node::MessageHandler handler;
  };

  Arrival next_received(std::optional<double> timeout_seconds);
  void enqueue(Arrival arrival);
  bool make_runnable(Arrival arrival);
  void run();
  Arrival most_urgent();
  std::optional<Arrival> following(const std::string& source, bool goes_on);
  void handle(const Arrival& arrival);
  void call_handlers(const Arrival& arrival);
  void tell_subscribers(const Arrival& arrival);
  void acknowledge(Message::State& message);
  void refuse(Message::State& message, std::string_view code, const std::string& text);

  Context& context_;
  Workers& workers_;
  Replies replies_;
  std::mutex lock_;  // guards what follows
  std::condition_variable arrived_;
  core::SenderOrder<Arrival> order_;
  core::ByPriority<Arrival> runnable_;
  Node::MessageHandler handler_;  // set once
  std::vector<std::shared_ptr<const Subscription>> subscriptions_;
  std::unique_ptr<Batches> batches_;  // set once
  core::SenderHeads<Arrival> received_;
  Arrival in_hand_;
};

}  // namespace speed::runtime
