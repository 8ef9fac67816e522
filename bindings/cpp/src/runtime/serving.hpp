// The serving side of SPC: the ten steps of RFC 7.5, one request at a time on a worker thread (S-3, S-4).
// A request is answered exactly once. Whoever removes it from the table answers it: the worker with its result, or,
// when the deadline passes first, the reader or the worker that was about to invoke the service.
// Threads: `accept`, `refuse` and `expire` are for the holder of the reader's role.
#pragma once

#include <map>
#include <stop_token>

#include "core/service_table.hpp"
#include "runtime/answers.hpp"
#include "runtime/workers.hpp"
#include "wire/spc.hpp"

namespace speed::runtime {

class Serving {
 public:
  Serving(Context& context, Links& links, Workers& workers, Answers& answers)
      : context_(context), links_(links), workers_(workers), answers_(answers) {}

  core::ServiceTable services;

  // Queues one authenticated, authorised request; requests of one sender start in order. WireError BAD_PAYLOAD.
  void accept(const LanePtr& lane, const fs::Received& received);
  // Step 2 failed: answers ACCESS_DENIED without looking at services.
  void refuse(const std::string& source, const fs::Received& received);
  // Answers TIMEOUT for what is over its deadline; a running service goes on, its result is dropped.
  void expire(double now);
  double next_deadline() const;  // monotonic seconds

 private:
  struct Running {
    LanePtr lane;
    std::uint32_t generation = 0;  // of the caller
    std::uint64_t sequence = 0;
    wire::RequestHead head;
    Bytes payload;  // of a request whose service is not known yet: its arguments are read by the worker
    double deadline = 0;
    bool redelivered = false;
    bool doubtful = false;  // an earlier process may have begun it
    std::stop_source cancellation;
    std::atomic<bool> started = false;
    bool begun = false;  // and committed before; only for the worker

    std::pair<std::string, std::string> key() const { return {lane->source(), head.request_id}; }
  };
  using RunningPtr = std::shared_ptr<Running>;

  void serve(const RunningPtr& running);
  void reject(const std::string& source, const fs::Received& received, std::string_view code, const std::string& text);
  double deadline_of(const wire::Deadline& deadline) const;
  Response respond(Running& running, const core::ServiceTable::Found& found);
  wire::Buffer answer(Running& running, std::string& error);
  wire::Buffer encoded(const Running& running, Response response, std::string& error);
  void time_out(Running& running);
  wire::Buffer timed_out(const Running& running);
  void send_urgently(const std::string& source, std::uint32_t generation, ByteView reply);
  bool remove(const Running& running);

  Context& context_;
  Links& links_;
  Workers& workers_;
  Answers& answers_;
  mutable std::mutex lock_;
  std::map<std::pair<std::string, std::string>, RunningPtr> running_;  // by sender and request id
  double earliest_ = 1e300;                                            // deadline, not after the earliest one
};

}  // namespace speed::runtime
