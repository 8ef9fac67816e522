// Received messages and events on their way to handlers and `receive` (S-5).
// Messages and events of one sender are handled one after the other, in order; different senders side by side. Without
// a message handler, messages wait for `receive`: acknowledged, and committed only when done.
// Threads: all methods may be called from any thread.
#pragma once

#include <deque>

#include "core/sender_order.hpp"
#include "runtime/context.hpp"
#include "runtime/message_state.hpp"
#include "runtime/workers.hpp"
#include "speed/node.hpp"

namespace speed::runtime {

// One message on its way; `acknowledge` and `refuse` answer its sender if it asked for that.
struct Arrival {
  std::shared_ptr<Message::State> message;
  bool is_event = false;
  std::function<void()> acknowledge;
  std::function<void(std::string_view code, const std::string& text)> refuse;
};

class Delivery {
 public:
  Delivery(Context& context, Workers& workers) : context_(context), workers_(workers) {}

  void on_message(Node::MessageHandler handler);  // ConfigurationError for a second one
  std::vector<std::string> subscribe(const std::string& pattern, Node::MessageHandler handler);  // all patterns
  std::optional<Message> receive(std::optional<double> timeout_seconds);
  void wake_receivers();
  void finish_in_hand();  // on close: what `receive` returned last counts as handled

  void arrive(Arrival arrival);  // what the reader brings

 private:
  using ArrivalPtr = std::shared_ptr<Arrival>;
  struct Subscription {
    std::string pattern;
    Node::MessageHandler handler;
  };

  void enqueue(ArrivalPtr arrival);
  void run(const ArrivalPtr& arrival);
  void handle(const Arrival& arrival);
  void call_handlers(const Arrival& arrival);

  Context& context_;
  Workers& workers_;
  std::mutex lock_;  // guards what follows
  std::condition_variable arrived_;
  core::SenderOrder<ArrivalPtr> order_;
  std::shared_ptr<const Node::MessageHandler> handler_;
  std::vector<std::shared_ptr<const Subscription>> subscriptions_;
  std::deque<std::shared_ptr<Message::State>> received_;
  std::shared_ptr<Message::State> in_hand_;
};

}  // namespace speed::runtime
