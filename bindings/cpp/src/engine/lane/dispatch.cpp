#include "engine/lane/dispatch.hpp"

#include <cmath>

#include "core/counters.hpp"
#include "fs/clock.hpp"
#include "speed/error.hpp"
#include "wire/value/control.hpp"

namespace speed::engine {

using wire::EnvelopeType;

namespace {

bool is_reply(const fs::Received& received) { return (received.header.flags & wire::flag_reply) != 0; }

}  // namespace

Dispatch::Dispatch(const Parts& parts, std::function<void(const std::string&)> left)
    : to_(parts),
      left_(std::move(left)),
      segments_(std::make_shared<Segments>(
          parts.context, parts.workers, parts.calls,
          Segments::Callbacks{
              [this](const auto& lane, const auto& received) { handle(lane, received); },
              [this](const auto& lane, const auto& header, bool unordered, auto put_together) {
                to_.delivery.arrive(lane, header, unordered, std::move(put_together));
              },
              [this](const auto& lane, const auto& received, const auto& large) { return made(lane, received, large); },
              [this](const auto& source, std::uint64_t sequence) {
                reply(source, sequence, EnvelopeType::ack, wire::encode_ack(sequence));
              },
              [this](const auto& source, std::uint64_t sequence, const auto& why) {
                refuse(source, sequence, "SEGMENTS_LOST", why);
              }})) {
  const auto acknowledge = [this](const std::string& source, std::uint64_t sequence, bool waiting) {
    reply(source, sequence, EnvelopeType::ack, wire::encode_ack(sequence, waiting));
  };
  const auto refusing = [this](const Message::State& message, std::string_view code, const std::string& text) {
    refuse(message.source(), message.sequence, code, text);
  };
  to_.delivery.reply_with({acknowledge, refusing});
  to_.dead.deliver_to([this](const LanePtr& lane, const fs::Received& received) { handle(lane, received); });
}

bool Dispatch::may_read(const std::string& source) const {
  return to_.context.policy.publishes(source) || to_.context.observers.cover(source) || to_.links.knows(source);
}

const std::array<Dispatch::Handler, 10> Dispatch::handlers{nullptr,
                                                           &Dispatch::message,
                                                           &Dispatch::request,
                                                           &Dispatch::response,
                                                           &Dispatch::message,
                                                           &Dispatch::discovery,
                                                           &Dispatch::heartbeat,
                                                           &Dispatch::error,
                                                           &Dispatch::ack,
                                                           &Dispatch::stream};

void Dispatch::dispatch(const LanePtr& lane, const fs::Received& received) {
  if (to_.context.peers != nullptr && !is_known(lane, received)) return;
  if (!is_reply(received) && !to_.context.policy.allows(lane->source()) && !is_look(lane, received)) {
    return unauthorised(lane, received);
  }
  count(lane, received);
  if ((received.header.flags & wire::flag_segment) != 0) {
    segments_->accept(lane, received);
  } else {
    handle(lane, received);
  }
}

// Answers of who was never written to are none, and their senders no peers.
void Dispatch::count(const LanePtr& lane, const fs::Received& received) {
  if (lane->traffic == nullptr) {
    if (is_reply(received) && !to_.links.knows(lane->source())) return;
    lane->traffic = &to_.context.stats.traffic(lane->source());
  }
  lane->traffic->add_received(received.payload.size());
}

void Dispatch::handle(const LanePtr& lane, const fs::Received& received) {
  (this->*handlers[static_cast<std::size_t>(received.header.type)])(lane, received);
}

// Whether it is what an observer may write without a grant: a ping, or a question for figures.
bool Dispatch::is_look(const LanePtr& lane, const fs::Received& received) const {
  if (!to_.context.observers.include(lane->source(), to_.context.policy)) return false;
  if ((received.header.flags & wire::flag_segment) != 0) return false;
  const bool is_question = received.header.type == EnvelopeType::discovery;
  return wire::is_look(received.header.type, is_question ? wire::decode_control(received.payload) : Map());
}

// Whether it comes of the identity that its sender is to have, or is discarded; answers too (I-7).
bool Dispatch::is_known(const LanePtr& lane, const fs::Received& received) {
  const std::string& source = lane->source();
  // What has no grant is told so, and nothing is remembered of it.
  const bool may_write = to_.context.policy.allows(source) || to_.context.observers.include(source, to_.context.policy);
  if (!may_write && !to_.links.knows(source)) return true;
  const wire::Verdict verdict =
      to_.context.peers->verdict(source, lane->fingerprint(received.header.key_id), may_write);
  if (verdict == wire::Verdict::accepted) return true;
  const std::string why(wire::name_of(verdict));
  to_.context.stats.count(core::counters::unauthorised);
  to_.context.stats.refused_sender(source);
  to_.context.log.limited(LogLevel::warning, "speed.protocol", "identity " + why,
                          "an envelope of '" + source + "' is discarded: its identity is " + why);
  lane->drop(received.header.sequence);
  return false;
}

// Discarded; only a request is told, since its caller waits.
void Dispatch::unauthorised(const LanePtr& lane, const fs::Received& received) {
  to_.context.stats.count(core::counters::unauthorised);
  to_.context.stats.refused_sender(lane->source());
  to_.context.log.limited(LogLevel::warning, "speed.protocol", "unauthorised",
                          "an envelope of '" + lane->source() + "' is refused: it has no grant");
  if (received.header.type != EnvelopeType::spc_request) return lane->drop(received.header.sequence);
  to_.serving.refuse(lane, received);
}

void Dispatch::message(const LanePtr& lane, const fs::Received& received) {
  auto arrival = std::make_shared<Message::State>(received, lane);
  if (to_.context.peers != nullptr) arrival->sender_identity = lane->fingerprint(received.header.key_id);
  if (is_alive(*arrival)) to_.delivery.arrive(std::move(arrival));
}

// A message that was put together; a large one lies in the store. Null if it came too late.
Arrival Dispatch::made(const LanePtr& lane, const fs::Received& received, const LargePtr& large) {
  auto arrival = large == nullptr ? std::make_shared<Message::State>(received, lane)
                                  : std::make_shared<Message::State>(large->take_head(), large, lane, received.header,
                                                                     received.redelivered);
  if (to_.context.peers != nullptr) arrival->sender_identity = lane->fingerprint(received.header.key_id);
  return is_alive(*arrival) ? arrival : nullptr;
}

bool Dispatch::is_alive(Message::State& message) {
  const bool may_expire = message.view.ttl_seconds() > 0 && !message.lane->is_dead_letter();
  if (may_expire && message.view.is_expired(fs::unix_ms())) {  // M-7
    to_.context.stats.count(core::counters::messages_expired);
    if (message.wants_answer) {
      refuse(message.source(), message.sequence, "EXECUTION_FAILED", "the message expired before it was handled");
    }
    message.done();
    return false;
  }
  to_.context.stats.count(core::counters::messages_received);
  return true;
}

void Dispatch::refuse(const std::string& source, std::uint64_t sequence, std::string_view code,
                      const std::string& text) {
  reply(source, sequence, EnvelopeType::error, wire::encode_refusal(code, text, sequence));
}

// Answers without waiting: a sender that left or does not read loses it, counted.
void Dispatch::reply(const std::string& source, std::uint64_t sequence, EnvelopeType type, ByteView payload) {
  try {
    to_.links.open(source, wire::generation_of(sequence))->send({type, wire::flag_reply, {&payload, 1}, {}, true});
  } catch (const std::exception&) {
    to_.context.stats.count(core::counters::replies_undelivered);
  }
}

void Dispatch::request(const LanePtr& lane, const fs::Received& received) { to_.serving.accept(lane, received); }

void Dispatch::response(const LanePtr& lane, const fs::Received& received) {
  to_.calls.answered(lane->source(), received);
}

void Dispatch::ack(const LanePtr& lane, const fs::Received& received) {
  to_.calls.acknowledged(lane->source(), wire::decode_ack(received.payload));
}

void Dispatch::stream(const LanePtr& lane, const fs::Received& received) {
  Streams& streams = is_reply(received) ? to_.calls.streams : to_.serving.streams;
  if (!streams.arrive(lane->source(), received.payload)) {
    to_.context.stats.count(core::counters::stream_envelopes_unexpected);
  }
}

void Dispatch::error(const LanePtr& lane, const fs::Received& received) {
  to_.calls.refused(lane->source(), wire::decode_control(received.payload));
}

void Dispatch::heartbeat(const LanePtr& lane, const fs::Received& received) {
  const Map body = wire::decode_control(received.payload);
  if (is_reply(received)) {
    to_.calls.replied(lane->source(), wire::text_of(body, "requestId"), Value());
  } else {
    reply(lane->source(), received.header.sequence, EnvelopeType::heartbeat, received.payload);
  }
}

void Dispatch::discovery(const LanePtr& lane, const fs::Received& received) {
  const std::size_t most = is_reply(received) ? wire::limits::max_discovery_bytes : wire::limits::max_control_bytes;
  const Map body = wire::decode_control(received.payload, most);
  const Value* const result = body.find("result");
  if (is_reply(received)) {
    to_.calls.replied(lane->source(), wire::text_of(body, "requestId"), result == nullptr ? Value() : *result);
    return;
  }
  const std::string operation = wire::text_of(body, "op");
  if (operation == "LEAVE") {
    to_.calls.server_left(lane->source(), wire::generation_of(received.header.sequence));
    return left_(lane->source());
  }
  const std::string& source = lane->source();
  const std::uint64_t sequence = received.header.sequence;
  if (operation == "WITHDRAW") {
    segments_->after_requests(source,
                              [this, source, ids = wire::request_ids(body)] { to_.serving.withdraw(source, ids); });
  } else {
    answer(source, sequence, body, to_.introspection.answer(operation, source));
  }
}

void Dispatch::answer(const std::string& source, std::uint64_t sequence, const Map& question,
                      const std::optional<Map>& result) {
  const Value* const found = question.find("requestId");
  const Value id = found == nullptr ? Value() : *found;
  if (!result) {
    reply(source, sequence, EnvelopeType::error,
          wire::pack(Map{
              {"errorCode", "INVALID_ARGUMENTS"}, {"errorMessage", "unknown DISCOVERY operation"}, {"requestId", id}}));
    return;
  }
  reply(source, sequence, EnvelopeType::discovery,
        wire::pack(Map{{"op", wire::text_of(question, "op")}, {"requestId", id}, {"result", *result}}));
}

void Dispatch::departed(const std::string& name, std::uint64_t entered) {
  const fs::EntryPtr live = to_.context.registry->surely_live(name);
  if (live == nullptr) to_.serving.forget(name);  // at once: what a successor asks comes after the look
  to_.calls.settle(name, entered, live);
}

void Dispatch::expire(TimePoint now) {
  to_.calls.expire(now);
  const core::Overdue found = to_.workers.scheduling([&](core::Scheduler& scheduler) { return scheduler.expire(now); });
  to_.serving.overdue(found);
  to_.delivery.unclaimed(found.unclaimed);
  segments_->expire(now);
}

TimePoint Dispatch::next_deadline() const {
  const std::optional<TimePoint> next =
      to_.workers.scheduling([](core::Scheduler& scheduler) { return scheduler.next_time(); });
  return std::min(to_.calls.next_deadline(), next.value_or(never));
}

}  // namespace speed::engine
