// Outgoing links: the checked, sealed, ordered way of an envelope into another node's inbox (A-3, L-2 to L-9, W-8).
// Threads: all methods may be called from any thread.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>

#include "core/least_recently_used.hpp"
#include "engine/context.hpp"
#include "engine/link/group_flush.hpp"
#include "fs/bell.hpp"
#include "fs/lane/lane_writer.hpp"
#include "speed/embedding.hpp"
#include "speed/error.hpp"
#include "wire/envelope/seal.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

// First and longest pause between two looks at a full lane; no bell announces room.
inline constexpr Duration first_pause = 1ms;
inline constexpr Duration longest_pause = 50ms;

// What is sent: several payloads (at most 64) leave in one write and one ring, all of them or none.
struct Outgoing {
  wire::EnvelopeType type;
  std::uint16_t flags = 0;
  std::span<const ByteView> payloads;
  TimePoint deadline = {};                          // how long to wait for room
  bool urgent = false;                              // never wait
  std::function<void(std::uint64_t)> track = {};    // gets the sequence before the envelope can be answered
  bool unordered = false;                           // of segments: what comes behind them need not wait
  bool is_last = false;                             // the leave notice, which goes out when nothing else does
};

// The link from this node to `target`: one sequence, one lane, one ringer. At rest it holds no file open (L-26).
class OutgoingLink {
 public:
  // What the link asks of those beside it.
  struct Others {
    std::function<void(OutgoingLink&)> woken;  // without the locks of the link, before one at rest opens files
    std::function<bool(OutgoingLink&)> make_space;  // with them: removes files of others; whether there were any
  };
  // `target_life` and `bond`: for `renew`.
  OutgoingLink(Context& context, const std::string& target, std::uint32_t target_life, const wire::BondPtr& bond,
               Others others);

  // Seals, appends and rings; returns the last sequence. InboxFullError, StorageError, PayloadTooLargeError: then nothing
  // was accepted. LeaseLostError: likewise, unless it says that the lease ended while it wrote.
  std::uint64_t send(const Outgoing& outgoing);

  // Sends one segment of what `outgoing` says all but the payload of; returns its sequence.
  std::uint64_t send_segment(const segment::Segment& segment, const Outgoing& outgoing);

  // Cuts all that goes out from now on, or no longer (G-18).
  void cut(std::shared_ptr<const segment::Splitter> splitter);
  std::shared_ptr<const segment::Splitter> splitter() const;  // null: only what no envelope holds goes in segments

  void rest();  // the next envelope begins a new lane file and opens the bell again
  // Likewise, sealed for this life of an ephemeral target, 0 for one that is not; and for this identity, or none.
  void renew(std::uint32_t target_life, const wire::BondPtr& bond);
  void seal_by(const wire::BondPtr& bond);  // what is sent from now on; null for a target without an identity
  void tidy();  // removes slots that are no longer used
  bool give_slots_back();  // removes all that are free, but not while somebody writes; whether there were any
  void take_slots(bool takes) { takes_slots_ = takes; }  // whether the target does
  void end();  // what is being written is the last but for the leave notice: a successor may fence it off (L-18)
  void shut();  // for good: nothing is written or opened any more
  int bell_fd();  // for polling POLLERR; -1 where nobody listens, and at rest
  const std::string& target() const { return target_; }
  bool is_of_one_life() const { return is_of_one_life_; }  // of an ephemeral target
  std::uint32_t generation() const { return generation_; }  // the newest life of the target that it was for
  void reaches(std::uint32_t generation) { generation_ = std::max(generation, generation_.load()); }  // one at a time

 private:
  struct Appended {
    std::uint64_t sequence;
    std::uint64_t failed_flushes;  // before it
  };

  std::uint64_t send_cut(const segment::Splitter& splitter, const Outgoing& outgoing);
  Appended append(const Outgoing& outgoing) SPEED_EXCLUDES(lock_);
  void append_all(const Outgoing& outgoing, std::uint64_t total) SPEED_REQUIRES(lock_);
  void append_sealed(const Outgoing& outgoing, std::span<const ByteView> payloads, std::uint64_t room)
      SPEED_REQUIRES(lock_);
  void append_once(const Outgoing& outgoing, std::span<const ByteView> payloads, std::uint64_t room)
      SPEED_REQUIRES(lock_);
  std::uint32_t take_slot(const wire::SlotPieces& pieces) SPEED_REQUIRES(lock_);
  bool find_space() SPEED_REQUIRES(lock_);
  void append_slotted(const Outgoing& outgoing, ByteView payload) SPEED_REQUIRES(lock_);
  bool goes_into_slot(const Outgoing& outgoing, ByteView payload) const;
  void wait_for_turn(UniqueLock& guard, const Outgoing& outgoing) SPEED_REQUIRES(lock_);
  void wait_for_room(UniqueLock& guard, std::uint64_t bytes, const Outgoing& outgoing) SPEED_REQUIRES(lock_);
  bool has_ended_while(UniqueLock& guard, Duration pause) SPEED_REQUIRES(lock_);
  void sync(const Appended& appended) SPEED_EXCLUDES(lock_);
  std::uint64_t flush() SPEED_EXCLUDES(lock_);
  void ring();
  fs::RingResult ring_once() SPEED_EXCLUDES(ring_lock_);
  void check_open(const Outgoing& outgoing) const SPEED_REQUIRES(lock_);
  [[noreturn]] void refuse_full() const;

  Context& context_;
  std::string target_;
  Traffic& traffic_;
  Others others_;
  std::atomic<bool> rests_ = true;  // becomes true under all locks only
  Mutex lock_;
  Mutex ring_lock_ SPEED_ACQUIRED_AFTER(lock_);
  GroupFlush flushes_;
  fs::Ringer ringer_ SPEED_GUARDED_BY(ring_lock_);
  std::atomic<bool> is_of_one_life_;
  std::uint32_t target_life_ SPEED_GUARDED_BY(lock_);
  std::atomic<bool> takes_slots_ = false;  // as the entry of the target's newest life says
  std::atomic<std::uint32_t> generation_ = 0;
  std::uint64_t counter_ SPEED_GUARDED_BY(lock_) = 0;
  bool has_ended_ SPEED_GUARDED_BY(lock_) = false;
  bool is_shut_ SPEED_GUARDED_BY(lock_) = false;
  std::atomic<bool> is_full_ = false;  // a sender waits for room, without the lock; the others wait behind it
  Condition turn_;  // it waits no longer
  wire::LinkSealer sealer_ SPEED_GUARDED_BY(lock_);
  wire::NonceSource nonces_ SPEED_GUARDED_BY(lock_);
  fs::LaneWriter writer_ SPEED_GUARDED_BY(lock_);
  wire::Buffer sealed_ SPEED_GUARDED_BY(lock_);
  std::vector<std::size_t> ends_ SPEED_GUARDED_BY(lock_);
  std::atomic<bool> is_cut_ = false;
  mutable Mutex cut_lock_;
  std::shared_ptr<const segment::Splitter> splitter_ SPEED_GUARDED_BY(cut_lock_);
};

// What cuts a payload that no envelope holds, on a link without a segment size (G-18).
segment::Splitter fitting_splitter(std::size_t payload_bytes);

using LinkPtr = std::shared_ptr<OutgoingLink>;

// That a node did not come to serve in time.
NodeStartingError still_starting(const std::string& target);

// All outgoing links of a node, made on first use.
class Links {
 public:
  explicit Links(Context& context) : context_(context) {}

  // Called with each link that is about to open its files.
  void on_open(std::function<void(OutgoingLink&)> opened) { opened_ = std::move(opened); }

  // By what right somebody writes: what an observer may write too needs no grant.
  enum class Right { grant, look };

  // A link, and the entry of the life of its target that was looked at.
  struct Granted {
    LinkPtr link;  // null: that node is starting, and does not serve yet
    fs::EntryPtr entry;
  };
  // The link to a live node that allows this one; nothing is written before this returns. One that is starting is
  // waited for, up to a deadline, if it does not allow that yet; Interrupted.
  // UnknownNodeError, AccessDeniedError, NodeLeftError, NodeStartingError.
  LinkPtr granted(const std::string& target, TimePoint deadline = {}, Right right = Right::grant);
  // The same for a call: waits for nothing.
  Granted granted_call(const std::string& target);

  // The link to `target` whatever it grants: for replies, to which the request gave the right (S-10).
  // A new generation of the target gets a new lane file: another lane may lie there.
  LinkPtr open(const std::string& target, std::uint32_t generation);

  void cut(const std::string& target, std::shared_ptr<const segment::Splitter> splitter);
  // PayloadTooLargeError for a request or response of so many bytes that cannot go there (G-18).
  void check_size(const std::string& target, std::size_t bytes) const;
  bool takes_segments(const std::string& target) const;  // as its entry says
  bool takes_slots(const std::string& target) const;  // likewise

  // Heeds cards that were renewed, removes slots that are no longer used, and closes the files of links to nodes that are gone. A link that was only ever for one life of an ephemeral target is
  // forgotten, once the cursors of that life are gone with its directory: should the name come back, another key begins
  // with it, and a sequence that begins anew.
  void close_departed();

  bool knows(const std::string& name) const;  // this process wrote there, so that answers may come
  std::vector<LinkPtr> opened() const;
  void end();  // whoever still writes is refused from now on, and no link is opened: the name is about to be given up
  void shut();  // for good

 private:
  // What a link is sealed for: the generation of an ephemeral target, else 0; and the two identities, or null.
  struct Side {
    std::uint32_t life = 0;
    wire::BondPtr bond;
  };

  Granted look(const std::string& target, bool may_start, Right right);
  LinkPtr known(const std::string& target) SPEED_EXCLUDES(lock_);
  LinkPtr made(const std::string& target, std::uint32_t generation, const Side& side) SPEED_EXCLUDES(lock_);
  Side side_of(const std::string& target) const SPEED_EXCLUDES(lock_);
  void bind(OutgoingLink& link, const wire::Entry& entry) const SPEED_EXCLUDES(lock_);
  void look_at_card(OutgoingLink& link, const wire::Entry& entry) const SPEED_EXCLUDES(lock_);
  void check_going_on() const SPEED_REQUIRES(lock_);  // says why the node ended
  void woken(OutgoingLink& link) SPEED_EXCLUDES(lock_);
  bool make_space(const OutgoingLink& full) const;
  LinkPtr find(const std::string& target) const SPEED_EXCLUDES(lock_);
  bool is_cut(const std::string& target) const SPEED_EXCLUDES(lock_);  // all that goes there goes in segments
  std::size_t most_bytes(const std::string& target) const SPEED_EXCLUDES(lock_);

  Context& context_;
  std::function<void(OutgoingLink&)> opened_;
  mutable Mutex lock_;
  bool has_ended_ SPEED_GUARDED_BY(lock_) = false;
  core::LeastRecentlyUsed<OutgoingLink*> awake_ SPEED_GUARDED_BY(lock_);
  std::unordered_map<std::string, LinkPtr> links_ SPEED_GUARDED_BY(lock_);
  std::unordered_map<std::string, std::shared_ptr<const segment::Splitter>> splitters_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::engine
