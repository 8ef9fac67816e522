// What the holder of the reader's role does: wait on the bell, read lanes, check, dispatch (L-10 to L-22).
// Threads: `step` is for the holder of the role; all other methods may be called from any thread.
#pragma once

#include <unistd.h>

#include <atomic>
#include <map>

#include "engine/lane/departures.hpp"
#include "engine/lane/dispatch.hpp"
#include "engine/lane/lanes.hpp"
#include "engine/threads/polling.hpp"
#include "fs/bell.hpp"
#include "fs/lane/inbox.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

class Protocol {
 public:
  // `scanned` is called with each scan.
  Protocol(Context& context, std::unique_ptr<fs::Bell> bell, std::unique_ptr<fs::Inbox> inbox,
           std::function<void()> scanned);

  // Before the first step.
  void dispatch_to(Dispatch& dispatch) { dispatch_ = &dispatch; }

  // Does what there is to do; with `wait` stays until there is something.
  void step(bool wait);

  void wake();
  void wake_by(TimePoint deadline);    // has a new deadline noticed, if the present wait could outlast it
  void look_again();                // scans the whole inbox soon: a grant may have opened a lane that waits
  void watch_reader(OutgoingLink& link);  // learns at once when the reader of that bell dies (EPOLLERR)
  void has_no_reader(const std::string& name);  // a ring found no reader (L-9): it may have died
  void node_left(const std::string& name);  // what it already answered is read first, then who waits is told
  void close();                     // commits and releases all lanes; nobody holds the role any more
  void release_bell();  // once the entry is gone: who finds a bell that nobody hears takes its node for dead
  Introspection::LaneFacts facts() const { return lanes_.facts(); }

 private:
  template <class Part>
  bool guarded(const char* what, Part part);
  void read_lanes(const fs::Rings& rings, TimePoint now);
  fs::Rings wait_for_rings(bool wait);
  std::optional<fs::Rings> poll(TimePoint now);
  std::optional<fs::Rings> poll_once(TimePoint now);
  fs::Rings look_at_bell(TimePoint now);
  fs::Rings block(Duration longest);
  void reader_died(int fd);
  void full_scan(bool everything, TimePoint now);
  void drain(const InboundLanePtr& lane, TimePoint now, bool scan);
  void deliver(const LanePtr& lane, const fs::Received& received);
  std::string described(const std::string& source, const fs::Received& received);
  void give_up(const InboundLanePtr& lane, const std::string& why);
  void resume(const wire::NodeId& lane_id);
  void was_busy(const InboundLanePtr& lane);
  void read_rung(const wire::NodeId& id, TimePoint now);
  void note_departed(const std::string& name);
  void tell_departed(TimePoint now);

  Context& context_;
  std::unique_ptr<fs::Bell> bell_;  // null where there are none
  std::unique_ptr<fs::Inbox> inbox_;
  std::function<void()> scanned_;
  Dispatch* dispatch_ = nullptr;
  InboundLanes lanes_;
  fs::Fd epoll_;
  Polling polling_;
  OwnCore core_{getpid()};
  Duration idle_time_;  // between two looks, without a bell
  std::vector<fs::Received> received_;
  std::vector<InboundLanePtr> busy_;          // that brought something lately, the latest first
  std::vector<wire::NodeId> unread_;   // lanes that were left with something in them
  bool listed_ = true;                 // by the last scan: every sender that had a lane then is known
  bool failing_ = false;               // a part of the last turn failed: the next one does not wait for rings,
                                       // and looks at everything: what rings meant must be found without them
  TimePoint bell_due_ = {};              // when the bell is looked at, whatever the busy lanes bring
  std::atomic<TimePoint> next_scan_{};
  std::atomic<TimePoint> waits_until_;
  Departures departures_;
  mutable Mutex lock_;
  std::map<int, std::string> watched_ SPEED_GUARDED_BY(lock_);  // bells of others by descriptor
};

}  // namespace speed::engine
