// All lanes of an inbox: which are known, which hold files open, and which are looked at next (L-21, L-26).
// A lane that was read to its end, and whose sender is gone, costs a name and a time stamp; one that holds files open
// goes to rest when others need them.
// Threads: for the holder of the reader's role; `facts` may be called from any thread.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/least_recently_used.hpp"
#include "engine/context.hpp"
#include "engine/lane/inbound_lane.hpp"
#include "engine/serve/introspection.hpp"
#include "fs/lane/inbox.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

class InboundLanes {
 public:
  using MayRead = std::function<bool(const std::string& source)>;
  using Resume = std::function<void(const wire::NodeId&)>;
  InboundLanes(Context& context, fs::Inbox& inbox, MayRead may_read, Resume resume);

  // --- which to read ---

  // Knows the senders that have a lane; what an earlier process found waits for its grants (L-21).
  void list(TimePoint now);
  bool knows(const wire::NodeId& id) const { return names_.contains(id); }
  // Whether whoever rang is to be looked for by a scan: it is not known yet.
  bool seek(const wire::NodeId& id);
  // The lane of whoever rang; null if it is not known, cannot be opened, or waits for a grant.
  InboundLanePtr of(const wire::NodeId& id, TimePoint now);
  // The lane of a sender, if it was read since it last ended.
  InboundLanePtr opened(const wire::NodeId& id) const;
  // What a scan reads, one after the other: those that hold files open, those that failed, `urgent` senders, and of the
  // others some in turn, or all.
  void due(TimePoint now, const std::vector<std::string>& urgent, bool everything,
           const std::function<void(const InboundLanePtr&)>& read);

  // --- what holds files open ---

  void used(const InboundLane& lane);  // it had something: another one may have to rest for it
  // It had nothing: unless it was used of late it holds nothing open, and a scan may let go of it.
  void idle(const InboundLanePtr& lane, bool scan);
  void give_up(const InboundLane& lane);  // closes a lane in disorder; the next scan opens it at its last commit

  void close();  // commits and releases all
  Introspection::LaneFacts facts() const;

 private:
  using Ids = std::unordered_set<wire::NodeId, wire::NodeIdHash>;
  template <class Value>
  using ById = std::unordered_map<wire::NodeId, Value, wire::NodeIdHash>;

  struct Known {
    wire::NodeId id;
    std::uint64_t listing;  // the last one that showed it
  };

  void learn(const fs::Inbox::Names& found);
  void look_at_sender(InboundLane& lane) const;
  std::vector<wire::NodeId> next_turns(bool everything);
  bool have_keys_changed();
  InboundLanePtr open(const wire::NodeId& id, TimePoint now);
  InboundLanePtr open_if_changed(const wire::NodeId& id, TimePoint now);
  bool is_unchanged(const wire::NodeId& id, const std::string& source) const;
  void end(const InboundLanePtr& lane);
  bool may_be_ephemeral(const std::string& source);
  void release(const InboundLane& lane, bool clean);

  Context& context_;
  fs::Inbox& inbox_;
  MayRead may_read_;
  Resume resume_;
  std::uint64_t key_changes_;
  ById<std::int64_t> passed_;  // lanes of senders that are gone, read to the end: when they were changed last
  core::LeastRecentlyUsed<wire::NodeId, wire::NodeIdHash> awake_;
  std::deque<wire::NodeId> turns_;  // who is looked at next; whoever comes new goes first
  Ids failed_;  // could not be opened or read: the next scan tries again
  Ids sought_;  // rang, and are not known yet
  Ids doubted_;  // whose senders this scan looks at: they may be gone
  Ids held_;  // lay there when the node started
  std::unordered_map<std::string, Known> known_;
  std::uint64_t listings_ = 0;
  std::optional<std::unordered_map<std::string, std::uint32_t>> claims_;  // the newest of each name, once in a scan
  std::optional<TimePoint> held_until_;
  mutable Mutex lock_;
  // Changed under it by the holder of the role alone, who reads them without.
  ById<std::string> names_;
  ById<InboundLanePtr> lanes_;
  std::map<std::string, std::uint64_t> closed_counts_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::engine
