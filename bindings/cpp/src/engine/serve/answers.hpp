// Answers of services on their way out: those of one run leave in one write, one ring, one commit.
// Whoever runs services adds to it and flushes when nothing more is queued; the relief flushes for a runner that is
// held up in a service, and never waits: while it does, nobody might read. An envelope that is not committed yet is so
// after its answer was appended (L-15); before it, where the answer says that nothing was begun (S-8).
// Threads: all methods may be called from any thread.
#pragma once

#include <deque>

#include "engine/lane/inbound_lane.hpp"
#include "engine/link/outgoing.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

// What is to be done for one request: send `payload`, then commit it.
struct Answer {
  LanePtr lane;
  std::uint32_t generation = 0;  // of the asker
  std::uint64_t sequence = 0;
  wire::Buffer payload;
  bool committed = false;       // before it was begun
  bool never_begins = false;    // the next life of this node must not begin it either, once its caller was told
  std::string request_id = {};  // for another answer in the place of one that cannot be sent
};

class Answers {
 public:
  Answers(Context& context, Links& links) : context_(context), links_(links) {}

  void add(Answer answer);
  std::size_t waiting() const;
  // Sends and commits what waits; links with room first, so that no full inbox holds up the others. Who may not wait
  // leaves here what finds no room, and is told by false.
  bool flush(bool may_wait);

 private:
  std::vector<Answer> take() SPEED_EXCLUDES(lock_);
  std::vector<std::span<Answer>> send_where_room(std::vector<Answer>& answers);
  bool send(std::span<Answer> group, Duration wait);
  void send_each(std::span<Answer> group, Duration wait);
  void write(std::span<Answer> group, Duration wait);
  static void commit(std::span<Answer> group, bool only_never_begun);
  void undelivered(std::size_t count, const std::exception& error);

  Context& context_;
  Links& links_;
  mutable Mutex lock_;
  std::deque<Answer> waiting_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::engine
