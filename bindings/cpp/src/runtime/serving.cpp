#include "runtime/serving.hpp"

#include "fs/clock.hpp"
#include "runtime/tracing.hpp"
#include "speed/error.hpp"
#include "wire/value_codec.hpp"

namespace speed::runtime {

namespace {

constexpr std::size_t large_answer_bytes = 32 << 10;  // leaves at once: batches stay small in bytes
constexpr std::size_t large_payload_bytes = 1 << 20;
constexpr std::size_t max_error_bytes = 500;
constexpr double never = 1e300;

}  // namespace

// Steps 1 and 2 (authenticity, the sender's grant) are behind us here.
void Serving::accept(const LanePtr& lane, const fs::Received& received) {
  auto running = std::make_shared<Running>();
  running->lane = lane;
  running->sequence = received.header.sequence;
  running->generation = wire::generation_of(received.header.sequence);
  running->redelivered = received.redelivered;
  running->doubtful = received.doubtful;
  try {
    running->head = wire::decode_head(received.payload);
    if (running->head.caller != lane->source()) throw WireError("BAD_PAYLOAD", "the caller is not the sender");
  } catch (const WireError& error) {
    reject(lane->source(), received, "INVALID_ARGUMENTS", error.what());
    throw;
  }
  // A large payload is not copied for a service that it does not reach.
  if (received.payload.size() <= large_payload_bytes || services.find(running->head.service, lane->source()).service) {
    running->payload.assign(received.payload.begin(), received.payload.end());
  }
  running->deadline = deadline_of(running->head.deadline);
  bool is_new = false;
  {
    const std::lock_guard guard(lock_);
    is_new = running_.try_emplace(running->key(), running).second;
    if (is_new) earliest_ = std::min(earliest_, running->deadline);
  }
  if (!is_new) {
    context_.stats.count("requests_duplicate");
    lane->drop(received.header.sequence);
    return;
  }
  workers_.queue_in_order([this, running] { serve(running); });
}

void Serving::refuse(const std::string& source, const fs::Received& received) {
  reject(source, received, "ACCESS_DENIED", "'" + context_.name + "' does not allow '" + source + "'");
}

// When it is over on the clock of this process; a clock that people set decides only between hosts (S-4).
double Serving::deadline_of(const wire::Deadline& deadline) const {
  const bool is_here = deadline.boot_id == context_.registry->observer().boot_id;
  const std::int64_t left_ms = is_here ? deadline.boot_ms - fs::boot_ms() : deadline.unix_ms - fs::unix_ms();
  return fs::monotonic_seconds() + static_cast<double>(left_ms) / 1000;
}

// Tells the caller of a request that was not accepted, if its id can be read (S-2).
void Serving::reject(const std::string& source, const fs::Received& received, std::string_view code,
                     const std::string& text) {
  const std::optional<std::string> id = wire::id_at_front(received.payload);
  if (!id) return;
  wire::Buffer reply;
  wire::encode_error(*id, code, text, {}, reply);
  send_urgently(source, wire::generation_of(received.header.sequence), reply.view());
}

void Serving::serve(const RunningPtr& running) {
  const double began = fs::monotonic_seconds();
  {
    const std::lock_guard guard(lock_);
    const auto found = running_.find(running->key());
    if (found == running_.end()) return;  // it timed out in the queue
    running->started = began < running->deadline;
    if (!running->started) running_.erase(found);
  }
  if (!running->started) {  // the reader did not look in time
    return answers_.add({running->lane, running->generation, running->sequence, timed_out(*running), false,
                         running->head.request_id});
  }
  std::string error;
  wire::Buffer reply = answer(*running, error);
  const bool is_large = reply.size() > large_answer_bytes;
  if (remove(*running)) {
    answers_.add({running->lane, running->generation, running->sequence, std::move(reply), running->begun,
                  running->head.request_id});
    if (is_large) answers_.flush(true);
  } else {
    context_.stats.count("answers_too_late");
  }
  context_.stats.served(running->head.service, fs::monotonic_seconds() - began, error);
}

// Steps 3 to 9; whatever fails, there is one answer. `error` is what went wrong, for the stats.
wire::Buffer Serving::answer(Running& running, std::string& error) {
  Response response;
  try {
    response = respond(running, services.find(running.head.service, running.lane->source()));
  } catch (const std::exception& failure) {
    response = Response::error("INTERNAL_ERROR", failure.what());
  }
  running.payload = {};
  try {
    return encoded(running, std::move(response), error);
  } catch (const std::exception& failure) {
    error = std::string("INTERNAL_ERROR: ") + failure.what();
  }
  wire::Buffer reply;
  wire::encode_error(running.head.request_id, "INTERNAL_ERROR", error, {}, reply);
  return reply;
}

// A request is begun by its commit, so that none is begun twice; one that may run twice is committed when it was
// answered (S-16).
Response Serving::respond(Running& running, const core::ServiceTable::Found& found) {
  const wire::RequestHead& head = running.head;
  if (found.service == nullptr) return found.refusal;
  if (running.payload.empty()) return Response::error("SERVICE_NOT_FOUND", "'" + head.service + "' was not there yet");
  if (running.doubtful && !found.idempotent) {
    context_.stats.count("requests_in_doubt");
    return Response::error("INTERNAL_ERROR", "may have run before its node was interrupted", {{"phase", "running"}});
  }
  const std::string& caller = running.lane->source();
  Request request{head.service,          {}, caller, caller + "/" + head.request_id, head.deadline.unix_ms,
                  head.traceparent, found.idempotent && running.redelivered, running.cancellation.get_token()};
  try {
    request.arguments = wire::decode_arguments(running.payload, head);  // 5 and 6
  } catch (const WireError& error) {
    return Response::error("INVALID_ARGUMENTS", error.what());
  }
  running.payload = {};
  if (!found.idempotent) {
    running.begun = running.lane->begin(running.sequence);
    if (!running.begun) return Response::error("INTERNAL_ERROR", "it cannot be committed that it begins: nothing ran");
  }
  const TraceScope trace(head.traceparent);
  workers_.entered();
  std::string thrown;
  Response response = core::ServiceTable::run(*found.service, request, thrown);  // 7 and 8
  if (!thrown.empty()) {
    context_.log.always(LogLevel::error, "speed.spc", "service '" + head.service + "' failed for '" + caller + "': " + thrown);
  }
  return response;
}

wire::Buffer Serving::encoded(const Running& running, Response response, std::string& error) {
  const std::string& id = running.head.request_id;
  wire::Buffer reply = context_.buffers.take();
  if (response.ok()) {
    try {
      wire::encode_success(id, response.result, reply);  // 9 serialise
      const std::size_t most = links_.most_bytes(running.lane->source());
      if (reply.size() <= most) return reply;
      response = Response::error("EXECUTION_FAILED", "the result cannot be sent: " + std::to_string(reply.size()) +
                                                         " bytes; the limit is " + std::to_string(most));
    } catch (const UnserialisableError& unserialisable) {
      response = Response::error("EXECUTION_FAILED", std::string("the result cannot be sent: ") + unserialisable.what());
    }
    reply.clear();
  }
  error = wire::readable(response.error_code + ": " + response.error_message, max_error_bytes);
  wire::encode_error(id, response.error_code, response.error_message, response.details, reply);
  return reply;
}

bool Serving::remove(const Running& running) {
  const std::lock_guard guard(lock_);
  return running_.erase(running.key()) != 0;
}

void Serving::expire(double now) {
  std::vector<RunningPtr> late;
  {
    const std::lock_guard guard(lock_);
    if (now < earliest_) return;
    earliest_ = never;
    for (auto at = running_.begin(); at != running_.end();) {
      if (at->second->deadline > now) {
        earliest_ = std::min(earliest_, at->second->deadline);
        ++at;
      } else {
        late.push_back(at->second);
        at = running_.erase(at);
      }
    }
  }
  for (const RunningPtr& running : late) time_out(*running);
}

void Serving::time_out(Running& running) {
  running.cancellation.request_stop();
  const wire::Buffer reply = timed_out(running);
  send_urgently(running.lane->source(), running.generation, reply.view());
  running.lane->finish({&running.sequence, 1});
}

// The answer to a request that is over its deadline, which was taken from the table.
wire::Buffer Serving::timed_out(const Running& running) {
  const std::string phase = running.started ? "running" : "queued";
  context_.stats.count("requests_timed_out_" + phase);
  wire::Buffer reply;
  wire::encode_error(running.head.request_id, "TIMEOUT",
                     "the deadline of '" + running.head.service + "' passed while " + phase + ": allow it more time",
                     {{"phase", phase}}, reply);
  return reply;
}

// The reader never waits: a full inbox loses the answer, counted.
void Serving::send_urgently(const std::string& source, std::uint32_t generation, ByteView reply) {
  try {
    links_.open(source, generation)
        ->send({wire::EnvelopeType::spc_response, wire::flag_reply, {&reply, 1}, 0, true});
  } catch (const std::exception&) {
    context_.stats.count("answers_undelivered");
  }
}

double Serving::next_deadline() const {
  const std::lock_guard guard(lock_);
  return running_.empty() ? never : earliest_;
}

}  // namespace speed::runtime
