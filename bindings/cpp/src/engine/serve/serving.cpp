#include "engine/serve/serving.hpp"

#include <stop_token>
#include <tuple>

#include "core/counters.hpp"
#include "engine/tracing.hpp"
#include "fs/clock.hpp"
#include "speed/error.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::engine {

namespace {

constexpr std::size_t large_answer_bytes = 32 << 10;  // leaves at once: batches stay small in bytes
constexpr std::size_t large_payload_bytes = 1 << 20;
constexpr std::int64_t fresh_ms = 100;  // who asked so shortly ago counts as there
const wire::Owner nowhere;

Response never_begun(std::string_view code, const std::string& text) {
  return Response::error(code, text, {{"phase", "queued"}});
}

}  // namespace

// One accepted request.
struct Serving::ServedRequest : Job {
  explicit ServedRequest(Serving& by) : Job(core::Kind::request), serving(by) {}
  void run() override { serving.serve(self.lock()); }

  Serving& serving;
  std::weak_ptr<ServedRequest> self;
  LanePtr lane;  // guarded by the lock of the workers, since one that failed is replaced
  std::uint32_t generation = 0;  // of the caller
  std::uint64_t sequence = 0;
  std::string identity;  // of the caller; empty where either node has none
  wire::RequestHead head;
  wire::KeptBytes payload;  // nobody's where it was not kept: its service was not there
  bool doubtful = false;  // this process may have begun it, before its lane failed
  std::int64_t sent_ms = 0;  // Unix time
  TimePoint taken = fs::monotonic_now();
  bool entered = false;   // its service is about to be invoked; guarded likewise
  bool begun = false;     // and committed before
  std::stop_source cancellation;
  std::atomic<bool> withdrawn = false;  // by its caller
  std::atomic<bool> forgotten = false;  // its caller is gone: nobody reads an answer
};

// --- arrival ---

// Steps 1 and 2 (authenticity, the sender's grant) are behind us here.
void Serving::accept(const LanePtr& lane, const fs::Received& received) {
  const auto served = std::make_shared<ServedRequest>(*this);
  served->self = served;
  served->lane = lane;
  served->sequence = received.header.sequence;
  served->generation = wire::generation_of(received.header.sequence);
  served->doubtful = received.doubtful;
  if (context_.peers != nullptr) served->identity = lane->fingerprint(received.header.key_id);
  served->sent_ms = static_cast<std::int64_t>(received.header.timestamp_ms);
  try {
    served->head = wire::decode_head(received.payload);
    if (served->head.caller != lane->source()) throw WireError("BAD_PAYLOAD", "the caller is not the sender");
  } catch (const WireError& error) {
    reject(lane->source(), received, "INVALID_ARGUMENTS", error.what());
    throw;
  }
  if (served->head.generation != context_.generation) return refuse_replaced(lane, received, served->head.generation);
  served->sender = lane->source();
  served->key = served->head.request_id;
  served->deadline = deadline_of(served->head.deadline);
  // A large payload is not copied for a service that it does not reach.
  const std::string& service = served->head.service;
  if (received.payload.size() <= large_payload_bytes || services.find(service, served->sender).service != nullptr) {
    served->payload = fs::kept(received);
  }
  admit(served, received);
}

void Serving::admit(const ServedRequestPtr& served, const fs::Received& received) {
  const auto admission = workers_.scheduling([&](core::Scheduler& scheduler) { return scheduler.request(served); });
  if (admission == core::Admission::waiting) return workers_.notice();
  if (admission == core::Admission::duplicate) return take_over(served);
  served->lane->finish({&served->sequence, 1});  // before its caller is told that it was not begun (S-8)
  reject(served->sender, received, "LEAVING", "'" + context_.name + "' is leaving: nothing ran, call another node");
}

// A second copy. Where the lane of the first one failed and is read again, the first goes on in this one.
void Serving::take_over(const ServedRequestPtr& served) {
  const bool goes_on = workers_.scheduling([&](core::Scheduler& scheduler) {
    const auto first = std::static_pointer_cast<ServedRequest>(scheduler.find(served->sender, served->key));
    const bool is_same = first != nullptr && first->sequence == served->sequence && first->lane->is_closed();
    if (is_same) first->lane = served->lane;
    return is_same && !first->begun;
  });
  if (goes_on) return;
  context_.stats.count(core::counters::requests_duplicate);
  served->lane->drop(served->sequence);
}

void Serving::refuse(const LanePtr& lane, const fs::Received& received) {
  const std::string& source = lane->source();
  try {
    const std::uint32_t generation = wire::decode_head(received.payload).generation;
    if (generation != context_.generation) return refuse_replaced(lane, received, generation);
  } catch (const WireError&) {  // it is refused all the same
  }
  lane->finish({&received.header.sequence, 1});  // before its caller is told that it was not begun (S-8)
  reject(source, received, "ACCESS_DENIED", "'" + context_.name + "' does not allow '" + source + "'");
}

// It is for another life of this node. Its caller reads from the lane whether that one had begun it (S-21).
void Serving::refuse_replaced(const LanePtr& lane, const fs::Received& received, std::uint32_t generation) {
  context_.stats.count(core::counters::requests_for_another_generation);
  if (!lane->keep_start()) return;  // it stays in the lane as it is
  lane->finish({&received.header.sequence, 1});
  if (context_.registry->live(lane->source()) == nullptr) return;
  reject(lane->source(), received, "REPLACED",
         "it was for generation " + std::to_string(generation) + " of '" + context_.name + "'; this is generation " +
             std::to_string(context_.generation));
}

// When it is over on the clock of this process; a clock that people set decides only between hosts (S-4).
TimePoint Serving::deadline_of(const wire::Deadline& deadline) const {
  const bool is_here = deadline.boot_id == context_.registry->observer().boot_id;
  const std::int64_t left_ms = is_here ? deadline.boot_ms - fs::boot_ms() : deadline.unix_ms - fs::unix_ms();
  return fs::monotonic_now() + saturated(std::chrono::milliseconds(left_ms));  // whatever its caller wrote
}

// Tells the caller of a request that was not accepted, if its id can be read (S-2). Who reads never waits: a full inbox
// loses the answer, counted.
void Serving::reject(const std::string& source, const fs::Received& received, std::string_view code,
                     const std::string& text) {
  const std::optional<std::string> id = wire::id_at_front(received.payload);
  if (!id) return;
  wire::Buffer reply;
  wire::encode_error(*id, code, text, {}, reply);
  const ByteView one = reply.view();
  try {
    links_.open(source, wire::generation_of(received.header.sequence))
        ->send({wire::EnvelopeType::spc_response, wire::flag_reply, {&one, 1}, {}, true});
  } catch (const std::exception&) {
    context_.stats.count(core::counters::answers_undelivered);
  }
}

// --- on a worker ---

void Serving::serve(const ServedRequestPtr& served) {
  const TimePoint began = fs::monotonic_now();
  std::string error;
  wire::Buffer reply = answer(served, error);
  workers_.begun();  // where it did not come to that
  const bool is_large = reply.size() > large_answer_bytes;
  const bool in_time = workers_.settle(served);  // else it was told as overdue, and counted
  if (in_time && !served->entered && error == "TIMEOUT") count_overdue(*served, false);
  if (!in_time) {
    context_.stats.count(core::counters::answers_too_late);
  } else if (served->forgotten && !served->begun) {
    lane_of(served)->finish({&served->sequence, 1});
  } else {
    answers_.add({lane_of(served), served->generation, served->sequence, std::move(reply), served->begun,
                  !served->entered, served->key});
    if (is_large) answers_.flush(true);
  }
  if (served->entered)
    context_.stats.served(served->head.service, began - served->taken, fs::monotonic_now() - began, error);
}

// Steps 3 to 9; whatever fails, there is one answer. `error` is the code of what went wrong, for the stats.
wire::Buffer Serving::answer(const ServedRequestPtr& served, std::string& error) {
  Response response;
  try {
    std::optional<Response> early = unwanted(*served);
    response = early ? std::move(*early) : respond(served, services.find(served->head.service, served->sender));
  } catch (const std::exception& failure) {
    response = Response::error("INTERNAL_ERROR", failure.what());
  }
  try {
    return encoded(*served, std::move(response), error);
  } catch (const std::exception& failure) {
    error = "INTERNAL_ERROR";
    wire::Buffer reply;
    wire::encode_error(served->key, error, error + ": " + failure.what(), {}, reply);
    return reply;
  }
}

// It was withdrawn, or its deadline passed, since it was taken: it never begins (T-10).
std::optional<Response> Serving::unwanted(ServedRequest& served) const {
  if (served.withdrawn || served.forgotten || is_abandoned(served)) {
    return never_begun("WITHDRAWN", "it was withdrawn: nothing ran");
  }
  if (fs::monotonic_now() < served.deadline) return std::nullopt;
  return never_begun("TIMEOUT",
                     "the deadline of '" + served.head.service + "' passed while queued: allow it more time");
}

// Its caller is gone: nothing runs for it. What was asked just now is not looked at: that would cost each call.
bool Serving::is_abandoned(ServedRequest& served) const {
  if (fs::unix_ms() - served.sent_ms < fresh_ms) return false;
  const fs::EntryPtr entry = context_.registry->surely_live(served.sender);
  if (entry != nullptr && static_cast<std::uint32_t>(entry->generation) <= served.generation) return false;
  if (!served.forgotten.exchange(true)) context_.stats.count(core::counters::requests_forgotten);
  return true;
}

// A request is begun by its commit, so that none is begun twice; one that may run twice is listed as begun until it was
// answered (S-8).
Response Serving::respond(const ServedRequestPtr& served, const core::ServiceTable::Found& found) {
  const wire::RequestHead& head = served->head;
  if (found.service == nullptr) {
    if (found.refusal->error_code == "SERVICE_NOT_FOUND") context_.stats.count(core::counters::requests_for_no_service);
    if (found.refusal->error_code == "ACCESS_DENIED") {
      context_.stats.refused_sender(served->sender);
      context_.stats.refused(served->head.service);
    }
    return *found.refusal;
  }
  if (served->payload.owner == nullptr)
    return Response::error("SERVICE_NOT_FOUND", "'" + head.service + "' was not there yet");
  if ((served->doubtful || head.repeated) && !found.idempotent) {
    context_.stats.count(core::counters::requests_in_doubt);
    return Response::error("INTERNAL_ERROR", "may have run before its node was interrupted", {{"phase", "running"}});
  }
  Request request{head.service,
                  {},
                  served->sender,
                  served->sender + "/" + served->key,
                  head.deadline.unix_ms,
                  head.traceparent,
                  found.idempotent && (head.repeated || served->doubtful),
                  served->cancellation.get_token()};
  if (served->payload.bytes.size() > large_payload_bytes) workers_.begun();  // nobody waits for so much to be read
  try {
    const wire::Owner& owner = found.views ? served->payload.owner : nowhere;
    request.arguments = wire::decode_arguments(served->payload.bytes, head, owner);  // 5 and 6
  } catch (const WireError& error) {
    context_.stats.rejected(error.reason());
    return Response::error("INVALID_ARGUMENTS", error.what());
  }
  served->payload = {};
  if (std::optional<Response> early = begin(served, found.idempotent)) return std::move(*early);
  workers_.begun();
  const bool wants_stream = head.stream && head.stream->wants_stream();
  if (wants_stream && !found.streams) {
    return Response::error("INVALID_ARGUMENTS", head.service + " gives and takes no items: call it by `call`");
  }
  const TraceScope trace(head.traceparent);
  const std::shared_ptr<Channel> channel = head.stream ? channel_of(*served) : nullptr;
  request.channel = channel;
  request.caller_identity = std::move(served->identity);
  const std::stop_callback stopped(request.stop, [&] {
    if (channel != nullptr) channel->close();
  });
  std::string thrown;
  Response response;
  {
    const ProgramsCode scope(*context_.fork_mark);
    response = core::ServiceTable::run(*found.service, request, thrown);  // 7 and 8
  }
  if (channel != nullptr) {
    streams.remove(served->sender, served->key);
    channel->close();
  }
  if (!thrown.empty()) {  // what the caller did wrong is no trouble of this node
    const bool is_callers = response.error_code == "INVALID_ARGUMENTS";
    context_.log.always(is_callers ? LogLevel::info : LogLevel::error, "speed.spc",
                        "service '" + head.service + "' failed for '" + served->sender + "', request '" +
                            request.request_id + "': " + thrown);
  }
  return response;
}

std::shared_ptr<Channel> Serving::channel_of(const ServedRequest& served) {
  const StreamOffer& offer = *served.head.stream;
  auto channel = std::make_shared<Channel>(
      served.key, offer, core::StreamWindow({wire::limits::stream_items, wire::limits::stream_bytes}, false),
      core::StreamCredit({offer.items, offer.bytes}));
  const auto write = [this, source = served.sender, generation = served.generation](ByteView payload, bool may_wait) {
    const TimePoint deadline = fs::monotonic_now() + (may_wait ? stream_write_timeout : Duration::zero());
    links_.open(source, generation)
        ->send({wire::EnvelopeType::stream, wire::flag_reply, {&payload, 1}, deadline, !may_wait});
  };
  channel->bind(workers_.owner(), write, [] {});
  streams.add(served.sender, channel);
  return channel;
}

LanePtr Serving::lane_of(const ServedRequestPtr& served) {
  return workers_.scheduling([&](core::Scheduler&) { return served->lane; });
}

// Null once it has begun. What was withdrawn or told as overdue by then never does (T-10).
std::optional<Response> Serving::begin(const ServedRequestPtr& served, bool idempotent) {
  const LanePtr lane = workers_.scheduling([&](core::Scheduler&) {
    served->entered = !served->is_overdue && !served->withdrawn && !served->forgotten;
    served->begun = served->entered && !idempotent;
    return served->lane;
  });
  if (!served->entered) return never_begun("WITHDRAWN", "it was withdrawn: nothing ran");
  // Without its lease it begins nothing, whether a successor has read the lane yet or not.
  const bool is_over = context_.registration->is_over();
  const Lane::Begun begun = is_over ? Lane::Begun::replaced : lane->begin(served->sequence, idempotent);
  if (begun == Lane::Begun::written) return std::nullopt;
  context_.stats.count(core::counters::requests_not_begun);
  workers_.scheduling([&](core::Scheduler&) { served->begun = true; });  // its envelope stays in the lane
  if (begun == Lane::Begun::replaced) {
    if (!is_over) context_.replaced("another process reads its lanes");
    return Response::error("REPLACED", "'" + context_.name + "' was replaced: nothing ran here");  // which nobody reads
  }
  return Response::error(
      "INTERNAL_ERROR",
      "that '" + served->head.service + "' begins cannot be written: whether it ran cannot be told later",
      {{"phase", "running"}});
}

wire::Buffer Serving::encoded(const ServedRequest& served, Response response, std::string& error) {
  wire::Buffer reply = context_.buffers.take();
  if (response.ok()) {
    try {
      wire::encode_success(served.key, response.result, reply);  // 9 serialise
      links_.check_size(served.sender, reply.size());
      return reply;
    } catch (const DeliveryError& cannot_go) {  // too large, or nothing that can be sent
      response = Response::error("EXECUTION_FAILED", std::string("the result cannot be sent: ") + cannot_go.what());
    }
    reply.clear();
  }
  const bool is_known = wire::is_call_code(response.error_code);
  error = is_known ? response.error_code : "APPLICATION";  // as others see it: nothing that a service made (S-14)
  wire::encode_error(served.key, is_known ? error : wire::travelling(response.error_code), response.error_message,
                     response.details, reply);
  return reply;
}

// --- ends that are not its own ---

// Answers a request that the Scheduler gave up, or told as overdue.
void Serving::end(const ServedRequestPtr& served, std::string_view code, const std::string& text, const Map& details) {
  wire::Buffer reply;
  wire::encode_error(served->key, code, text, details, reply);
  const auto [lane, begun, entered] =
      workers_.scheduling([&](core::Scheduler&) { return std::tuple(served->lane, served->begun, served->entered); });
  answers_.add({lane, served->generation, served->sequence, std::move(reply), begun, !entered, served->key});
}

// What the program hung on it runs on a worker.
void Serving::cancel(const ServedRequestPtr& served) {
  workers_.submit([this, served] {
    const ProgramsCode scope(*context_.fork_mark);
    served->cancellation.request_stop();
  });
}

void Serving::withdraw(const std::string& source, const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    bool never_begins = false;
    const auto served = std::static_pointer_cast<ServedRequest>(workers_.scheduling([&](core::Scheduler& scheduler) {
      core::WorkPtr work = scheduler.withdraw(source, id);
      never_begins = work != nullptr && work->state == core::State::ended;
      return work;
    }));
    if (served == nullptr) continue;
    context_.stats.count(core::counters::requests_withdrawn);
    if (services.has(served->head.service)) context_.stats.withdrawn(served->head.service);
    served->withdrawn = true;
    if (never_begins) {
      end(served, "WITHDRAWN", "it was withdrawn: nothing ran", {{"phase", "queued"}});
    } else {
      cancel(served);
    }
  }
  answers_.flush(false);
}

void Serving::forget(const std::string& source, std::uint32_t successor) {
  std::vector<ServedRequestPtr> waiting;
  std::vector<ServedRequestPtr> running;
  workers_.scheduling([&](core::Scheduler& scheduler) {
    const auto is_older = [&](const core::Work& work) {
      return static_cast<const ServedRequest&>(work).generation < successor;
    };
    for (const core::WorkPtr& work : scheduler.forget(source, is_older)) {
      (work->state == core::State::ended ? waiting : running).push_back(std::static_pointer_cast<ServedRequest>(work));
    }
  });
  for (const ServedRequestPtr& served : waiting) lane_of(served)->finish({&served->sequence, 1});
  std::size_t count = waiting.size();
  for (const ServedRequestPtr& served : running) {
    if (served->forgotten.exchange(true)) continue;  // it was told with an earlier look
    cancel(served);
    ++count;
  }
  if (count > 0) context_.stats.count(core::counters::requests_forgotten, count);
}

// Names of services that are not registered are chosen by others, and so is how many there are.
void Serving::count_overdue(const ServedRequest& served, bool entered) {
  context_.stats.count(entered ? core::counters::requests_timed_out_running
                               : core::counters::requests_timed_out_queued);
  if (services.has(served.head.service)) context_.stats.timed_out(served.head.service, !entered);
}

void Serving::overdue(const core::Overdue& found) {
  const auto tell = [&](const core::WorkPtr& work) {
    const auto served = std::static_pointer_cast<ServedRequest>(work);
    const bool entered = workers_.scheduling([&](core::Scheduler&) { return served->entered; });
    const std::string phase = entered ? "running" : "queued";
    count_overdue(*served, entered);
    end(served, "TIMEOUT",
        "the deadline of '" + served->head.service + "' passed while " + phase + ": allow it more time",
        {{"phase", phase}});
  };
  for (const core::WorkPtr& work : found.waiting) tell(work);
  for (const core::WorkPtr& work : found.running) {
    tell(work);
    cancel(std::static_pointer_cast<ServedRequest>(work));
  }
  if (!found.waiting.empty() || !found.running.empty()) answers_.flush(false);
}

void Serving::leave(const std::vector<core::WorkPtr>& waiting) {
  for (const core::WorkPtr& work : waiting) {
    end(std::static_pointer_cast<ServedRequest>(work), "LEAVING",
        "'" + context_.name + "' left before it began: nothing ran", {});
  }
  answers_.flush(false);
}

}  // namespace speed::engine
