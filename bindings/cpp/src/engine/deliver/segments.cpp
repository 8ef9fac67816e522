// The lane of a payload that was put together: it is complete before its last segment is committed (G-14).
// Threads: all methods may be called from any thread.
#include "core/counters.hpp"
#include "engine/deliver/segments.hpp"
#include "engine/lane/inbound_lane.hpp"
#include "fs/clock.hpp"
#include "segment/rebuild.hpp"
#include "speed/error.hpp"
#include "wire/value/value_codec.hpp"

#include <algorithm>

namespace speed::engine {

class AssembledLane : public Lane {
 public:
  AssembledLane(LanePtr lane, std::function<void()> completed)
      : Lane(lane->source()), lane_(std::move(lane)), completed_(std::move(completed)) {}

  void finish(std::span<const std::uint64_t> sequences) override {
    completed_();
    lane_->finish(sequences);
  }
  // The commit is what begins a request; a crash behind it leaves a payload that nobody asks for.
  Begun begin(std::uint64_t sequence, bool may_run_again) override {
    const Begun begun = lane_->begin(sequence, may_run_again);
    if (begun == Begun::written && !may_run_again) completed_();
    return begun;
  }
  bool keep_start() override { return lane_->keep_start(); }
  unsigned deliveries(std::uint64_t sequence) const override { return lane_->deliveries(sequence); }
  void begin_again(std::uint64_t sequence, unsigned count) override { lane_->begin_again(sequence, count); }
  bool is_closed() const override { return lane_->is_closed(); }
  std::string fingerprint(const wire::KeyId& key_id) override { return lane_->fingerprint(key_id); }
  void drop(std::uint64_t sequence) override {
    completed_();
    lane_->drop(sequence);
  }

 private:
  LanePtr lane_;
  std::function<void()> completed_;
};

using segment::Segment;
using wire::EnvelopeType;

namespace {

constexpr Duration expire_period = 1s;
constexpr std::size_t inline_bytes = 1 << 20;  // up to this size a payload is put together by the thread that reads
constexpr std::size_t max_error_bytes = 500;

bool is_message(const segment::Key& key) {
  const auto type = static_cast<EnvelopeType>(key.kind);
  return type == EnvelopeType::message || type == EnvelopeType::event;
}

// The store keeps Unix time, which the next process has too; the reassembly counts in the monotonic clock.
struct Clocks {
  TimePoint monotonic = fs::monotonic_now();
  WallTime wall = fs::wall_now();

  WallTime of(TimePoint time) const { return wall - (monotonic - time); }
  TimePoint of(WallTime time) const { return monotonic - (wall - time); }
};

}  // namespace

// An envelope as it came, without its payload, which is gone when the next one is read.
struct Segments::Arrived {
  LanePtr lane;
  wire::Header header;
  bool redelivered;
  bool doubtful;

  void drop() const { lane->drop(header.sequence); }
};

Segments::Segments(Context& context, Workers& workers, Calls& calls, Callbacks callbacks)
    : context_(context),
      workers_(workers),
      calls_(calls),
      callbacks_(std::move(callbacks)),
      reassembly_(context.segment_limits),
      store_(context.root, context.name, context.resting_keyring(), context.durable) {}

void Segments::accept(const LanePtr& lane, const fs::Received& received) {
  const Segment one = segment::read_segment(received.payload);
  const Key key{lane->source(), static_cast<unsigned>(received.header.type), one.hash};
  const Arrived arrived{lane, received.header, received.redelivered, received.doubtful};
  if (received.header.type == EnvelopeType::spc_response && !calls_.waits_for(lane->source())) {  // S-6
    context_.stats.count(core::counters::answers_unexpected);
    return arrived.drop();
  }
  Task ready;
  {
    const MutexLock guard(lock_);
    if (closed_) return;
    latest_[key] = received.header.sequence;
    try {
      ready = take(key, one, arrived);
    } catch (const WireError& error) {
      if (error.reason() == "SEGMENT_LIMIT") lost(key, error.what());
      forget_sequence(key);
      throw;
    } catch (const SegmentStoreError& error) {
      store_failed(&key, error);
      arrived.drop();
    }
    forget_sequence(key);
  }
  if (ready) ready();
}

// Keeps a segment; returns what is to be done without the lock.
Task Segments::take(const Key& key, const Segment& one, const Arrived& arrived) {
  using Placing = segment::Reassembly::Placing;
  restore();
  const std::size_t most = is_message(key) ? SIZE_MAX : wire::limits::max_call_bytes;
  const auto admission = reassembly_.admit(key, one, fs::monotonic_now(), most);
  for (const Key& other : admission.evicted) {
    context_.stats.count(core::counters::segments_evicted);
    lost(other, "its segments were given up to make room for newer ones");
  }
  store_.remove(admission.evicted);
  if (admission.placing == Placing::done || in_hand_.contains(key)) {
    repeated(key, arrived);
    return {};
  }
  const segment::Reconstruction& known = *reassembly_.find(key);
  if (admission.placing == Placing::held) {
    compare(key, one);
  } else if (one.data_count == 1 && !one.is_parity) {
    in_hand_[key] = nullptr;
    return [this, key, one, arrived] { whole(key, one, arrived); };
  } else {
    const fs::Listed head{key, known.data_count, known.parity_count, Clocks().of(known.begun)};
    store_.put(head, one, fs::wall_now());
  }
  if (!known.is_ready()) {
    arrived.drop();
    return {};
  }
  in_hand_[key] = nullptr;
  Task whole_of = [this, key, arrived] { finish(key, arrived); };
  if (known.data_count * known.segment_size <= inline_bytes) return whole_of;
  if (key.kind == static_cast<std::uint8_t>(EnvelopeType::spc_request)) {
    const core::RequestBarrier::Ticket ticket = barrier_.begin(key.sender);
    return [this, ticket, key, arrived] {
      workers_.submit([this, ticket, key, arrived] { finish_request(ticket, key, arrived); });
    };
  }
  if (!is_message(key)) return [this, whole_of] { workers_.submit(whole_of); };
  return [this, key, arrived, unordered = one.is_unordered] {
    const LanePtr lane = assembled_lane(key, arrived);
    wire::Header header = arrived.header;
    header.flags = static_cast<std::uint16_t>(header.flags & ~wire::flag_segment);
    callbacks_.enqueue(lane, header, unordered,
                       [this, key, arrived, lane] { return put_together(key, arrived, lane); });
  };
}

void Segments::compare(const Key& key, const Segment& one) {
  context_.stats.count(core::counters::segments_duplicate);
  const auto shards = store_.shards(key);
  Bytes room;
  const ByteView held = shards->read(one.slot(), 0, shards->size_of(one.slot()), room);
  if (std::ranges::equal(held, one.payload)) return;
  throw WireError("SEGMENT_CONFLICT", "has other bytes than the segment that came before");
}

void Segments::repeated(const Key& key, const Arrived& arrived) {
  context_.stats.count(core::counters::segments_repeated);
  arrived.drop();
  if (reassembly_.is_complete(key) && (arrived.header.flags & wire::flag_ack_requested) != 0) {
    callbacks_.acknowledge(key.sender, arrived.header.sequence);
  }
}

// --- a payload with enough segments ---

void Segments::whole(const Key& key, const Segment& one, const Arrived& arrived) {
  if (segment::keccak256(one.payload) == key.hash)
    return hand_on(key, arrived, received(arrived, one.payload, nullptr));
  failed(key, arrived, WireError("SEGMENT_HASH", "the payload is not what its hash says"));
}

// Proves a payload; null if it cannot be put together, which its sender was told.
std::optional<Segments::Whole> Segments::proven(const Key& key, const Arrived& arrived) {
  std::shared_ptr<fs::StoredShards> shards;
  try {
    {
      const MutexLock guard(lock_);
      if (closed_) return std::nullopt;
      shards = store_.shards(key);
      in_hand_[key] = shards;
    }
    const std::size_t size = segment::rebuild(*shards, key.hash);
    const bool is_parted = is_message(key) && shards->data_count() > 1;
    if (is_parted && size > wire::limits::file_backed_bytes) {
      return Whole{nullptr, std::make_shared<LargeMessage>(shards, size)};
    }
    auto payload = std::make_shared<const Bytes>(all_of(StoredPayload(shards, 0, size)));
    if (is_parted) {
      wire::read_front(ByteView(*payload).first(std::min(size, wire::limits::max_segmented_head_bytes)), size);
    }
    return Whole{std::move(payload), nullptr};
  } catch (const WireError& error) {
    failed(key, arrived, error);
  } catch (const SegmentStoreError& error) {
    failed(key, arrived, error);
  } catch (const std::exception& error) {
    failed(key, arrived, SegmentStoreError(std::string("segments cannot be read: ") + error.what()));
  }
  return std::nullopt;
}

void Segments::finish(const Key& key, const Arrived& arrived) {
  const std::optional<Whole> whole = proven(key, arrived);
  if (whole) hand_on(key, arrived, received(arrived, *whole->payload, whole->payload));
}

// The same, and then what came behind it.
void Segments::finish_request(core::RequestBarrier::Ticket ticket, const Key& key, const Arrived& arrived) {
  finish(key, arrived);
  std::vector<Task> due;
  {
    const MutexLock guard(lock_);
    due = barrier_.end(key.sender, ticket);
  }
  for (const Task& task : due) task();
}

void Segments::after_requests(const std::string& source, const Task& task) {
  {
    const MutexLock guard(lock_);
    if (barrier_.wait(source, task)) return;
  }
  task();
}

Arrival Segments::put_together(const Key& key, const Arrived& arrived, const LanePtr& lane) {
  const std::optional<Whole> whole = proven(key, arrived);
  if (!whole) return nullptr;
  context_.stats.count(core::counters::payloads_from_segments);
  Arrival made;
  guarded(arrived, lane, [&](const LanePtr&) {
    made = callbacks_.make(
        lane, received(arrived, whole->payload == nullptr ? ByteView() : ByteView(*whole->payload), whole->payload),
        whole->large);
  });
  return made;
}

// A program may keep a message longer than the node lives.
LanePtr Segments::assembled_lane(const Key& key, const Arrived& arrived) {
  return std::make_shared<AssembledLane>(arrived.lane, [self = weak_from_this(), key] {
    if (const auto segments = self.lock()) segments->completed(key);
  });
}

fs::Received Segments::received(const Arrived& arrived, ByteView payload, std::shared_ptr<const void> owner) const {
  fs::Received whole{arrived.header, payload, arrived.redelivered, arrived.doubtful, std::move(owner)};
  whole.header.flags = static_cast<std::uint16_t>(whole.header.flags & ~wire::flag_segment);
  return whole;
}

void Segments::hand_on(const Key& key, const Arrived& arrived, const fs::Received& whole) {
  context_.stats.count(core::counters::payloads_from_segments);
  guarded(arrived, assembled_lane(key, arrived), [&](const LanePtr& lane) { callbacks_.deliver(lane, whole); });
  if (arrived.header.type == EnvelopeType::spc_response) completed(key);
}

// What a payload breaks is counted, and the payload dropped.
template <class Hand>
void Segments::guarded(const Arrived& arrived, const LanePtr& lane, Hand hand) {
  try {
    hand(lane);
  } catch (const WireError& error) {
    context_.stats.rejected(error.reason());
    lane->drop(arrived.header.sequence);
  } catch (const std::exception&) {
    context_.stats.count(core::counters::dispatch_failures);
    lane->drop(arrived.header.sequence);
  }
}

// The payload was handled: it is never delivered again.
void Segments::completed(const Key& key) {
  const MutexLock guard(lock_);
  if (closed_ || reassembly_.is_complete(key)) return;
  release(key);
  latest_.erase(key);
  const std::vector<Key> forgotten = reassembly_.complete(key, fs::monotonic_now());
  try {
    store_.complete({key, fs::wall_now()}, forgotten);
  } catch (const SegmentStoreError& error) {
    store_failed(nullptr, error);
  }
}

// The payload cannot be put together: it is discarded, and may be sent anew.
void Segments::failed(const Key& key, const Arrived& arrived, const Error& error) {
  const MutexLock guard(lock_);
  if (closed_) return;
  release(key);
  if (const auto* const store_error = dynamic_cast<const SegmentStoreError*>(&error)) {
    store_failed(&key, *store_error);
    discard(key);
  } else {
    const auto& refused = dynamic_cast<const WireError&>(error);
    context_.stats.rejected(refused.reason());
    discard(key);
    if (refused.reason() != "BAD_MESSAGE") lost(key, error.what());
    latest_.erase(key);
  }
  arrived.drop();
}

// --- what is lost ---

void Segments::discard(const Key& key) {
  reassembly_.discard(key);
  try {
    store_.remove({key});
  } catch (const SegmentStoreError& error) {
    store_failed(nullptr, error);
  }
}

// Tells the sender that a payload will not be delivered (G-19).
void Segments::lost(const Key& key, const std::string& why) {
  context_.stats.count(core::counters::payloads_lost);
  context_.log.limited(LogLevel::warning, "speed.messages", "payloads_lost",
                       "a payload of '" + key.sender + "' is lost: " + why);
  const auto latest = latest_.find(key);
  if (latest == latest_.end()) return;
  const std::uint64_t sequence = latest->second;
  latest_.erase(latest);
  if (!context_.policy.allows(key.sender)) return;
  callbacks_.report_lost(key.sender, sequence, wire::readable(why, max_error_bytes));
}

void Segments::store_failed(const Key* key, const SegmentStoreError& error) {
  context_.stats.count(core::counters::segment_store_failures);
  if (key != nullptr) lost(*key, error.what());
  if (dynamic_cast<const fs::StoreDamagedError*>(&error) != nullptr) {
    begin_anew();
  } else if (key != nullptr) {
    reassembly_.discard(*key);
    try {
      store_.remove({*key});
    } catch (const SegmentStoreError&) {  // it goes when the store is read again
    }
  }
}

// The store was damaged: what it held is lost, and whoever waits for it is told.
void Segments::begin_anew() {
  reassembly_ = segment::Reassembly(context_.segment_limits);
  std::vector<Key> gone;
  for (const auto& [key, sequence] : latest_) {
    if (!in_hand_.contains(key)) gone.push_back(key);
  }
  for (const Key& key : gone) lost(key, "the receiver's store of segments was damaged");
  try {
    store_.start_anew();
  } catch (const SegmentStoreError&) {  // it is opened again by the next segment
  }
}

void Segments::release(const Key& key) {
  const auto found = in_hand_.find(key);
  if (found == in_hand_.end()) return;
  if (found->second != nullptr) found->second->close();
  in_hand_.erase(found);
}

void Segments::forget_sequence(const Key& key) {
  if (!in_hand_.contains(key) && reassembly_.find(key) == nullptr) latest_.erase(key);
}

void Segments::expire(TimePoint now) {
  if (now < expire_at_) return;
  expire_at_ = now + expire_period;
  const MutexLock guard(lock_);
  if (closed_ || (!restored_ && !store_.exists())) return;
  try {
    restore();
    const auto expired = reassembly_.expire(now);
    store_.remove(expired.incomplete);
    store_.forget(expired.completions);
    for (const Key& key : expired.incomplete) {
      context_.stats.count(core::counters::segments_expired);
      lost(key, "not all of its segments came in time");
    }
  } catch (const SegmentStoreError& error) {
    store_failed(nullptr, error);
  }
}

// --- what an earlier process kept ---

void Segments::restore() {
  if (restored_) return;
  fs::SegmentStore::Contents contents = store_.load();
  restored_ = true;
  const Clocks clocks;
  std::vector<segment::Reconstruction> kept;
  for (const fs::Listed& listed : contents.payloads) {
    segment::Reconstruction& one = kept.emplace_back();
    one.key = listed.key;
    one.data_count = listed.data_count;
    one.parity_count = listed.parity_count;
    one.begun = one.touched = clocks.of(listed.begun);
    for (const fs::Place& place : listed.places) {
      one.place(place.slot, place.size);
      one.touched = std::max(one.touched, clocks.of(place.at));
    }
  }
  std::ranges::sort(kept, {}, &segment::Reconstruction::touched);
  for (segment::Reconstruction& one : kept) reassembly_.restore(std::move(one));
  std::ranges::sort(contents.completions, {}, &fs::Completion::at);
  for (const fs::Completion& done : contents.completions) reassembly_.restore(done.key, clocks.of(done.at));
}

void Segments::close() {
  const MutexLock guard(lock_);
  closed_ = true;
  for (const auto& [key, shards] : in_hand_) {
    if (shards != nullptr) shards->close();
  }
  in_hand_.clear();
  store_.close();
}

}  // namespace speed::engine
