#include "engine/lane/lanes.hpp"

#include "core/counters.hpp"
#include "speed/error.hpp"

namespace speed::engine {

InboundLanes::InboundLanes(Context& context, fs::Inbox& inbox, MayRead may_read, Resume resume)
    : context_(context),
      inbox_(inbox),
      may_read_(std::move(may_read)),
      resume_(std::move(resume)),
      key_changes_(context.keyring().changes()) {}

// --- which to read ---

void InboundLanes::list(TimePoint now) {
  const auto found = inbox_.scan([this](const std::string& source) {
    const wire::NodeId id = wire::node_id(source);
    return sought_.contains(id) || lanes_.contains(id);
  });
  sought_.clear();
  if (found) learn(*found);
  if (held_until_) return;
  for (const auto& [id, source] : names_) held_.insert(id);
  held_until_ = now + wire::limits::ungranted_lane_grace;
}

// Only what came and went costs more than a look: there may be many thousands.
void InboundLanes::learn(const fs::Inbox::Names& found) {
  const MutexLock guard(lock_);
  ++listings_;
  for (const std::string& source : found) {
    const auto [known, is_new] = known_.try_emplace(source);
    known->second.listing = listings_;
    if (!is_new) continue;
    known->second.id = wire::node_id(source);
    names_.emplace(known->second.id, source);
    turns_.push_front(known->second.id);
  }
  if (known_.size() == found.size()) return;
  std::erase_if(known_, [this](const auto& one) {
    if (one.second.listing == listings_) return false;
    names_.erase(one.second.id);
    passed_.erase(one.second.id);
    return true;
  });
}

InboundLanePtr InboundLanes::of(const wire::NodeId& id, TimePoint now) {
  if (InboundLanePtr lane = opened(id)) return lane;
  return knows(id) ? open(id, now) : nullptr;
}

bool InboundLanes::seek(const wire::NodeId& id) {
  if (knows(id) || id == context_.id) return false;
  sought_.insert(id);
  return true;
}

InboundLanePtr InboundLanes::opened(const wire::NodeId& id) const {
  const auto found = lanes_.find(id);
  return found == lanes_.end() ? nullptr : found->second;
}

void InboundLanes::due(TimePoint now, const std::vector<std::string>& urgent, bool everything,
                       const std::function<void(const InboundLanePtr&)>& read) {
  std::vector<wire::NodeId> ids = awake_.keys();
  for (const wire::NodeId& id : std::exchange(failed_, {})) ids.push_back(id);
  const bool has_new_keys = have_keys_changed();
  const std::size_t doubted = ids.size();
  for (const std::string& source : urgent) ids.push_back(wire::node_id(source));
  for (const wire::NodeId& id : next_turns(everything || has_new_keys)) ids.push_back(id);
  doubted_ = Ids(ids.begin() + static_cast<std::ptrdiff_t>(doubted), ids.end());
  claims_.reset();
  Ids seen;
  for (const wire::NodeId& id : ids) {
    if (!seen.insert(id).second) continue;
    const InboundLanePtr lane = opened(id);
    const InboundLanePtr due = lane != nullptr ? lane : open_if_changed(id, now);
    if (due == nullptr) continue;
    look_at_sender(*due);
    read(due);
  }
}

// Before its lane is read: what a sender wrote just before its end is not passed over.
void InboundLanes::look_at_sender(InboundLane& lane) const {
  if (!doubted_.contains(lane.id())) return;
  lane.ended_at.reset();
  if (context_.registry->live(lane.source()) == nullptr) lane.ended_at = inbox_.changed_at(lane.source());
}

// Then no lane may keep a cursor under a key that will be retired: each is looked at (W-20).
bool InboundLanes::have_keys_changed() {
  const std::uint64_t before = std::exchange(key_changes_, context_.keyring().changes());
  if (before == key_changes_) return false;
  passed_.clear();
  turns_.clear();
  return true;
}

std::vector<wire::NodeId> InboundLanes::next_turns(bool everything) {
  if (everything) turns_.clear();
  if (turns_.empty()) {
    for (const auto& [id, source] : names_) turns_.push_back(id);
  }
  const std::size_t length = everything ? turns_.size() : std::min(wire::limits::lanes_at_rest_a_scan, turns_.size());
  const auto end = turns_.begin() + static_cast<std::ptrdiff_t>(length);
  std::vector<wire::NodeId> next(turns_.begin(), end);
  turns_.erase(turns_.begin(), end);
  return next;
}

InboundLanePtr InboundLanes::open_if_changed(const wire::NodeId& id, TimePoint now) {
  const auto known = names_.find(id);
  return known == names_.end() || is_unchanged(id, known->second) ? nullptr : open(id, now);
}

// A sender that is live again may go on in the lane file that it had, which does not show in the directory.
bool InboundLanes::is_unchanged(const wire::NodeId& id, const std::string& source) const {
  const auto passed = passed_.find(id);
  return passed != passed_.end() && passed->second == inbox_.changed_at(source) &&
         context_.registry->live(source) == nullptr;
}

InboundLanePtr InboundLanes::open(const wire::NodeId& id, TimePoint now) {
  const std::string source = names_.at(id);
  if (now < held_until_ && held_.contains(id) && !may_read_(source)) return nullptr;
  try {
    auto lane = std::make_shared<InboundLane>(source, inbox_.lane(source), resume_, context_.fork_mark);
    passed_.erase(id);
    held_.erase(id);
    const MutexLock guard(lock_);
    lanes_.emplace(id, lane);
    return lane;
  } catch (const LeaseLostError& error) {
    context_.replaced(error.what());
    return nullptr;
  } catch (const std::exception&) {
    context_.stats.count(core::counters::lanes_unreadable);
    failed_.insert(id);
    return nullptr;
  }
}

// --- what holds files open ---

void InboundLanes::used(const InboundLane& lane) {
  for (const wire::NodeId& id : awake_.use(lane.id(), context_.most_lanes())) {
    const InboundLanePtr other = opened(id);
    if (other == nullptr) continue;
    if (other->ended_at && other->is_read()) {
      release(*other, true);  // its sender is gone
    } else {
      other->rest();
    }
  }
}

void InboundLanes::idle(const InboundLanePtr& lane, bool scan) {
  if (!awake_.contains(lane->id())) lane->rest();
  if (!scan || !doubted_.contains(lane->id()) || !lane->ended_at || !lane->is_read()) return;
  if (*lane->ended_at < 0) {
    turns_.push_front(lane->id());  // the next scan can tell
  } else if (*lane->ended_at == inbox_.changed_at(lane->source())) {
    end(lane);
  }
}

// One whose sender does not come back is removed.
void InboundLanes::end(const InboundLanePtr& lane) {
  if (!may_be_ephemeral(lane->source())) {
    release(*lane, true);
    passed_[lane->id()] = *lane->ended_at;
  } else if (inbox_.remove_lane(lane->source(), *lane->ended_at, *context_.registry)) {
    release(*lane, false);
    context_.lane_removed(lane->source());
  }
}

bool InboundLanes::may_be_ephemeral(const std::string& source) {
  try {
    if (!claims_) claims_ = fs::newest_claims(context_.root);
  } catch (const std::system_error&) {
    return true;
  }
  const auto newest = claims_->find(source);
  return newest != claims_->end() &&
         fs::Claims(context_.root, source, context_.keyring()).may_be_ephemeral(newest->second);
}

void InboundLanes::give_up(const InboundLane& lane) {
  context_.stats.count(core::counters::lanes_failed);
  failed_.insert(lane.id());
  release(lane, false);
}

void InboundLanes::release(const InboundLane& lane, bool clean) {
  const InboundLanePtr kept = opened(lane.id());
  if (kept == nullptr) return;
  awake_.rest(lane.id());
  kept->close(clean);
  const auto counts = kept->counts();
  const MutexLock guard(lock_);
  for (const auto& [what, number] : counts) closed_counts_[what] += number;
  lanes_.erase(kept->id());
}

void InboundLanes::close() {
  for (const auto& [id, lane] : lanes_) lane->close(true);
  const MutexLock guard(lock_);
  lanes_.clear();
}

Introspection::LaneFacts InboundLanes::facts() const {
  std::vector<InboundLanePtr> lanes;
  Introspection::LaneFacts facts;
  {
    const MutexLock guard(lock_);
    for (const auto& [id, lane] : lanes_) lanes.push_back(lane);
    facts.counts = closed_counts_;
    facts.lanes = names_.size();
  }
  for (const InboundLanePtr& lane : lanes) {
    for (const auto& [what, number] : lane->counts()) facts.counts[what] += number;
  }
  if (const std::uint64_t junk = inbox_.junk(); junk > 0) facts.counts["foreign_files"] += junk;
  return facts;
}

}  // namespace speed::engine
