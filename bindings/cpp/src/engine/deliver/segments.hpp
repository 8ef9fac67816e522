// Segments as they arrive: kept, put together, handed on as what an envelope without them would hold (G-12 to G-19).
// Large payloads are put together by the worker that handles them, in their place among what their sender sent.
// Threads: `accept` and `expire` are for the holder of the reader's role; what is in hand ends on any thread.
#pragma once

#include "core/request_barrier.hpp"
#include "engine/call/calls.hpp"
#include "engine/deliver/large_payload.hpp"
#include "engine/deliver/message_state.hpp"
#include "engine/lane/inbound_lane.hpp"
#include "engine/threads/workers.hpp"
#include "segment/reassembly.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

class Segments : public std::enable_shared_from_this<Segments> {
 public:
  // How the parts around it hear of a payload; `large` holds it when it is too large for `received`.
  struct Callbacks {
    std::function<void(const LanePtr& lane, const fs::Received& received)> deliver;
    // A message that is put together when it is its turn: by `put_together`, which hands it to `make`.
    std::function<void(const LanePtr& lane, const wire::Header& header, bool unordered,
                       std::function<Arrival()> put_together)>
        enqueue;
    std::function<Arrival(const LanePtr& lane, const fs::Received& received, const LargePtr& large)> make;
    std::function<void(const std::string& source, std::uint64_t sequence)> acknowledge;
    std::function<void(const std::string& source, std::uint64_t sequence, const std::string& why)> report_lost;
  };

  Segments(Context& context, Workers& workers, Calls& calls, Callbacks callbacks);

  // Takes one segment; WireError for one that is refused. Its sender is told where G-19 says so.
  void accept(const LanePtr& lane, const fs::Received& received);
  // Does it once the requests of `source` that are being put together are known; at once if there are none.
  void after_requests(const std::string& source, const Task& task);
  void expire(TimePoint now);  // gives up what waited too long; looks about every second
  void close();             // what is still in hand is not complete then, and comes again

 private:
  using Key = segment::Key;
  struct Arrived;

  Task take(const Key& key, const segment::Segment& one, const Arrived& arrived) SPEED_REQUIRES(lock_);
  void compare(const Key& key, const segment::Segment& one) SPEED_REQUIRES(lock_);
  void repeated(const Key& key, const Arrived& arrived) SPEED_REQUIRES(lock_);
  // A payload that was proven.
  struct Whole {
    std::shared_ptr<const Bytes> payload;
    LargePtr large;
  };
  std::optional<Whole> proven(const Key& key, const Arrived& arrived) SPEED_EXCLUDES(lock_);
  void finish(const Key& key, const Arrived& arrived);
  void finish_request(core::RequestBarrier::Ticket ticket, const Key& key, const Arrived& arrived)
      SPEED_EXCLUDES(lock_);
  Arrival put_together(const Key& key, const Arrived& arrived, const LanePtr& lane);
  LanePtr assembled_lane(const Key& key, const Arrived& arrived);
  void whole(const Key& key, const segment::Segment& one, const Arrived& arrived);
  fs::Received received(const Arrived& arrived, ByteView payload, std::shared_ptr<const void> owner) const;
  template <class Hand>
  void guarded(const Arrived& arrived, const LanePtr& lane, Hand hand);
  void hand_on(const Key& key, const Arrived& arrived, const fs::Received& received);
  void completed(const Key& key) SPEED_EXCLUDES(lock_);
  void failed(const Key& key, const Arrived& arrived, const Error& error) SPEED_EXCLUDES(lock_);

  void discard(const Key& key) SPEED_REQUIRES(lock_);
  void lost(const Key& key, const std::string& why) SPEED_REQUIRES(lock_);
  void store_failed(const Key* key, const SegmentStoreError& error) SPEED_REQUIRES(lock_);
  void begin_anew() SPEED_REQUIRES(lock_);
  void release(const Key& key) SPEED_REQUIRES(lock_);
  void restore() SPEED_REQUIRES(lock_);
  void forget_sequence(const Key& key) SPEED_REQUIRES(lock_);

  Context& context_;
  Workers& workers_;
  Calls& calls_;
  const Callbacks callbacks_;
  TimePoint expire_at_ = {};  // for the holder of the role
  Mutex lock_;
  segment::Reassembly reassembly_ SPEED_GUARDED_BY(lock_);
  fs::SegmentStore store_ SPEED_GUARDED_BY(lock_);
  core::RequestBarrier barrier_ SPEED_GUARDED_BY(lock_);
  bool closed_ SPEED_GUARDED_BY(lock_) = false;
  bool restored_ SPEED_GUARDED_BY(lock_) = false;
  // Sequence of the last segment of each payload that is not complete.
  std::map<Key, std::uint64_t> latest_ SPEED_GUARDED_BY(lock_);
  // Enough of them came, until they were handled.
  std::map<Key, std::shared_ptr<fs::StoredShards>> in_hand_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::engine
