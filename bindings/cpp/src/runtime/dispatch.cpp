#include "runtime/dispatch.hpp"

#include "fs/clock.hpp"
#include "speed/error.hpp"
#include "wire/control.hpp"

namespace speed::runtime {

using wire::EnvelopeType;

namespace {

bool is_reply(const fs::Received& received) { return (received.header.flags & wire::flag_reply) != 0; }

}  // namespace

Dispatch::Dispatch(const Parts& parts, std::function<void(const std::string&)> left)
    : to_(parts),
      left_(std::move(left)),
      segments_(std::make_shared<Segments>(
          parts.context, parts.workers, parts.calls,
          Segments::Told{[this](const auto& lane, const auto& received, const auto& large) {
                           assembled(lane, received, large);
                         },
                         [this](const auto& source, std::uint64_t sequence) {
                           reply(source, sequence, EnvelopeType::ack, wire::encode_ack(sequence));
                         },
                         [this](const auto& source, std::uint64_t sequence, const auto& why) {
                           refuse(source, sequence, "SEGMENTS_LOST", why);
                         }})) {
  const auto acknowledge = [this](const Message::State& message) {
    reply(message.source(), message.sequence, EnvelopeType::ack, wire::encode_ack(message.sequence));
  };
  const auto refusing = [this](const Message::State& message, std::string_view code, const std::string& text) {
    refuse(message.source(), message.sequence, code, text);
  };
  to_.delivery.reply_with({acknowledge, refusing});
}

bool Dispatch::may_read(const std::string& source) const {
  return to_.context.policy.publishes(source) || to_.links.knows(source);
}

const std::array<Dispatch::Handler, 9> Dispatch::handlers{nullptr,
                                                         &Dispatch::message,
                                                         &Dispatch::request,
                                                         &Dispatch::response,
                                                         &Dispatch::message,
                                                         &Dispatch::discovery,
                                                         &Dispatch::heartbeat,
                                                         &Dispatch::error,
                                                         &Dispatch::ack};

void Dispatch::dispatch(const LanePtr& lane, const fs::Received& received) {
  if (!is_reply(received) && !to_.context.policy.allows(lane->source())) {
    unauthorised(lane, received);
  } else if ((received.header.flags & wire::flag_segment) != 0) {
    segments_->accept(lane, received);
  } else {
    (this->*handlers[static_cast<std::size_t>(received.header.type)])(lane, received);
  }
}

// Discarded; only a request is told, since its caller waits.
void Dispatch::unauthorised(const LanePtr& lane, const fs::Received& received) {
  to_.context.stats.count("unauthorised");
  lane->drop(received.header.sequence);
  if (received.header.type == EnvelopeType::spc_request) to_.serving.refuse(lane->source(), received);
}

// What came in segments, handed on as if it had come whole; a large message lies in the store.
void Dispatch::assembled(const LanePtr& lane, const fs::Received& received, const LargePtr& large) {
  if (large == nullptr) return (this->*handlers[static_cast<std::size_t>(received.header.type)])(lane, received);
  take_message(lane, std::make_shared<Message::State>(large->take_head(), large, lane, received.header,
                                                      received.redelivered));
}

void Dispatch::message(const LanePtr& lane, const fs::Received& received) {
  take_message(lane,
               std::make_shared<Message::State>(received.payload, lane, received.header, received.redelivered));
}

void Dispatch::take_message(const LanePtr& lane, Arrival arrival) {
  if (arrival->view.ttl_seconds() > 0 && arrival->view.is_expired(fs::unix_ms())) {  // M-7
    to_.context.stats.count("messages_expired");
    if (arrival->wants_answer) {
      refuse(lane->source(), arrival->sequence, "EXECUTION_FAILED", "the message expired before it was handled");
    }
    arrival->done();
    return;
  }
  to_.context.stats.count("messages_received");
  to_.delivery.arrive(std::move(arrival));
}

void Dispatch::refuse(const std::string& source, std::uint64_t sequence, std::string_view code,
                      const std::string& text) {
  reply(source, sequence, EnvelopeType::error, wire::encode_refusal(code, text, sequence));
}

// Answers without waiting: a sender that left or does not read loses it, counted.
void Dispatch::reply(const std::string& source, std::uint64_t sequence, EnvelopeType type, ByteView payload) {
  try {
    to_.links.open(source, wire::generation_of(sequence))->send({type, wire::flag_reply, {&payload, 1}, 0, true});
  } catch (const std::exception&) {
    to_.context.stats.count("replies_undelivered");
  }
}

void Dispatch::request(const LanePtr& lane, const fs::Received& received) { to_.serving.accept(lane, received); }

void Dispatch::response(const LanePtr& lane, const fs::Received& received) {
  to_.calls.answered(lane->source(), received.payload);
}

void Dispatch::ack(const LanePtr& lane, const fs::Received& received) {
  to_.calls.acknowledged(lane->source(), wire::decode_ack(received.payload));
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
  if (operation == "LEAVE") return left_(lane->source());
  const Value* const id = body.find("requestId");
  const std::optional<Map> answer = to_.introspection.answer(operation, lane->source());
  if (!answer) {
    reply(lane->source(), received.header.sequence, EnvelopeType::error,
          wire::pack(Map{{"errorCode", "INVALID_ARGUMENTS"},
                         {"errorMessage", "unknown DISCOVERY operation"},
                         {"requestId", id == nullptr ? Value() : *id}}));
    return;
  }
  reply(lane->source(), received.header.sequence, EnvelopeType::discovery,
        wire::pack(Map{{"op", operation}, {"requestId", id == nullptr ? Value() : *id}, {"result", *answer}}));
}

void Dispatch::expire(double now) {
  to_.calls.expire(now);
  to_.serving.expire(now);
  segments_->expire(now);
}

double Dispatch::next_deadline() const { return std::min(to_.calls.next_deadline(), to_.serving.next_deadline()); }

}  // namespace speed::runtime
