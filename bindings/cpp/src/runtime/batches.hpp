// Messages and events handed over many at a time: what waits is one batch, a lone message does not wait (L-15).
// A batch is acknowledged and committed after its handler returned: one commit a lane. One whose handler threw is handed
// over again, until the handler takes it or the node leaves; then it waits in its lanes for the next start.
// Threads: all methods may be called from any thread; one batch at a time is handled.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "runtime/arrival.hpp"
#include "runtime/context.hpp"
#include "runtime/refused_events.hpp"
#include "runtime/workers.hpp"
#include "speed/node.hpp"

namespace speed::runtime {

class Batches : public std::enable_shared_from_this<Batches> {
 public:
  Batches(Context& context, Workers& workers, const Replies& replies, std::vector<std::string> patterns,
          Node::BatchHandler handler)
      : context_(context),
        workers_(workers),
        replies_(replies),
        patterns_(std::move(patterns)),
        handler_(std::move(handler)) {}

  bool wants(std::string_view topic) const;  // events of it
  void add(Arrival arrival);         // in order for each sender
  void leave() { leaving_ = true; }  // the node leaves: a batch that was not taken is not tried again

 private:
  void submit();
  void run();
  std::vector<Arrival> take();
  bool opened(Message::State& message) const;
  void handle(const std::vector<Arrival>& batch);
  Node::Refusals handled(std::vector<Message>& messages) const;
  void finish(const std::vector<Arrival>& batch, const Node::Refusals& refused);
  void refuse(const Message::State& message, const Node::Refusal& refusal, bool wants_answer);

  Context& context_;
  Workers& workers_;
  const Replies& replies_;
  const std::vector<std::string> patterns_;
  const Node::BatchHandler handler_;
  std::atomic<bool> leaving_ = false;
  RefusedEvents refused_events_;  // used by the batch that is handled
  std::mutex lock_;  // guards what follows
  std::deque<Arrival> waiting_;
  bool running_ = false;
};

}  // namespace speed::runtime
