// The serving side of SPC: the ten steps of RFC 7.5, one request at a time on a worker thread (S-3, S-4, S-8, S-16).
// A request is answered exactly once. Who may begin it, and whether it was told as overdue meanwhile, the Scheduler knows.
// Threads: all methods may be called from any thread; `accept` and `refuse` while its lane is being read.
#pragma once

#include <limits>

#include "core/service_table.hpp"
#include "engine/call/streams.hpp"
#include "engine/serve/answers.hpp"
#include "engine/threads/workers.hpp"
#include "wire/time.hpp"
#include "wire/value/spc.hpp"

namespace speed::engine {

class Serving {
 public:
  Serving(Context& context, Links& links, Workers& workers, Answers& answers)
      : context_(context), links_(links), workers_(workers), answers_(answers) {}

  core::ServiceTable services;
  Streams streams;  // of requests that run

  // Takes one authenticated, authorised request. WireError BAD_PAYLOAD.
  void accept(const LanePtr& lane, const fs::Received& received);
  // Step 2 failed: finishes it and answers ACCESS_DENIED without looking at services.
  void refuse(const LanePtr& lane, const fs::Received& received);
  // The caller takes these back: what waits never begins, what runs is told (S-16).
  void withdraw(const std::string& source, const std::vector<std::string>& ids);
  // It left or died, or has been replaced by that life: nobody waits for what it asked before (T-8).
  void forget(const std::string& source, std::uint32_t successor = std::numeric_limits<std::uint32_t>::max());
  // Answers TIMEOUT for what is over its deadline; a running service is told and goes on, its result is dropped.
  void overdue(const core::Overdue& found);
  void leave(const std::vector<core::WorkPtr>& waiting);  // they never begin, since the node leaves

 private:
  struct ServedRequest;
  using ServedRequestPtr = std::shared_ptr<ServedRequest>;

  TimePoint deadline_of(const wire::Deadline& deadline) const;
  void admit(const ServedRequestPtr& served, const fs::Received& received);
  void take_over(const ServedRequestPtr& served);
  void refuse_replaced(const LanePtr& lane, const fs::Received& received, std::uint32_t generation);
  void reject(const std::string& source, const fs::Received& received, std::string_view code, const std::string& text);
  void serve(const ServedRequestPtr& served);
  std::optional<Response> unwanted(ServedRequest& served) const;
  bool is_abandoned(ServedRequest& served) const;
  Response respond(const ServedRequestPtr& served, const core::ServiceTable::Found& found);
  std::shared_ptr<Channel> channel_of(const ServedRequest& served);
  LanePtr lane_of(const ServedRequestPtr& served);
  std::optional<Response> begin(const ServedRequestPtr& served, bool idempotent);
  wire::Buffer answer(const ServedRequestPtr& served, std::string& error);
  wire::Buffer encoded(const ServedRequest& served, Response response, std::string& error);
  void end(const ServedRequestPtr& served, std::string_view code, const std::string& text, const Map& details);
  void cancel(const ServedRequestPtr& served);
  void count_overdue(const ServedRequest& served, bool entered);

  Context& context_;
  Links& links_;
  Workers& workers_;
  Answers& answers_;
};

}  // namespace speed::engine
