// A family of nodes of this root, as a program names it: `pricing.*` (S-40).
#include <algorithm>
#include <atomic>
#include <memory>

#include "engine/call/calling.hpp"
#include "engine/remote/families.hpp"
#include "engine/remote/peer.hpp"
#include "engine/span.hpp"
#include "engine/threads/workers.hpp"
#include "engine/tracing.hpp"
#include "fs/clock.hpp"
#include "speed/interruption.hpp"
#include "wire/mutex.hpp"
#include "wire/names/names.hpp"

namespace speed::engine {

namespace {

constexpr std::size_t most_described = 64;
constexpr std::size_t large_bytes = 64 << 10;

// Such an error says of a message that nothing was written; of a node that left, unless it is waited for.
void note_not_written(Error& error, bool awaited) {
  const bool is_left = error.code() == "NODE_LEFT" || error.code() == "LEAVING";
  if (!error.execution() && !(awaited && is_left)) error.set_execution(Execution::not_begun);
}

// The members that a call and its hedge ask: none of them twice.
// Threads: all methods may be called from any thread.
class SharedWalk {
 public:
  explicit SharedWalk(Walk walk) : walk_(std::move(walk)) {}

  std::string take() {
    const MutexLock guard(lock_);
    return walk_.take();
  }
  void failed(const std::exception_ptr& error, const std::string& member) {
    const MutexLock guard(lock_);
    walk_.failed(error, member);
  }

 private:
  Mutex lock_;  // before that of the families
  Walk walk_ SPEED_GUARDED_BY(lock_);
};

// A call that goes from member to member until one begins it.
// Threads: its parts run one after the other, on any thread.
class PassingCall : public std::enable_shared_from_this<PassingCall> {
 public:
  PassingCall(Runtime& node, std::shared_ptr<SharedWalk> walk, std::string service, Map arguments, CallOptions options,
              core::Completion completion)
      : node_(node),
        walk_(std::move(walk)),
        service_(std::move(service)),
        arguments_(std::move(arguments)),
        options_(std::move(options)),
        completion_(std::move(completion)),
        deadline_(fs::monotonic_now() + duration_of("timeout", options_.timeout)) {
    if (!options_.traceparent) options_.traceparent = current_traceparent;  // another thread may go on
  }

  // Asks the next member; throws what no other one could change.
  void go_on() {
    while (true) {
      const std::string name = walk_->take();
      try {
        const Duration left = std::max(Duration::zero(), deadline_ - fs::monotonic_now());
        start_call(node_, {name, service_, arguments_, left, options_.traceparent}, options_.stop,
                   [self = shared_from_this(), name](core::Outcome outcome) { self->ended(name, std::move(outcome)); });
        return;
      } catch (...) {
        node_.families.ended(name);
        walk_->failed(std::current_exception(), name);
      }
    }
  }

 private:
  // On the thread that reads, which waits for nothing.
  void ended(const std::string& name, core::Outcome outcome) {
    node_.families.ended(name);
    const auto* const unread = std::get_if<core::Unread>(&outcome);
    if (unread != nullptr && unread->payload.bytes.size() > large_bytes) return completion_(std::move(outcome));
    outcome = read(std::move(outcome), options_.views);
    const auto* const error = std::get_if<std::exception_ptr>(&outcome);
    if (error == nullptr) return completion_(std::move(outcome));
    node_.workers.submit([self = shared_from_this(), name, error = *error] { self->again(error, name); });
  }

  void again(const std::exception_ptr& error, const std::string& name) {
    try {
      walk_->failed(error, name);
      go_on();
    } catch (...) {
      completion_(std::current_exception());
    }
  }

  Runtime& node_;
  const std::shared_ptr<SharedWalk> walk_;
  const std::string service_;
  const Map arguments_;
  CallOptions options_;
  const core::Completion completion_;
  const TimePoint deadline_;
};

// A call that a second member is asked for as well where the first does not answer in time: the first result counts (S-41).
// Threads: `result` on one; what is shared ends on any.
class HedgedCall {
 public:
  HedgedCall(Runtime& node, Walk walk, std::string service, Map arguments, CallOptions options)
      : node_(node),
        walk_(std::make_shared<SharedWalk>(std::move(walk))),
        service_(std::move(service)),
        arguments_(std::move(arguments)),
        options_(std::move(options)),
        deadline_(fs::monotonic_now() + duration_of("timeout", options_.timeout)),
        stopped_(options_.stop, [stop = stop_]() mutable { stop.request_stop(); }) {}
  HedgedCall(const HedgedCall&) = delete;
  HedgedCall& operator=(const HedgedCall&) = delete;
  ~HedgedCall() { stop_.request_stop(); }  // whoever has not answered yet is told

  // `may_hedge` is asked once, when the first member has taken so long.
  Value result(Duration hedge, const std::function<bool()>& may_hedge) {
    begin();
    node_.workers.ensure_reader();
    if (!ends_by(fs::monotonic_now() + hedge) && may_hedge()) ask_another();
    ends_by(TimePoint::max());
    const MutexLock guard(state_->lock);
    if (const auto* const error = std::get_if<std::exception_ptr>(&state_->outcome)) std::rethrow_exception(*error);
    return std::move(std::get<Value>(state_->outcome));
  }

 private:
  struct State {
    Mutex lock;
    Condition changed;
    unsigned under_way SPEED_GUARDED_BY(lock) = 0;
    std::atomic<bool> done = false;
    core::Outcome outcome SPEED_GUARDED_BY(lock);

    // An error counts once nobody else is left to answer.
    void ended(core::Outcome answer) {
      const MutexLock guard(lock);
      --under_way;
      if (done) return;
      done = under_way == 0 || !std::holds_alternative<std::exception_ptr>(answer);
      outcome = std::move(answer);
      if (done) changed.notify_all();
    }
  };

  // Throws what no other member could change.
  void begin() {
    {
      const MutexLock guard(state_->lock);
      ++state_->under_way;
    }
    try {
      CallOptions rest = options_;
      rest.timeout = std::max(Seconds::zero(), Seconds(deadline_ - fs::monotonic_now()));
      rest.stop = stop_.get_token();
      const auto completion = [state = state_, views = options_.views](core::Outcome answer) {
        state->ended(read(std::move(answer), views));
      };
      std::make_shared<PassingCall>(node_, walk_, service_, arguments_, std::move(rest), completion)->go_on();
    } catch (...) {
      state_->ended(std::current_exception());
      throw;
    }
  }

  // The first one may still answer where there is no other.
  void ask_another() {
    try {
      begin();
    } catch (const Error&) {
      return;
    }
  }

  // Whether it ended. Work that waits gives up its place (T-3).
  bool ends_by(TimePoint until) {
    const Workers::PlaceRelease released;
    UniqueLock guard(state_->lock);
    while (!state_->done) {
      const Duration left = until - fs::monotonic_now();
      if (left <= Duration::zero()) return false;
      state_->changed.wait_for(guard, std::min(left, interruption_period), [&] { return state_->done.load(); });
      guard.unlock();  // who is asked may close the node, which completes this
      look_for_interruption();
      guard.lock();
    }
    return true;
  }

  Runtime& node_;
  const std::shared_ptr<SharedWalk> walk_;
  const std::string service_;
  const Map arguments_;
  const CallOptions options_;
  const TimePoint deadline_;
  std::stop_source stop_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::stop_callback<std::function<void()>> stopped_;
};

class FamilyPeer final : public Peer {
  Walk walk() const { return {node_.families, name_, key_}; }

  template <class Ask>
  auto ask(Seconds timeout, Ask what) const -> decltype(what(name_, timeout)) {
    const TimePoint deadline = fs::monotonic_now() + duration_of("timeout", timeout);
    Walk members = walk();
    while (true) {
      const std::string name = members.take();
      try {
        auto result = what(name, std::max(Duration::zero(), deadline - fs::monotonic_now()));
        node_.families.ended(name);
        return result;
      } catch (const Error&) {
        node_.families.ended(name);
        members.failed(std::current_exception(), name);
      } catch (...) {
        node_.families.ended(name);
        throw;
      }
    }
  }

  template <class Write>
  auto written(const SendOptions& options, Write write) const {
    return ask(options.timeout, [&](const std::string& member, Seconds left) {
      SendOptions rest = options;
      rest.timeout = left;
      rest.key.reset();
      try {
        return write(*peer_of(node_, member), rest);
      } catch (Error& error) {
        note_not_written(error, options.ack);
        throw;
      }
    });
  }

  // Nothing is changed by a question: another member may be asked it in any case.
  template <class Ask>
  auto question(Seconds timeout, Ask what) const {
    return ask(timeout, [&](const std::string& member, Seconds left) {
      try {
        return what(*peer_of(node_, member), left);
      } catch (Error& error) {
        note_not_written(error, false);
        throw;
      }
    });
  }

 public:
  FamilyPeer(Runtime& node, std::string name, std::optional<std::string> key)
      : Peer(node, std::move(name)), key_(std::move(key)) {}

  Value call(const std::string& service, const Map& arguments, const CallOptions& options) const override {
    if (options.retry && options.retry->hedge) {
      const Retry retry = *options.retry;
      return HedgedCall(node_, walk(), service, arguments, options).result(duration_of("hedge", *retry.hedge), [&] {
        return node_.retries.may_hedge(name_, retry);
      });
    }
    return ask(options.timeout, [&](const std::string& member, Seconds left) {
      CallOptions rest = options;
      rest.timeout = left;
      return engine::call(node_, member, service, arguments, rest);
    });
  }

  void start(const std::string& service, const Map& arguments, const CallOptions& options,
             core::Completion completion) const override {
    std::make_shared<PassingCall>(node_, std::make_shared<SharedWalk>(walk()), service, arguments, options,
                                  std::move(completion))
        ->go_on();
  }

  core::Outcome outcome(core::Outcome answer) const override { return answer; }

  std::shared_ptr<StreamChannel> open_stream(const std::string& service, const Map& arguments,
                                             const CallOptions& options, const StreamOffer& offer) const override {
    return family_stream(node_, walk(), {service, arguments, options, offer});
  }

  std::string send(const Value& payload, const SendOptions& options) const override {
    return written(options, [&](const Peer& member, const SendOptions& rest) { return member.send(payload, rest); });
  }

  void send_encoded(ByteView message, const SendOptions& options) const override {
    written(options, [&](const Peer& member, const SendOptions& rest) {
      member.send_encoded(message, rest);
      return true;
    });
  }

  // All to one member, since they keep their order; what was not accepted there stays with the program.
  void send_all(const std::vector<Value>& payloads, const SendOptions& options) const override {
    Walk members = walk();
    const std::string name = members.take();
    try {
      peer_of(node_, name)->send_all(payloads, options);
    } catch (...) {
      node_.families.ended(name);
      throw;
    }
    node_.families.ended(name);
  }

  std::string send_large(const segment::Source& payload, const SendOptions& options,
                         const Progress& progress) const override {
    return written(options, [&](const Peer& member, const SendOptions& rest) {
      return member.send_large(payload, rest, progress);
    });
  }

  void segment(std::optional<std::size_t> /*segment_size*/, double /*parity_rate*/) const override {
    throw ConfigurationError("segments are set for one node, not for '" + name_ + "'");
  }

  void ping(Seconds timeout) const override {
    question(timeout, [&](const Peer& member, Seconds left) {
      member.ping(left);
      return true;
    });
  }

  Map discover(const char* operation, Seconds timeout) const override {
    if (std::string_view(operation) == "DESCRIBE") return described(timeout);
    return question(timeout, [&](const Peer& member, Seconds left) { return member.discover(operation, left); });
  }

  void check_alike(Seconds timeout) const override {
    const std::string text = core::difference(descriptions(timeout));
    if (!text.empty()) throw ConfigurationError("the nodes of '" + name_ + "' are not alike: " + text);
  }

 private:
  // As the first member that answers does; where another one differs, a line says so.
  Map described(Seconds timeout) const {
    std::vector<core::Described> found = descriptions(timeout);
    const std::string text = core::difference(found);
    if (!text.empty()) node_.context.log.limited(LogLevel::warning, "speed.families", "family " + name_, text);
    Map answer;
    answer.set("services", std::move(found.front().services));
    return answer;
  }

  // What members describe, but for those that are gone by now; throws if all are.
  std::vector<core::Described> descriptions(Seconds timeout) const {
    std::vector<core::FamilyMember> members = node_.families.able(name_);
    if (members.empty()) node_.families.throw_nobody(name_);
    if (members.size() > most_described) members.resize(most_described);
    std::vector<core::Described> found;
    std::exception_ptr gone;
    for (const core::FamilyMember& member : members) {
      try {
        const Map answer = peer_of(node_, member.name)->discover("DESCRIBE", timeout);
        found.push_back({member.name, answer.find("services")->as<Array>()});
      } catch (const DeliveryError&) {
        gone = std::current_exception();
      } catch (const CallTimeoutError&) {
        gone = std::current_exception();
      }
    }
    if (found.empty()) std::rethrow_exception(gone);
    return found;
  }

  const std::optional<std::string> key_;
};

}  // namespace

PeerPtr family_peer(Runtime& node, const std::string& name, const std::optional<std::string>& key) {
  wire::check_grant(name);
  return std::make_shared<const FamilyPeer>(node, name, key);
}

}  // namespace speed::engine
