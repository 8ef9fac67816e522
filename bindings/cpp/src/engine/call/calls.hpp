// The caller's side: calls, pings, questions and acknowledgements that wait for an answer (S-4 to S-10).
// A request is entered before it is written, so no answer can come too early. It ends exactly once: by the answer, by
// its deadline, because the other node left, or because this node stops. What a server that is gone had not begun is sent
// to its successor (S-21).
// Threads: all methods may be called from any thread; completions run on the thread that reads and must not block.
#pragma once

#include <limits>
#include <map>
#include <utility>

#include "core/counters.hpp"
#include "core/pending_calls.hpp"
#include "engine/call/streams.hpp"
#include "engine/link/outgoing.hpp"
#include "engine/threads/workers.hpp"
#include "fs/lane/lane_reader.hpp"
#include "fs/lane/lane_state.hpp"
#include "speed/interruption.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"
#include "wire/value/control.hpp"

namespace speed::engine {

// A blocked thread's place for one outcome; its thread may read by itself.
class Waiter {
 public:
  core::Completion completion();
  bool done() const { return state_->done; }
  // Blocks until completed; the deadline bounds the wait. Work that waits gives up its place (T-3). The answer
  // of one that is interrupted is nobody's.
  // `in_place`: what is large in it is lent.
  Value result(Workers& workers, bool in_place = false);

 private:
  struct State {
    Mutex lock;
    Condition changed;
    std::atomic<bool> done = false;
    core::Outcome outcome SPEED_GUARDED_BY(lock);
  };
  // Shared: a call that could not be written may be completed while its thread goes away.
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// An outcome that is decoded; one that cannot be is an InternalError.
core::Outcome read(core::Outcome outcome, bool in_place = false);

// The exception of an SPC code; an unknown one reads as INTERNAL_ERROR (S-8).
std::exception_ptr call_error(const std::string& code, const std::string& text, const Map& details);

// What a server that is gone means for a call.
std::exception_ptr call_left(const std::string& name, bool may_have_run);

// What many sequences lead to: the first outcome counts.
core::Completion answered_once(core::Completion completion);

class Calls {
 public:
  struct Effects {
    std::function<void(TimePoint)> wake_by;  // whoever reads notices a new deadline in time
    // The lane of a node is read to its end, and then `settle` called, if it is gone or was replaced.
    std::function<void(const std::string& name)> look_at;
    std::function<void(Task)> run;  // on a worker
  };
  Calls(Context& context, Links& links, Effects effects);

  struct Call {
    std::string target;
    std::string service;
    const Map& arguments;
    Duration timeout;
    std::optional<std::string> traceparent;
    std::optional<StreamOffer> stream = {};
  };

  // Each sends; `completion` runs once unless this throws. A call is known by the id that is returned.
  std::string start(const Call& call, core::Completion completion) {
    return start(call, next_id(), std::move(completion));
  }
  // A call with a stream. `owner`: keeps this object while a channel writes.
  std::shared_ptr<Channel> open_stream(const Call& call, const std::weak_ptr<void>& owner);
  // Nobody wants the answer of a call any more: who serves it is told, soon (S-16). It ends as any other.
  void withdraw(const std::string& target, const std::string& id);
  void ask(const std::string& target, wire::EnvelopeType type, Map body, Duration timeout, core::Completion completion,
           bool urgent = false);
  void send_acknowledged(const std::string& target, wire::EnvelopeType type, ByteView payload, Duration timeout,
                         bool unordered, core::Completion completion);

  // An acknowledgement under one of several sequences; `forget` is for those that are not awaited any more.
  void track_ack(const std::string& target, std::uint64_t sequence, TimePoint deadline, core::Completion completion);
  void forget(const std::string& target, std::uint64_t sequence);
  bool waits_for(const std::string& source) const;  // an answer of this node is awaited

  // --- what the reader brings; what nobody waits for is counted ---
  void answered(const std::string& source, const fs::Received& received);  // SPC_RESPONSE
  void replied(const std::string& source, const std::string& request_id, Value result);  // HEARTBEAT, DISCOVERY
  void acknowledged(const std::string& source, const wire::Ack& ack);  // ACK
  void refused(const std::string& source, const Map& body);  // ERROR
  void expire(TimePoint now);  // and tells who is to be told of withdrawn calls
  std::uint64_t entered() const;  // how many calls were entered so far

  // --- servers that are gone, or were replaced; for the holder of the reader's role ---
  void server_left(const std::string& name, std::uint32_t generation);  // that life of a node begins nothing more
  // A call is open that was written to an earlier life of that node.
  bool has_older(const std::string& name, std::uint32_t generation) const;
  // What `name` answered was read: settles what was entered before. `live`: its entry, if it is there.
  void settle(const std::string& name, std::uint64_t entered, const fs::EntryPtr& live);

  void fail_all(const std::exception_ptr& why);  // what comes later throws `why`, before it is written
  TimePoint next_deadline() const;
  std::size_t pending() const;
  std::set<std::string> targets() const;

 private:
  std::string next_id();
  std::string start(const Call& call, const std::string& id, core::Completion completion);
  using RequestPtr = std::shared_ptr<core::SentRequest>;
  struct Open {
    std::string id;
    std::string target;
    RequestPtr request;
    std::uint64_t number = 0;  // they go in the order of their numbers
  };
  std::string write(const Call& call, const std::string& id, core::Completion completion);
  Links::Granted link_for(const Call& call);
  void write_part(const std::string& target, ByteView payload, bool may_wait);
  void send(const LinkPtr& link, const std::string& id, core::SentRequest& request, ByteView payload, bool urgent);
  void written(const std::string& id, core::SentRequest& request, const fs::EntryPtr& server, wire::Buffer payload)
      SPEED_EXCLUDES(lock_);
  bool keep(core::SentRequest& request, wire::Buffer& payload) const;
  void wait_for_start(const Call& call, const std::string& id, core::SentRequest& request, wire::Buffer payload)
      SPEED_EXCLUDES(lock_);
  void look_by(TimePoint at) SPEED_REQUIRES(lock_);
  void tell_withdrawn() SPEED_EXCLUDES(lock_);
  void tell_withdrawn(const std::string& target, std::span<const std::string> ids);
  void fail_others(const std::string& name, std::uint64_t entered) SPEED_EXCLUDES(lock_);
  bool is_over(const std::string& name, const core::SentRequest& request) const;
  fs::Decision decide(const std::string& name, const core::SentRequest& request, bool is_gone) const;
  void conclude(const Open& open, const fs::Decision& decision, bool is_replaced) SPEED_EXCLUDES(lock_);
  using Decisions = std::map<std::pair<std::string, std::uint32_t>, fs::Decision>;  // by node and generation
  std::exception_ptr settled_late(const core::PendingCall& call, Decisions& decisions) const SPEED_EXCLUDES(lock_);
  void look_again(TimePoint now) SPEED_EXCLUDES(lock_);
  void look_for_successor(const Open& open, const fs::EntryPtr& entry, TimePoint now) SPEED_EXCLUDES(lock_);
  void send_again(const Open& open, const fs::EntryPtr& server) SPEED_EXCLUDES(lock_);
  void write_again(const Open& open, const fs::EntryPtr& server, bool urgent) SPEED_EXCLUDES(lock_);
  void end(const std::string& id, std::exception_ptr why) SPEED_EXCLUDES(lock_);
  void track(std::string key, core::PendingCall call) SPEED_EXCLUDES(lock_);
  void forget(const std::string& key) SPEED_EXCLUDES(lock_);
  // False if nobody waits for it: it is counted as `unexpected`.
  bool complete(const std::string& key, const std::string& source, core::Outcome outcome,
                std::string_view unexpected = core::counters::answers_unexpected) SPEED_EXCLUDES(lock_);
  std::function<void(std::uint64_t)> losses(const LinkPtr& link, const std::string& id, TimePoint deadline);

  Context& context_;
  Links& links_;
  Effects effects_;

 public:
  Streams streams;  // of calls of this node

 private:
  const std::shared_ptr<core::KeptRequests> kept_;
  mutable Mutex lock_;
  core::PendingCalls table_ SPEED_GUARDED_BY(lock_);
  // By target: ids that it is to be told.
  std::map<std::string, std::vector<std::string>> withdrawn_ SPEED_GUARDED_BY(lock_);
  std::atomic<TimePoint> look_at_ = never;  // when those are looked at that wait for a successor, or for what decides
  std::exception_ptr ended_ SPEED_GUARDED_BY(lock_);  // why nothing is entered any more
  std::atomic<std::uint64_t> number_ = 0;

  static constexpr Duration answer_grace =
      wire::limits::call_grace;  // for the server's own verdict after the deadline (S-4)
};

}  // namespace speed::engine
