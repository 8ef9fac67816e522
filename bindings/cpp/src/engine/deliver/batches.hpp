// Messages and events handed over many at a time: what waits is one batch, a lone message does not wait (L-15).
// A batch is acknowledged and committed after its handler returned: one commit a lane. One whose handler threw is handed
// over again; the last time each of its messages is alone, so that one which cannot be handled takes no other one with it.
// What fails then is given up as any message is. What needs something that is away waits for as long as that takes. When the
// node leaves, what was not taken waits in its lanes for the next start.
// Threads: all methods may be called from any thread; one batch at a time is handled.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/context.hpp"
#include "engine/deliver/message_state.hpp"
#include "engine/deliver/refused_events.hpp"
#include "engine/threads/workers.hpp"
#include "speed/node.hpp"
#include "wire/mutex.hpp"

namespace speed::engine {

class Batches : public std::enable_shared_from_this<Batches> {
 public:
  // Puts a message aside, or drops it, and tells its sender why; false if there is no room for that.
  using GiveUp = std::function<bool(Message::State& message, const std::string& why)>;

  Batches(Context& context, Workers& workers, const Replies& replies, std::vector<std::string> patterns,
          Node::BatchHandler handler, GiveUp give_up)
      : context_(context),
        workers_(workers),
        replies_(replies),
        patterns_(std::move(patterns)),
        handler_(std::move(handler)),
        give_up_(std::move(give_up)) {}

  bool wants(std::string_view topic) const;  // events of it
  void add(Arrival arrival);  // in order for each sender

 private:
  void submit();
  void run() SPEED_EXCLUDES(lock_);
  std::vector<Arrival> take() SPEED_EXCLUDES(lock_);
  bool opened(Message::State& message) const;
  void handle(const std::vector<Arrival>& batch);
  bool begin(Message::State& message) const;  // false if its handling ended its process too often
  bool is_last(const Message::State& message) const;
  std::optional<std::string> failure(const std::vector<Arrival>& batch);  // why it was not taken, unless it was
  void put_aside(Message::State& message, const std::string& why);
  bool is_over() const { return context_.life.is_leaving(); }  // a batch that was not taken is not tried again
  void pause(unsigned attempt) const;
  Node::Refusals handled(std::vector<Message>& messages, std::optional<TimePoint> arrived) const;
  void finish(const std::vector<Arrival>& batch, const Node::Refusals& refused);
  void refuse(const Message::State& message, const Node::Refusal& refusal, bool wants_answer);

  Context& context_;
  Workers& workers_;
  const Replies& replies_;
  const std::vector<std::string> patterns_;
  const Node::BatchHandler handler_;
  const GiveUp give_up_;
  RefusedEvents refused_events_;  // used by the batch that is handled
  Mutex lock_;
  std::deque<Arrival> waiting_ SPEED_GUARDED_BY(lock_);
  bool running_ SPEED_GUARDED_BY(lock_) = false;
};

}  // namespace speed::engine
