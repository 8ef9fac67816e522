#include "runtime/lanes.hpp"

namespace speed::runtime {

InboundLanes::InboundLanes(Context& context, fs::Inbox& inbox, MayRead may_read, Resume resume)
    : context_(context),
      inbox_(inbox),
      may_read_(std::move(may_read)),
      resume_(std::move(resume)),
      key_changes_(context.keyring().changes()) {}

// --- which to read ---

void InboundLanes::list(double now) {
  const auto found = inbox_.scan([this](const std::string& source) {
    const wire::NodeId id = wire::node_id(source);
    return sought_.contains(id) || lanes_.contains(id);
  });
  sought_.clear();
  if (found) {
    ById<std::string> names;
    for (const std::string& source : *found) names.emplace(wire::node_id(source), source);
    learn(std::move(names));
  }
  if (held_until_) return;
  for (const auto& [id, source] : names_) held_.insert(id);
  held_until_ = now + wire::limits::ungranted_lane_grace_seconds;
}

void InboundLanes::learn(ById<std::string> names) {
  for (const auto& [id, source] : names) {
    if (!names_.contains(id)) turns_.push_front(id);
  }
  std::erase_if(passed_, [&](const auto& one) { return !names.contains(one.first); });
  const std::lock_guard guard(lock_);
  names_ = std::move(names);
}

InboundLanePtr InboundLanes::of(const wire::NodeId& id, double now) {
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

void InboundLanes::due(double now, const std::vector<std::string>& urgent, bool everything,
                       const std::function<void(const InboundLanePtr&)>& read) {
  std::vector<wire::NodeId> ids = awake_.keys();
  for (const wire::NodeId& id : std::exchange(failed_, {})) ids.push_back(id);
  const bool has_new_keys = have_keys_changed();
  const std::size_t doubted = ids.size();
  for (const std::string& source : urgent) ids.push_back(wire::node_id(source));
  for (const wire::NodeId& id : next_turns(everything || has_new_keys)) ids.push_back(id);
  doubted_ = Ids(ids.begin() + static_cast<std::ptrdiff_t>(doubted), ids.end());
  Ids seen;
  for (const wire::NodeId& id : ids) {
    if (!seen.insert(id).second) continue;
    const InboundLanePtr lane = opened(id);
    if (const InboundLanePtr due = lane != nullptr ? lane : open_if_changed(id, now)) read(due);
  }
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

InboundLanePtr InboundLanes::open_if_changed(const wire::NodeId& id, double now) {
  const auto known = names_.find(id);
  return known == names_.end() || is_unchanged(id, known->second) ? nullptr : open(id, now);
}

// A sender that is live again may go on in the lane file that it had, which does not show in the directory.
bool InboundLanes::is_unchanged(const wire::NodeId& id, const std::string& source) const {
  const auto passed = passed_.find(id);
  return passed != passed_.end() && passed->second == inbox_.changed_at(source) &&
         context_.registry->live(source) == nullptr;
}

InboundLanePtr InboundLanes::open(const wire::NodeId& id, double now) {
  const std::string source = names_.at(id);
  if (now < held_until_ && held_.contains(id) && !may_read_(source)) return nullptr;
  try {
    auto lane = std::make_shared<InboundLane>(source, inbox_.lane(source), resume_);
    passed_.erase(id);
    held_.erase(id);
    const std::lock_guard guard(lock_);
    lanes_.emplace(id, lane);
    return lane;
  } catch (const std::exception&) {
    context_.stats.count("lanes_unreadable");
    failed_.insert(id);
    return nullptr;
  }
}

// --- what holds files open ---

void InboundLanes::used(const InboundLane& lane) {
  for (const wire::NodeId& id : awake_.use(lane.id(), context_.most_lanes())) {
    if (const InboundLanePtr other = opened(id)) other->rest();
  }
}

void InboundLanes::idle(const InboundLanePtr& lane, bool scan) {
  if (!awake_.contains(lane->id())) lane->rest();
  if (!scan || !doubted_.contains(lane->id()) || !has_ended(*lane)) return;
  if (!fs::Claims(context_.root, lane->source(), context_.keyring()).may_be_ephemeral()) {
    let_go(*lane, true);
    passed_[lane->id()] = lane->ended_at;
  } else if (inbox_.remove_lane(lane->source(), lane->ended_at, *context_.registry)) {
    let_go(*lane, false);
    context_.lane_removed(lane->source());
  }
}

// Whether its sender was gone before a scan that found nothing: what it wrote just before its end was read.
bool InboundLanes::has_ended(InboundLane& lane) const {
  const bool is_over = lane.is_read() && context_.registry->live(lane.source()) == nullptr;
  const std::int64_t before = std::exchange(lane.ended_at, is_over ? inbox_.changed_at(lane.source()) : -1);
  return before >= 0 && before == lane.ended_at;
}

void InboundLanes::give_up(const InboundLane& lane) {
  context_.stats.count("lanes_failed");
  failed_.insert(lane.id());
  let_go(lane, false);
}

void InboundLanes::let_go(const InboundLane& lane, bool clean) {
  const InboundLanePtr kept = opened(lane.id());
  if (kept == nullptr) return;
  awake_.rest(lane.id());
  kept->close(clean);
  const auto counts = kept->counts();
  const std::lock_guard guard(lock_);
  for (const auto& [what, number] : counts) closed_counts_[what] += number;
  lanes_.erase(kept->id());
}

void InboundLanes::close() {
  for (const auto& [id, lane] : lanes_) lane->close(true);
  const std::lock_guard guard(lock_);
  lanes_.clear();
}

Introspection::LaneFacts InboundLanes::facts() const {
  std::vector<InboundLanePtr> lanes;
  Introspection::LaneFacts facts;
  {
    const std::lock_guard guard(lock_);
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

}  // namespace speed::runtime
