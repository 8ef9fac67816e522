#include "engine/call/calls.hpp"

#include <array>
#include <charconv>

#include "core/counters.hpp"
#include "core/declared_errors.hpp"
#include "core/texts.hpp"
#include "engine/deliver/refused_events.hpp"
#include "engine/tracing.hpp"
#include "fs/clock.hpp"
#include "speed/error.hpp"
#include "wire/names/harmless.hpp"
#include "wire/value/control.hpp"
#include "wire/value/spc.hpp"

namespace speed::engine {

namespace texts = core::texts;

namespace {

std::string hex(std::uint64_t number) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr;
  return {digits.data(), end};
}

// Acknowledgements wait under a key that no request id has: ours hold no '#'.
std::string key_of(const std::string& target, std::uint64_t sequence) { return target + '#' + hex(sequence); }

template <class CallFailure>
std::exception_ptr failure_of(const std::string& message, const Map& details, Execution execution) {
  CallFailure failure = [&] {
    if constexpr (std::is_constructible_v<CallFailure, std::string, Map>) return CallFailure(message, details);
    else return CallFailure(message);
  }();
  failure.set_execution(execution);
  return std::make_exception_ptr(failure);
}

// Whether what it says it was in leaves open whether the service ran (S-8).
Execution by_phase(const Map& details) {
  const Value* const phase = details.find("phase");
  return phase != nullptr && *phase == Value("queued") ? Execution::not_begun : Execution::may_have_run;
}

// What the deadline of a call, question or acknowledgement means for its caller.
std::exception_ptr overdue(const core::PendingCall& call) {
  if (call.kind == core::PendingCall::Kind::acknowledgement) {
    return std::make_exception_ptr(NotAcknowledgedError(texts::not_acknowledged(call.target)));
  }
  if (call.kind == core::PendingCall::Kind::question) {
    return std::make_exception_ptr(
        CallTimeoutError(texts::question_unanswered(call.target), {{"phase", "unanswered"}}));
  }
  if (call.request != nullptr && call.request->state == core::SentRequest::State::waits) {
    if (!call.request->is_awaited) return call_left(call.target, call.request->may_have_run);
    NodeStartingError error = still_starting(call.target);
    error.set_execution(call.request->may_have_run ? Execution::may_have_run : Execution::not_begun);
    return std::make_exception_ptr(error);
  }
  return failure_of<CallTimeoutError>(texts::call_unanswered(call.target), {{"phase", "unanswered"}},
                                      Execution::may_have_run);
}

// What the end of this node means for a call: what was written may run, and nobody here knows what becomes of it.
std::optional<Execution> execution_at_end(const core::PendingCall& call) {
  if (call.request == nullptr) return std::nullopt;
  const bool waits = call.request->state == core::SentRequest::State::waits && !call.request->may_have_run;
  return waits ? Execution::not_begun : Execution::may_have_run;
}

}  // namespace

std::exception_ptr call_left(const std::string& name, bool may_have_run) {
  if (may_have_run) {
    return failure_of<NodeLeftError>(texts::left_in_doubt(name), {}, Execution::may_have_run);
  }
  return failure_of<NodeLeftError>(texts::left_not_begun(name), {}, Execution::not_begun);
}

namespace {

// What to do, for whom the code alone does not say whether the service ran.
std::string advised(const std::string& code, std::string message, const Map& details) {
  if (code == "LEAVING") return std::move(message) + "; nothing ran: call again";
  const bool has_phase = code == "TIMEOUT" || code == "WITHDRAWN";
  if (has_phase && by_phase(details) == Execution::not_begun) return std::move(message) + "; nothing ran: call again";
  const bool ran_or_not = code == "SERVICE_NOT_FOUND" || code == "ACCESS_DENIED" || code == "INVALID_ARGUMENTS" ||
                          code == "EXECUTION_FAILED" || code == "SEGMENTS_LOST" || wire::application_code(code);
  return ran_or_not ? message : std::move(message) + "; it may have run: look before you repeat it";
}

}  // namespace

std::exception_ptr call_error(const std::string& code, const std::string& text, const Map& details) {
  using enum Execution;
  const std::string message = advised(code, wire::harmless(text), details);
  if (code == "SERVICE_NOT_FOUND") return failure_of<ServiceNotFoundError>(message, details, not_begun);
  if (code == "ACCESS_DENIED") return failure_of<AccessDeniedError>(message, details, not_begun);
  if (code == "INVALID_ARGUMENTS") return failure_of<InvalidArgumentsError>(message, details, not_begun);
  if (code == "EXECUTION_FAILED") return failure_of<ExecutionFailedError>(message, details, ran);
  if (code == "TIMEOUT") return failure_of<CallTimeoutError>(message, details, by_phase(details));
  if (code == "SEGMENTS_LOST") return failure_of<SegmentsLostError>(message, details, not_begun);
  if (code == "WITHDRAWN") return failure_of<CallWithdrawnError>(message, details, by_phase(details));
  if (code == "LEAVING") return failure_of<NodeLeavingError>(message, details, not_begun);
  if (code == "REPLACED") return failure_of<NodeReplacedError>(message, details, may_have_run);
  if (const std::optional<std::string> own = wire::application_code(code)) {
    ApplicationError error(*own, message, details);
    error.set_execution(ran);
    return core::as_declared(error);
  }
  return failure_of<InternalError>(message, details, may_have_run);
}

core::Completion Waiter::completion() {
  return [state = state_](core::Outcome outcome) {
    const MutexLock guard(state->lock);
    state->outcome = std::move(outcome);
    state->done = true;
    state->changed.notify_all();
  };
}

Value Waiter::result(Workers& workers, bool in_place) {
  std::optional<Workers::PlaceRelease> away;
  if (!state_->done) away.emplace();
  if (!state_->done) workers.read_until(state_->done);
  UniqueLock guard(state_->lock);
  const auto done = [&] { return state_->done.load(); };
  if (!is_interruptible()) state_->changed.wait(guard, done);
  while (!state_->changed.wait_for(guard, interruption_period, done)) {
    guard.unlock();  // who is asked may close the node, which completes this
    look_for_interruption();
    guard.lock();
  }
  // Taken out: the thread that completed the call may be the last to drop the state, and must not drop this with it.
  core::Outcome outcome = std::exchange(state_->outcome, Value());
  guard.unlock();
  outcome = read(std::move(outcome), in_place);
  if (auto* const error = std::get_if<std::exception_ptr>(&outcome)) std::rethrow_exception(*error);
  return std::move(std::get<Value>(outcome));
}

core::Outcome read(core::Outcome outcome, bool in_place) {
  const auto* const unread = std::get_if<core::Unread>(&outcome);
  if (unread == nullptr) return outcome;
  try {
    wire::WireResponse response =
        wire::decode_response(unread->payload.bytes, in_place ? unread->payload.owner : nullptr);
    if (response.ok) return std::move(response.result);
    return call_error(response.error_code, unread->source + ": " + response.error_message, response.details);
  } catch (const std::exception& error) {
    return failure_of<InternalError>("'" + unread->source + "' answered what cannot be read: " + error.what(), {},
                                     Execution::may_have_run);
  }
}

// Answers are read here, those that end a stream too.
Value Channel::outcome() {
  core::Outcome outcome;
  {
    const MutexLock guard(lock_);
    outcome = std::exchange(outcome_, Value());
  }
  outcome = read(std::move(outcome));
  if (const auto* const failure = std::get_if<std::exception_ptr>(&outcome)) std::rethrow_exception(*failure);
  return std::get<Value>(std::move(outcome));
}

core::Completion answered_once(core::Completion completion) {
  auto given = std::make_shared<std::atomic<bool>>(false);
  return [given, completion = std::move(completion)](core::Outcome outcome) {
    if (!given->exchange(true)) completion(std::move(outcome));
  };
}

Calls::Calls(Context& context, Links& links, Effects effects)
    : context_(context),
      links_(links),
      effects_(std::move(effects)),
      kept_(std::make_shared<core::KeptRequests>(context.buffers)) {}

// What fails here was not written, unless it says so: nothing ran.
std::string Calls::start(const Call& call, const std::string& id, core::Completion completion) {
  try {
    return write(call, id, std::move(completion));
  } catch (StorageError& error) {
    if (!error.execution()) {
      error.set_execution(error.envelopes_written() > 0 ? Execution::may_have_run : Execution::not_begun);
    }
    throw;
  } catch (Error& error) {
    if (!error.execution()) error.set_execution(Execution::not_begun);
    throw;
  }
}

std::shared_ptr<Channel> Calls::open_stream(const Call& call, const std::weak_ptr<void>& owner) {
  const std::string id = next_id();
  const StreamOffer& offer = *call.stream;
  const core::Credit window{offer.items, offer.bytes};
  auto channel = std::make_shared<Channel>(id, offer, core::StreamWindow(window), core::StreamCredit());
  const auto write = [this, target = call.target](ByteView payload, bool may_wait) {
    write_part(target, payload, may_wait);
  };
  channel->bind(owner, write, [this, target = call.target, id] {
    streams.remove(target, id);
    withdraw(target, id);
  });
  streams.add(call.target, channel);
  try {
    start(call, id, [this, target = call.target, channel](core::Outcome outcome) {
      streams.remove(target, channel->request_id());
      channel->end(std::move(outcome));
    });
  } catch (...) {
    streams.remove(call.target, id);
    throw;
  }
  return channel;
}

void Calls::write_part(const std::string& target, ByteView payload, bool may_wait) {
  const TimePoint deadline = fs::monotonic_now() + (may_wait ? stream_write_timeout : Duration::zero());
  links_.granted(target, deadline)->send({wire::EnvelopeType::stream, 0, {&payload, 1}, deadline, !may_wait});
}

// Of a stream, whose node is waited for: what it sends is not kept (S-27).
Links::Granted Calls::link_for(const Call& call) {
  if (!call.stream || !call.stream->wants_stream()) return links_.granted_call(call.target);
  const Duration longest = std::min<Duration>(call.timeout, wire::limits::call_timeout);
  const LinkPtr link = links_.granted(call.target, fs::monotonic_now() + longest);
  return {link, context_.registry->live(call.target)};
}

std::string Calls::write(const Call& call, const std::string& id, core::Completion completion) {
  const auto [link, entry] = link_for(call);
  if (entry == nullptr) throw UnknownNodeError("'" + call.target + "' has just left");
  const bool streams_there = wire::has_feature(*entry, "streams");
  const bool is_stream = call.stream && call.stream->wants_stream();
  if (is_stream && !streams_there) {
    throw ConfigurationError("'" + call.target +
                             "' runs a version that knows no streams: call services of it that return lists");
  }
  const auto timeout_ms = std::chrono::duration_cast<std::chrono::milliseconds>(call.timeout).count();
  wire::Buffer payload = context_.buffers.take();
  wire::encode_request(
      {.request_id = id,
       .service = call.service,
       .caller = context_.name,
       .generation = static_cast<std::uint32_t>(entry->generation),
       .deadline = {fs::unix_ms() + timeout_ms, context_.registry->observer().boot_id, fs::boot_ms() + timeout_ms},
       .traceparent = call.traceparent ? call.traceparent : current_traceparent,
       .stream = streams_there ? call.stream : std::nullopt},
      call.arguments, payload);
  links_.check_size(call.target, payload.size());
  const auto request = std::make_shared<core::SentRequest>();
  request->until = fs::monotonic_now() + call.timeout;
  request->is_stream = is_stream;
  track(id,
        {call.target, request->until + answer_grace, core::PendingCall::Kind::call, std::move(completion), request});
  try {
    if (link == nullptr) {
      wait_for_start(call, id, *request, std::move(payload));
      return id;
    }
    send(link, id, *request, payload.view(), false);
  } catch (...) {
    forget(id);
    throw;
  }
  written(id, *request, entry, std::move(payload));
  return id;
}

void Calls::send(const LinkPtr& link, const std::string& id, core::SentRequest& request, ByteView payload,
                 bool urgent) {
  Outgoing outgoing{wire::EnvelopeType::spc_request, 0, {&payload, 1}, request.until, urgent};
  const auto splitter = link->splitter();
  if (splitter == nullptr && payload.size() <= wire::limits::max_payload_bytes) {
    request.sequence = link->send(outgoing);
    return;
  }
  outgoing.track = [&, lost = losses(link, id, request.until + answer_grace)](std::uint64_t sequence) {
    request.segments.push_back(sequence);
    lost(sequence);
  };
  link->send(outgoing);
  const segment::Splitter cutting = splitter == nullptr ? fitting_splitter(payload.size()) : *splitter;
  request.needed = std::min<std::size_t>(cutting.shape(payload.size()).data_count, request.segments.size());
}

// Its answer may have come already.
void Calls::written(const std::string& id, core::SentRequest& request, const fs::EntryPtr& server,
                    wire::Buffer payload) {
  const bool is_kept = !request.is_stream && keep(request, payload);
  const MutexLock guard(lock_);
  request.generation = static_cast<std::uint32_t>(server->generation);
  request.server = server;
  request.state = core::SentRequest::State::written;
  request.since = {};
  if (core::PendingCall* const call = table_.find(id)) table_.set_deadline(*call, request.until + answer_grace);
  if (!is_kept) context_.buffers.give(std::move(payload));
}

// An ERROR under any sequence of a request in segments ends its call (G-19).
std::function<void(std::uint64_t)> Calls::losses(const LinkPtr& link, const std::string& id, TimePoint deadline) {
  const auto lost = [this, target = link->target(), id](core::Outcome outcome) {
    const auto* const error = std::get_if<std::exception_ptr>(&outcome);
    try {
      if (error != nullptr) std::rethrow_exception(*error);
    } catch (const SegmentsLostError&) {
      complete(id, target, std::move(outcome));
    } catch (...) {  // the call ends by itself
    }
  };
  return [this, target = link->target(), deadline, lost](std::uint64_t sequence) {
    track_ack(target, sequence, deadline, lost);
  };
}

void Calls::ask(const std::string& target, wire::EnvelopeType type, Map body, Duration timeout,
                core::Completion completion, bool urgent) {
  const TimePoint deadline = fs::monotonic_now() + timeout;
  const Links::Right right = wire::is_look(type, body) ? Links::Right::look : Links::Right::grant;
  const LinkPtr link = links_.granted(target, urgent ? TimePoint() : deadline, right);
  const std::string id = next_id();
  body.set("requestId", id);
  const Bytes payload = wire::pack(body);
  track(id, {target, deadline, core::PendingCall::Kind::question, std::move(completion)});
  try {
    const ByteView one(payload);
    link->send({type, 0, {&one, 1}, deadline, urgent});
  } catch (...) {
    forget(id);
    throw;
  }
}

void Calls::send_acknowledged(const std::string& target, wire::EnvelopeType type, ByteView payload, Duration timeout,
                              bool unordered, core::Completion completion) {
  const TimePoint deadline = fs::monotonic_now() + timeout;
  const LinkPtr link = links_.granted(target, deadline);
  if (link->splitter() != nullptr) completion = answered_once(std::move(completion));
  std::vector<std::uint64_t> entered;  // several on a link with a segment size
  const auto enter = [&](std::uint64_t sequence) {
    entered.push_back(sequence);
    track_ack(target, sequence, deadline, completion);
  };
  try {
    link->send({type, wire::flag_ack_requested, {&payload, 1}, deadline, false, enter, unordered});
  } catch (...) {
    for (const std::uint64_t sequence : entered) forget(target, sequence);
    throw;
  }
}

void Calls::track_ack(const std::string& target, std::uint64_t sequence, TimePoint deadline,
                      core::Completion completion) {
  track(key_of(target, sequence), {target, deadline, core::PendingCall::Kind::acknowledgement, std::move(completion)});
}

void Calls::forget(const std::string& target, std::uint64_t sequence) { forget(key_of(target, sequence)); }

bool Calls::waits_for(const std::string& source) const {
  const MutexLock guard(lock_);
  return table_.waits_for(source);
}

std::string Calls::next_id() { return hex(context_.generation) + "." + hex(++number_); }

void Calls::track(std::string key, core::PendingCall call) {
  const TimePoint deadline = call.deadline;
  {
    const MutexLock guard(lock_);
    if (ended_ != nullptr) std::rethrow_exception(afresh(ended_));  // nobody would complete it
    table_.add(std::move(key), std::move(call));
  }
  effects_.wake_by(deadline);
}

void Calls::forget(const std::string& key) {
  const MutexLock guard(lock_);
  table_.forget(key);
}

namespace {

// Of a call that an earlier process may have run: no error says that it was not begun.
core::Outcome perhaps_run(core::Outcome outcome) {
  const auto* const failure = std::get_if<std::exception_ptr>(&outcome);
  if (failure == nullptr) return outcome;
  try {
    std::rethrow_exception(*failure);
  } catch (Error& error) {
    if (error.execution() == Execution::not_begun) error.set_execution(Execution::may_have_run);
    return std::current_exception();
  } catch (...) {
    return outcome;
  }
}

// An error that names nothing somebody waits for.
std::string_view counted_as(std::string_view code) {
  if (code == "SEGMENTS_LOST") return core::counters::payloads_reported_lost;
  return is_unrecorded(code) ? core::counters::events_reported_refused : core::counters::answers_unexpected;
}

}  // namespace

bool Calls::complete(const std::string& key, const std::string& source, core::Outcome outcome,
                     std::string_view unexpected) {
  core::Completion completion;
  bool ran_before = false;
  {
    const MutexLock guard(lock_);
    const core::PendingCall* const call = table_.find(key);
    ran_before = call != nullptr && call->request != nullptr && call->request->may_have_run;
    completion = table_.take(key, source);
  }
  if (completion && ran_before) outcome = perhaps_run(read(std::move(outcome)));
  if (!completion) {
    context_.stats.count(unexpected);
    return false;
  }
  completion(std::move(outcome));
  return true;
}

void Calls::answered(const std::string& source, const fs::Received& received) {
  const std::optional<std::string> id = wire::id_at_front(received.payload);
  if (!id) throw WireError("BAD_PAYLOAD", "a response does not begin with a requestId of 1 to 64 bytes");
  {
    const MutexLock guard(lock_);
    if (!table_.holds(*id)) return context_.stats.count(core::counters::answers_unexpected);
  }
  if (wire::is_replaced(received.payload)) return effects_.look_at(source);
  complete(*id, source, core::Unread{source, fs::kept(received)});
}

// --- withdrawal ---

void Calls::withdraw(const std::string& target, const std::string& id) {
  {
    const MutexLock guard(lock_);
    core::PendingCall* const call = table_.find(id);
    if (call == nullptr) return;
    if (call->request != nullptr) call->request->is_withdrawn = true;
    if (call->request != nullptr && call->request->state == core::SentRequest::State::waits) {
      look_at_ = TimePoint();  // nobody is to be told
    } else {
      withdrawn_[target].push_back(id);
    }
  }
  effects_.wake_by(TimePoint());  // whoever reads tells
}

void Calls::tell_withdrawn() {
  std::map<std::string, std::vector<std::string>> withdrawn;
  {
    const MutexLock guard(lock_);
    if (withdrawn_.empty()) return;
    withdrawn.swap(withdrawn_);
  }
  for (const auto& [target, ids] : withdrawn) {
    for (std::size_t first = 0; first < ids.size(); first += wire::limits::max_withdrawn_ids) {
      tell_withdrawn(target,
                     std::span(ids).subspan(first, std::min(wire::limits::max_withdrawn_ids, ids.size() - first)));
    }
  }
}

// A word that finds no room is lost: the calls end by their deadlines then. One that is leaving is told too: its end waits
// for what runs there.
void Calls::tell_withdrawn(const std::string& target, std::span<const std::string> ids) {
  const fs::EntryPtr entry = context_.registry->live(target);
  if (entry == nullptr || !wire::has_feature(*entry, "withdraw") || !context_.is_granted_by(*entry)) return;
  const Bytes payload = wire::pack(Map{{"op", "WITHDRAW"}, {"requestIds", Array(ids.begin(), ids.end())}});
  const ByteView one(payload);
  try {
    links_.open(target, static_cast<std::uint32_t>(entry->generation))
        ->send({wire::EnvelopeType::discovery, 0, {&one, 1}, {}, true});
    context_.stats.count(core::counters::calls_withdrawn, ids.size());
  } catch (const std::exception&) {
    context_.stats.count(core::counters::withdrawals_undelivered, ids.size());
  }
}

void Calls::replied(const std::string& source, const std::string& request_id, Value result) {
  complete(request_id, source, std::move(result));
}

void Calls::acknowledged(const std::string& source, const wire::Ack& ack) {
  complete(key_of(source, ack.sequence), source, Value(ack.waiting));
}

void Calls::refused(const std::string& source, const Map& body) {
  const Value* const sequence = body.find("sequence");
  std::string key = wire::text_of(body, "requestId");
  if (key.empty() && sequence != nullptr && !sequence->is_nil()) key = key_of(source, sequence->as<std::uint64_t>());
  const std::string code = wire::text_of(body, "errorCode");
  const std::string text = wire::text_of(body, "errorMessage");
  if (complete(key, source, call_error(code, source + ": " + text, {}), counted_as(code)) || !is_unrecorded(code))
    return;
  context_.log.limited(LogLevel::warning, "speed.messages", code,
                       "'" + source + "' does not record events: " + code + ": " + wire::harmless(text));
}

void Calls::expire(TimePoint now) {
  tell_withdrawn();
  look_again(now);
  std::vector<core::PendingCall> late;
  {
    const MutexLock guard(lock_);
    late = table_.take_late(now);
  }
  Decisions decisions;
  for (const core::PendingCall& call : late) {
    std::exception_ptr why = settled_late(call, decisions);
    if (why == nullptr) {
      const MutexLock guard(lock_);  // it may be written just now
      why = overdue(call);
    }
    call.completion(std::move(why));
  }
}

std::uint64_t Calls::entered() const {
  const MutexLock guard(lock_);
  return table_.entered();
}

void Calls::fail_all(const std::exception_ptr& why) {
  std::vector<core::PendingCall> all;
  std::vector<std::exception_ptr> errors;  // made under the lock: a call may be written just now
  {
    const MutexLock guard(lock_);
    ended_ = why;
    all = table_.take_if([](const core::PendingCall&) { return true; });
    for (const core::PendingCall& call : all) errors.push_back(afresh(why, execution_at_end(call)));
  }
  for (std::size_t at = 0; at < all.size(); ++at) all[at].completion(std::move(errors[at]));
}

TimePoint Calls::next_deadline() const {
  const MutexLock guard(lock_);
  return std::min(table_.next_deadline(), look_at_.load());
}

std::size_t Calls::pending() const {
  const MutexLock guard(lock_);
  return table_.size();
}

std::set<std::string> Calls::targets() const {
  const MutexLock guard(lock_);
  return table_.targets();
}

}  // namespace speed::engine
