// What all parts of one running node share.
//
// Locks, in the order in which they are taken; none is held while a service, handler or completion runs:
//   Segments      what came in segments and is not whole yet
//   InboundLane   reading, finishing and committing one lane
//   OutgoingLink  counting, sealing and appending of one link; its bell has a lock of its own
//   Registration  the node's own entry
//   Delivery      what the program takes, so that nothing comes in between when it says so
//   Workers       the Scheduler
//   KeySource     the key file, while it is read; it hands the keys to the Keyring
//   all others    guard one table each; Links and Registrar ask the registry under theirs, and the registry the KeySource
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>

#include "core/node_state.hpp"
#include "core/observers.hpp"
#include "engine/log_limiter.hpp"
#include "engine/peers.hpp"
#include "engine/stats.hpp"
#include "fs/keys/key_store.hpp"
#include "fs/process.hpp"
#include "fs/registry/registration.hpp"
#include "message/guard.hpp"
#include "speed/access_policy.hpp"
#include "speed/node.hpp"
#include "speed/segment.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"
#include "wire/value/buffer.hpp"

namespace speed::engine {

// The error that ended a node, as an object of its own for whoever gets it: each says for itself what it means for a call.
inline std::exception_ptr afresh(const std::exception_ptr& why, std::optional<Execution> execution = std::nullopt) {
  const auto copy = [&](auto error) {
    if (execution) error.set_execution(*execution);
    return std::make_exception_ptr(error);
  };
  try {
    std::rethrow_exception(why);
  } catch (const NodeClosedError& error) {
    return copy(error);
  } catch (const LeaseLostError& error) {
    return copy(error);
  } catch (...) {
    return why;
  }
}

// The state of a node, and the error that its methods throw once it has ended.
// Threads: all methods may be called from any thread.
class Life {
 public:
  // Each does what is an event of the present state, and says whether it was one.
  bool start() { return take(core::NodeEvent::start, nullptr); }
  bool leave() { return take(core::NodeEvent::leave, nullptr); }
  bool close(std::exception_ptr why) { return take(core::NodeEvent::close, std::move(why)); }
  bool lose(std::exception_ptr why) { return take(core::NodeEvent::lose, std::move(why)); }

  core::NodeState state() const { return state_; }
  bool is_leaving() const { return core::is_leaving(state_); }
  bool has_ended() const { return core::has_ended(state_); }
  void check() const {
    if (!has_ended()) return;
    const MutexLock guard(lock_);
    std::rethrow_exception(afresh(why_));
  }
  std::exception_ptr why() const {
    const MutexLock guard(lock_);
    return why_;
  }
  // Waits; true if the node ended.
  bool wait_for_end(Duration timeout) const {
    UniqueLock guard(lock_);
    return changed_.wait_for(guard, timeout, [&] { return has_ended(); });
  }

 private:
  bool take(core::NodeEvent event, std::exception_ptr why) {
    const MutexLock guard(lock_);
    const std::optional<core::NodeState> next = core::next_state(state_, event);
    if (!next) return false;
    if (why != nullptr) why_ = std::move(why);
    state_ = *next;
    changed_.notify_all();
    return true;
  }

  mutable Mutex lock_;
  mutable Condition changed_;
  std::atomic<core::NodeState> state_ = core::NodeState::preparing;  // written under the lock
  std::exception_ptr why_ SPEED_GUARDED_BY(lock_);
};

// A scope for what a program registered, on a thread of a node: a child that was forked in it ends with it, or it would
// answer, finish and commit what is the parent's.
class ProgramsCode {
 public:
  explicit ProgramsCode(const fs::ForkMark& mark) : mark_(mark) {}
  ProgramsCode(const ProgramsCode&) = delete;
  ProgramsCode& operator=(const ProgramsCode&) = delete;
  ~ProgramsCode() {
    if (mark_.is_copied()) end_child();
  }

 private:
  [[noreturn]] static void end_child();  // says why; nothing of the parent is flushed, told or released

  const fs::ForkMark& mark_;
};

// Made once, then only read; its parts guard themselves.
struct Context {
  std::string name;
  wire::NodeId id{};
  std::string root;
  std::string name_space;
  std::vector<std::string> accept_name_spaces;  // beside its own (M-34)
  std::unique_ptr<fs::KeySource> keys;
  std::unique_ptr<Peers> peers;  // null without an identity
  std::unique_ptr<fs::Registry> registry;
  std::unique_ptr<fs::Registration> registration;
  std::uint32_t generation = 0;
  bool durable = false;
  bool polling = false;
  bool remote = false;  // the root lies on another host
  std::uint64_t window_bytes = 0;
  Duration spin = {};
  std::size_t max_open_files = 512;  // of lanes and links together (L-26)
  segment::Limits segment_limits;
  OnError on_error = OnError::dead_letter;
  unsigned max_deliveries = wire::limits::max_deliveries;
  bool is_judge = true;  // of messages; else what embeds this node is
  std::unique_ptr<const message::Guard> guard;  // null: messages are handed out as they came
  AccessPolicy policy;
  core::Observers observers;
  Stats stats;
  LogLimiter log;
  wire::Buffers buffers;
  Life life;
  const std::shared_ptr<const fs::ForkMark> fork_mark = std::make_shared<fs::ForkMark>();  // lanes may outlive the node
  std::function<void(const std::string& target)> unheard;  // told when a ring finds no reader
  std::function<void(const std::string& why)> replaced;  // told when another process is seen to have the name
  // Told of a sender that will not come back, and of which this node has no lane any more.
  std::function<void(const std::string& source)> lane_removed = [](const std::string&) {};

  // For a catch block: counts and logs what a callback of the program threw.
  void callback_failed(const std::string& callback);

  const wire::Keyring& keyring() const { return keys->keyring(); }
  // For what waits in files of this node: with an identity, nobody else has these keys (I-9).
  const wire::Keyring& resting_keyring() const { return peers == nullptr ? keyring() : peers->resting(); }
  // Of the own identity; empty without one.
  std::string_view fingerprint() const { return peers == nullptr ? std::string_view() : peers->own; }
  bool is_granted_by(const wire::Entry& entry) const { return wire::grants(entry, name, fingerprint()); }

  // ConfigurationError for grants of identities that this node could not tell (I-8).
  void check_grants() const;
  // IdentityCopiedError where another node lives with this identity (I-7).
  void check_not_copied() const;

  // Lanes that may hold files open, and links: each has a directory and a file, and a cursor or a bell.
  std::size_t most_lanes() const { return std::max(min_awake, 2 * max_open_files / 3 / files_each); }
  std::size_t most_links() const { return std::max(min_awake, max_open_files / 3 / files_each); }
  static constexpr std::size_t files_each = 3;
  static constexpr std::size_t min_awake = 4;
};

}  // namespace speed::engine
