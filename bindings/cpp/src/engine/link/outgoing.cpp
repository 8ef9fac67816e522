#include "engine/link/outgoing.hpp"

#include <sodium.h>

#include <algorithm>
#include <filesystem>

#include "core/counters.hpp"
#include "core/texts.hpp"
#include "engine/threads/workers.hpp"
#include "fs/clock.hpp"
#include "segment/form.hpp"
#include "speed/error.hpp"
#include "speed/interruption.hpp"

namespace speed::engine {

namespace {

constexpr std::size_t kept_bytes = 256 << 10;  // by each link
constexpr std::size_t least_in_slot = 128 << 10;  // less is sooner written into the lane than into a file of its own
constexpr Duration starting_pause = 10ms;  // between two looks at a node that is starting
constexpr std::size_t many_segments = 240;  // at most, where the sender chooses their size (G-18)

// Says why the node ended: it may have lost its name.
[[noreturn]] void refuse_ended(const Context& context) {
  context.life.check();
  throw NodeClosedError("node '" + context.name + "' was closed: nothing was written");
}

void fill_random(std::span<std::byte> bytes) { randombytes_buf(bytes.data(), bytes.size()); }

fs::LaneSettings settings_of(const Context& context) {
  fs::LaneSettings settings;
  settings.window_bytes = context.window_bytes;
  settings.publish_whole = context.polling;
  settings.durable = context.durable;
  return settings;
}

// Whether it carries what a program sends, which may be large (W-4).
bool is_programs(const Outgoing& outgoing) {
  using wire::EnvelopeType;
  return outgoing.type == EnvelopeType::message || outgoing.type == EnvelopeType::event ||
         outgoing.type == EnvelopeType::spc_request || outgoing.type == EnvelopeType::spc_response;
}

// Whether it is cut on a link with a segment size (G-17).
bool is_segmented(const Outgoing& outgoing) {
  return is_programs(outgoing) && (outgoing.flags & wire::flag_segment) == 0;
}

// A sender waits for room; however that ends, the others go on. Made and dropped under the link's lock.
class FullMark {
 public:
  FullMark(std::atomic<bool>& is_full, Condition& turn) : is_full_(is_full), turn_(turn) { is_full_ = true; }
  FullMark(const FullMark&) = delete;
  FullMark& operator=(const FullMark&) = delete;
  ~FullMark() {
    is_full_ = false;
    turn_.notify_all();
  }

 private:
  std::atomic<bool>& is_full_;
  Condition& turn_;
};

// However a write ends: a link that was put to rest meanwhile opened its files for that long only.
class StayingAtRest {
 public:
  StayingAtRest(const std::atomic<bool>& rests, fs::LaneWriter& writer) : rests_(rests), writer_(writer) {}
  StayingAtRest(const StayingAtRest&) = delete;
  StayingAtRest& operator=(const StayingAtRest&) = delete;
  ~StayingAtRest() {
    if (rests_) writer_.close();
  }

 private:
  const std::atomic<bool>& rests_;
  fs::LaneWriter& writer_;
};

}  // namespace

OutgoingLink::OutgoingLink(Context& context, const std::string& target, std::uint32_t target_life,
                           const wire::BondPtr& bond, Others others)
    : context_(context),
      target_(target),
      traffic_(context.stats.traffic(target)),
      others_(std::move(others)),
      ringer_(wire::bell_path(context.root, target)),
      is_of_one_life_(target_life != 0),
      target_life_(target_life),
      sealer_(context.keyring(), context.id, wire::node_id(target), context.generation, target_life),
      nonces_(fill_random),
      writer_(context.root, context.name, target, context.generation,
              context.keyring().lane_keys(context.id, wire::node_id(target)), settings_of(context)) {
  sealer_.seal_for(target_life, bond);
}

std::uint64_t OutgoingLink::send(const Outgoing& outgoing) {
  if (is_cut_ && is_segmented(outgoing)) {
    if (const auto cutting = splitter()) return send_cut(*cutting, outgoing);
  }
  const bool is_call =
      outgoing.type == wire::EnvelopeType::spc_request || outgoing.type == wire::EnvelopeType::spc_response;
  for (const ByteView payload : outgoing.payloads) {
    if (payload.size() <= wire::limits::max_payload_bytes) continue;
    if (is_call && outgoing.payloads.size() == 1) return send_cut(fitting_splitter(payload.size()), outgoing);
    throw PayloadTooLargeError(std::to_string(payload.size()) + " bytes for '" + target_ + "'; the limit is " +
                               std::to_string(wire::limits::max_payload_bytes) + ": send less or in parts");
  }
  if (outgoing.urgent && is_full_) refuse_full();
  const Appended appended = append(outgoing);
  try {
    context_.registration->check_still_held();
    if (context_.durable) sync(appended);
  } catch (Error& error) {
    ring();
    if (outgoing.type == wire::EnvelopeType::spc_request)
      error.set_execution(Execution::may_have_run);  // it is written
    throw;
  }
  ring();
  return appended.sequence;
}

std::uint64_t OutgoingLink::send_cut(const segment::Splitter& splitter, const Outgoing& outgoing) {
  std::uint64_t sequence = 0;
  std::size_t whole = 0;
  for (const ByteView payload : outgoing.payloads) {
    try {
      splitter.split(payload, [&](const segment::Segment& one) { sequence = send_segment(one, outgoing); });
    } catch (const StorageError& error) {
      throw StorageError(error.what(), whole);  // its segments are no envelopes of the caller
    }
    ++whole;
  }
  return sequence;
}

std::uint64_t OutgoingLink::send_segment(const segment::Segment& segment, const Outgoing& outgoing) {
  wire::Buffer written = context_.buffers.take();
  written.reserve(segment.payload.size() + segment::max_head_bytes);
  segment::Segment marked = segment;
  marked.is_unordered = outgoing.unordered;
  segment::write_segment(marked, written);
  const ByteView one = written.view();
  Outgoing each = outgoing;
  each.flags |= wire::flag_segment;
  each.payloads = {&one, 1};
  const std::uint64_t sequence = send(each);
  context_.buffers.give(std::move(written));
  return sequence;
}

void OutgoingLink::cut(std::shared_ptr<const segment::Splitter> splitter) {
  const MutexLock guard(cut_lock_);
  is_cut_ = splitter != nullptr;
  splitter_ = std::move(splitter);
}

std::shared_ptr<const segment::Splitter> OutgoingLink::splitter() const {
  const MutexLock guard(cut_lock_);
  return splitter_;
}

// One lock covers counting, sealing and appending, so that the order in the file is that of the sequence (L-3).
OutgoingLink::Appended OutgoingLink::append(const Outgoing& outgoing) {
  std::uint64_t total = 0;
  for (const ByteView payload : outgoing.payloads) total += payload.size() + wire::envelope_overhead;
  if (rests_ && rests_.exchange(false)) others_.woken(*this);
  UniqueLock guard(lock_);
  const StayingAtRest staying(rests_, writer_);
  check_open(outgoing);
  if (is_full_) wait_for_turn(guard, outgoing);
  if (!writer_.has_room(total)) wait_for_room(guard, total, outgoing);
  check_open(outgoing);
  context_.registration->check_held();
  const std::uint64_t failed_flushes = writer_.failed_flushes();
  const std::uint64_t last = counter_ + outgoing.payloads.size();
  if (outgoing.track) outgoing.track(wire::make_sequence(context_.generation, last));
  append_all(outgoing, total);
  traffic_.add_sent(outgoing.payloads.size(), total - outgoing.payloads.size() * wire::envelope_overhead);
  return {wire::make_sequence(context_.generation, counter_), failed_flushes};
}

// What goes into slots stands between what does not, as the sequence says. A failure tells how many went in before it:
// whoever waits for one of those is rung for.
void OutgoingLink::append_all(const Outgoing& outgoing, std::uint64_t total) {
  const std::span<const ByteView> payloads = outgoing.payloads;
  const std::uint64_t first = counter_;
  std::size_t sent = 0;
  try {
    while (sent < payloads.size()) {
      const auto rest = payloads.subspan(sent);
      const auto large =
          std::ranges::find_if(rest, [&](ByteView payload) { return goes_into_slot(outgoing, payload); });
      const auto small = static_cast<std::size_t>(large - rest.begin());
      if (small > 0) append_sealed(outgoing, rest.first(small), total);
      sent += small;
      if (large == rest.end()) continue;
      append_slotted(outgoing, *large);
      ++sent;
    }
  } catch (const StorageError& error) {
    if (counter_ != first) ring_once();
    throw StorageError(error.what(), sent + error.envelopes_written());
  }
}

bool OutgoingLink::goes_into_slot(const Outgoing& outgoing, ByteView payload) const {
  return takes_slots_ && payload.size() >= least_in_slot && is_programs(outgoing);
}

// What finds no space is tried once more, if there are files that can go.
void OutgoingLink::append_sealed(const Outgoing& outgoing, std::span<const ByteView> payloads, std::uint64_t room) {
  std::size_t written = 0;
  try {
    return append_once(outgoing, payloads, room);
  } catch (const fs::NoSpaceError& error) {
    written = error.envelopes_written();
    if (!find_space()) throw;
  }
  try {
    append_once(outgoing, payloads.subspan(written), room);
  } catch (const StorageError& error) {
    throw StorageError(error.what(), written + error.envelopes_written());
  }
}

void OutgoingLink::append_once(const Outgoing& outgoing, std::span<const ByteView> payloads, std::uint64_t room) {
  const auto now = static_cast<std::uint64_t>(fs::unix_ms());
  std::uint64_t counter = counter_;
  wire::Buffer large;
  const bool is_large = room > kept_bytes;
  wire::Buffer& sealed = is_large ? (large = context_.buffers.take(room)) : sealed_;
  sealed.clear();
  ends_.clear();
  for (const ByteView payload : payloads) {
    sealer_.seal(outgoing.type, outgoing.flags, ++counter, now, payload, nonces_.draw(), sealed);
    ends_.push_back(sealed.size());
  }
  try {
    writer_.append(sealed.view(), ends_, sealer_.opening());
  } catch (const StorageError& error) {
    counter_ += error.envelopes_written();
    throw;
  }
  counter_ = counter;
  if (is_large) context_.buffers.give(std::move(large));
}

// The receiver is rung for before the pieces are written: it opens the first while the last are sealed (L-29).
void OutgoingLink::append_slotted(const Outgoing& outgoing, ByteView payload) {
  wire::SlotHead head{0, payload.size(), {}};
  fill_random(head.key);
  wire::SlotPieces pieces(head, wire::Aead::Direction::seal);
  head.number = take_slot(pieces);
  if (head.number == 0) return append_sealed(outgoing, {&payload, 1}, payload.size() + wire::envelope_overhead);
  const wire::SlotHeadBytes encoded = wire::encode_slot_head(head);
  const ByteView one = encoded;
  Outgoing envelope = outgoing;
  envelope.flags |= wire::flag_slotted;
  append_sealed(envelope, {&one, 1}, 0);
  ring_once();
  writer_.write_slot(head.number, wire::make_sequence(context_.generation, counter_), pieces, payload);
}

std::uint32_t OutgoingLink::take_slot(const wire::SlotPieces& pieces) {
  try {
    return writer_.take_slot(pieces);
  } catch (const fs::NoSpaceError&) {
    if (!find_space()) throw;
  }
  return writer_.take_slot(pieces);
}

// Whether free slots of this node were removed.
bool OutgoingLink::find_space() {
  const bool found = writer_.give_slots_back();
  return others_.make_space(*this) || found;
}

// Another sender waits for room; whoever comes later overtakes it with nothing, and waits for its own deadline only.
void OutgoingLink::wait_for_turn(UniqueLock& guard, const Outgoing& outgoing) {
  const Duration longest = is_interruptible() ? interruption_period : Duration::max();
  const auto is_next = [&] { return !is_full_; };
  while (true) {
    const Duration left = outgoing.deadline - fs::monotonic_now();
    if (outgoing.urgent) refuse_full();
    if (turn_.wait_for(guard, std::min(left, longest), is_next)) return;
    if (left <= longest) refuse_full();
    const Unlocked unlocked(guard, lock_);
    look_for_interruption();
  }
}

// Waits without the lock; whether the node ended meanwhile. One that is interrupted has the lock again.
bool OutgoingLink::has_ended_while(UniqueLock& guard, Duration pause) {
  const Unlocked unlocked(guard, lock_);
  const bool has_ended = context_.life.wait_for_end(pause);
  look_for_interruption();
  return has_ended;
}

// Keeps others from appending until the receiver has committed enough, but not from the lock.
void OutgoingLink::wait_for_room(UniqueLock& guard, std::uint64_t bytes, const Outgoing& outgoing) {
  const Workers::PlaceRelease released;
  const FullMark mark(is_full_, turn_);
  Duration pause = first_pause;
  do {
    const Duration left = outgoing.deadline - fs::monotonic_now();
    if (outgoing.urgent || left <= Duration::zero()) refuse_full();
    if (has_ended_while(guard, std::min(pause, left))) refuse_full();
    pause = std::min(pause * 2, longest_pause);
  } while (!writer_.has_room(bytes));
}

// Nothing is written, and nothing opened, once the node has let go of its links.
void OutgoingLink::check_open(const Outgoing& outgoing) const {
  if (context_.fork_mark->is_copied())
    throw ForkedNodeError("node '" + context_.name + "' belongs to the parent process");
  if (is_shut_ || (has_ended_ && !outgoing.is_last)) refuse_ended(context_);
}

void OutgoingLink::refuse_full() const {
  throw InboxFullError("the inbox of '" + target_ + "' is full (" + std::to_string(context_.window_bytes) +
                       " bytes may wait there): it reads too slowly or has stopped reading; retry later or send less");
}

// Makes the lane durable up to what was appended (L-7). Who waits meanwhile shares the next flush; one that fails is told
// to all who appended before it, since a device tells of a loss only once.
void OutgoingLink::sync(const Appended& appended) {
  flushes_.wait(wire::counter_of(appended.sequence), [this] { return flush(); });
  const MutexLock guard(lock_);
  if (writer_.failed_flushes() != appended.failed_flushes) writer_.refuse_flush();
}

// Others append while the flush runs, and are in the next one. Returns the counter of the last that is in this one.
std::uint64_t OutgoingLink::flush() {
  UniqueLock guard(lock_);
  const std::uint64_t written = counter_;
  try {
    const fs::Flush flush = writer_.begin_flush();
    guard.unlock();
    flush.run();
  } catch (const std::system_error& error) {
    if (!guard.owns_lock()) guard.lock();
    writer_.flush_failed(error.code());
  }
  return written;
}

fs::RingResult OutgoingLink::ring_once() {
  const MutexLock guard(ring_lock_);
  const fs::RingResult result = ringer_.ring(context_.id);
  if (rests_) ringer_.close();
  return result;
}

void OutgoingLink::ring() {
  if (context_.polling || ring_once() != fs::RingResult::nobody) return;
  context_.stats.count(core::counters::rings_unheard);
  context_.unheard(target_);
}

void OutgoingLink::rest() {
  const MutexLock guard(lock_);
  const MutexLock ringing(ring_lock_);
  rests_ = true;
  sealed_.trim(0);
  writer_.close();
  ringer_.close();
}

void OutgoingLink::renew(std::uint32_t target_life, const wire::BondPtr& bond) {
  rest();
  const MutexLock guard(lock_);
  is_of_one_life_ = false;
  target_life_ = target_life;
  sealer_.seal_for(target_life, bond);
}

void OutgoingLink::seal_by(const wire::BondPtr& bond) {
  const MutexLock guard(lock_);
  sealer_.seal_for(target_life_, bond);
}

void OutgoingLink::tidy() {
  const MutexLock guard(lock_);
  writer_.tidy_slots();
}

bool OutgoingLink::give_slots_back() {
  if (!lock_.try_lock()) return false;
  const MutexLock guard(lock_, std::adopt_lock);
  return writer_.give_slots_back();
}

void OutgoingLink::end() {
  const MutexLock guard(lock_);
  has_ended_ = true;
}

void OutgoingLink::shut() {
  const MutexLock guard(lock_);
  const MutexLock ringing(ring_lock_);
  is_shut_ = true;
  writer_.end();
  ringer_.shut();
}

int OutgoingLink::bell_fd() {
  const MutexLock guard(ring_lock_);
  return rests_ ? -1 : ringer_.fd();
}

LinkPtr Links::granted(const std::string& target, TimePoint deadline, Right right) {
  if (LinkPtr link = look(target, true, right).link) return link;
  const Workers::PlaceRelease released;
  while (true) {
    look_for_interruption();
    if (LinkPtr link = look(target, true, right).link) return link;
    if (fs::monotonic_now() >= deadline) throw still_starting(target);
    if (context_.life.wait_for_end(starting_pause)) context_.life.check();
  }
}

Links::Granted Links::granted_call(const std::string& target) { return look(target, false, Right::grant); }

NodeStartingError still_starting(const std::string& target) { return NodeStartingError(core::texts::starting(target)); }

// `may_start`: a node that is starting gets what it allows already.
Links::Granted Links::look(const std::string& target, bool may_start, Right right) {
  if (fs::EntryPtr entry = context_.registry->granted_lately(target, context_.name, context_.fingerprint())) {
    LinkPtr link = open(target, static_cast<std::uint32_t>(entry->generation));
    bind(*link, *entry);
    return {std::move(link), std::move(entry)};
  }
  wire::check_node_name(target);
  const fs::EntryPtr entry = context_.registry->live(target);
  if (entry == nullptr) {
    if (const LinkPtr link = find(target)) link->rest();
    throw UnknownNodeError(context_.registry->absence(target));
  }
  if (entry->status == "leaving") throw NodeLeftError(core::texts::leaving(target));
  const bool grants =
      context_.is_granted_by(*entry) || (right == Right::look && wire::observed_by(*entry, context_.name));
  if (entry->status == "starting" && !(may_start && grants)) return {nullptr, entry};
  if (!grants) {
    context_.stats.count(core::counters::sends_denied);
    context_.stats.refused_by(target);
    throw AccessDeniedError(core::texts::not_allowed(target, context_.name));
  }
  LinkPtr link = open(target, static_cast<std::uint32_t>(entry->generation));
  bind(*link, *entry);
  return {std::move(link), entry};
}

void Links::check_going_on() const {
  if (has_ended_) refuse_ended(context_);
}

// Others that were used longer ago rest for it.
void Links::woken(OutgoingLink& link) {
  std::vector<OutgoingLink*> resting;
  {
    const MutexLock guard(lock_);
    const auto row = links_.find(link.target());
    if (row == links_.end() || row->second.get() != &link) return;  // it was forgotten meanwhile
    resting = awake_.use(&link, context_.most_links());
  }
  for (OutgoingLink* const other : resting) other->rest();
  if (opened_) opened_(link);
}

// The links of others are locked one at a time, and only those that nobody holds.
bool Links::make_space(const OutgoingLink& full) const {
  bool found = false;
  for (const LinkPtr& link : opened()) {
    if (link.get() != &full) found = link->give_slots_back() || found;
  }
  return found;
}

namespace {

bool left_nothing(const std::string& root, const std::string& name) {
  std::error_code failed;  // what cannot be looked at may be there
  const auto status = std::filesystem::symlink_status(wire::node_dir(root, name), failed);
  return status.type() == std::filesystem::file_type::not_found;
}

}  // namespace

void Links::close_departed() {
  for (const LinkPtr& link : opened()) {
    link->tidy();
    if (const fs::EntryPtr entry = context_.registry->live(link->target())) {
      look_at_card(*link, *entry);
      continue;
    }
    {
      const MutexLock guard(lock_);
      awake_.rest(link.get());
      if (link->is_of_one_life() && left_nothing(context_.root, link->target())) links_.erase(link->target());
    }
    link->rest();
  }
}

LinkPtr Links::find(const std::string& target) const {
  const MutexLock guard(lock_);
  const auto found = links_.find(target);
  return found == links_.end() ? nullptr : found->second;
}

void Links::cut(const std::string& target, std::shared_ptr<const segment::Splitter> splitter) {
  const MutexLock guard(lock_);
  if (const auto found = links_.find(target); found != links_.end()) found->second->cut(splitter);
  if (splitter == nullptr) {
    splitters_.erase(target);
  } else {
    splitters_[target] = std::move(splitter);
  }
}

std::size_t Links::most_bytes(const std::string& target) const {
  const std::size_t most = takes_segments(target) ? wire::limits::max_call_bytes : wire::limits::max_payload_bytes;
  const MutexLock guard(lock_);
  const auto cutting = splitters_.find(target);
  return cutting == splitters_.end() ? most : std::min(most, cutting->second->most_bytes());
}

void Links::check_size(const std::string& target, std::size_t bytes) const {
  if (bytes <= wire::limits::max_payload_bytes && !is_cut(target)) return;
  if (const std::size_t most = most_bytes(target); bytes > most) {
    throw PayloadTooLargeError(std::to_string(bytes) + " bytes for '" + target + "'; the limit is " +
                               std::to_string(most) + ": send less, or a message in parts");
  }
}

bool Links::is_cut(const std::string& target) const {
  const MutexLock guard(lock_);
  return splitters_.contains(target);
}

bool Links::takes_segments(const std::string& target) const {
  const fs::EntryPtr entry = context_.registry->live(target);
  return entry != nullptr && wire::has_feature(*entry, "segments");
}

bool Links::takes_slots(const std::string& target) const {
  const fs::EntryPtr entry = context_.registry->live(target);
  return !context_.polling && entry != nullptr && wire::has_feature(*entry, "slots");
}

segment::Splitter fitting_splitter(std::size_t payload_bytes) {
  const std::size_t least = (payload_bytes + many_segments - 1) / many_segments;
  const std::size_t rounded = (least + segment::shard_unit - 1) / segment::shard_unit * segment::shard_unit;
  return segment::Splitter(std::max(wire::limits::data_segment_bytes, rounded), 0);
}

bool Links::knows(const std::string& name) const { return find(name) != nullptr; }

std::vector<LinkPtr> Links::opened() const {
  const MutexLock guard(lock_);
  std::vector<LinkPtr> links;
  for (const auto& [name, link] : links_) links.push_back(link);
  return links;
}

void Links::end() {
  {
    const MutexLock guard(lock_);
    has_ended_ = true;
  }
  for (const LinkPtr& link : opened()) link->end();
}

void Links::shut() {
  end();
  for (const LinkPtr& link : opened()) link->shut();
}

}  // namespace speed::engine
