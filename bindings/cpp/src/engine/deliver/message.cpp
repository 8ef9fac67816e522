#include "speed/message.hpp"

#include "engine/deliver/message_state.hpp"
#include "wire/message/batch.hpp"

namespace speed {

namespace {

std::optional<std::string> owned(std::optional<std::string_view> text) {
  return text ? std::optional<std::string>(*text) : std::nullopt;
}

}  // namespace

Value Message::payload() const {
  state_->check_plain();
  return state_->view.decode_plain(payload_bytes());
}

std::vector<Value> Message::payloads() const {
  if (content_type() != wire::batch_type) return {payload()};
  state_->check_plain();
  return wire::decode_batch(payload_bytes());
}

ByteView Message::payload_bytes() const {
  if (state_->opened.plain) return state_->opened.plain->view();
  return state_->large == nullptr ? state_->view.payload_bytes() : state_->large->payload_bytes();
}

const segment::Source* Message::large() const {
  return state_->large == nullptr || state_->opened.plain ? nullptr : &state_->large->payload();
}

const std::string& Message::source() const { return state_->source(); }
const std::string& Message::sender_identity() const { return state_->sender_identity; }
std::uint64_t Message::sequence() const { return state_->sequence; }
std::int64_t Message::timestamp_ms() const { return state_->timestamp_ms; }
ByteView Message::bytes() const {
  return state_->large == nullptr ? ByteView(state_->view.bytes()) : state_->large->bytes();
}

unsigned Message::deliveries() const { return state_->deliveries; }
bool Message::redelivered() const { return state_->redelivered; }
std::string Message::message_id() const { return std::string(state_->view.message_id()); }
std::string Message::topic() const { return std::string(state_->view.topic()); }
std::string Message::name_space() const { return std::string(state_->view.name_space()); }
std::string Message::content_type() const { return state_->view.content_type(); }
std::string Message::content_encoding() const { return state_->view.content_encoding(); }
std::string Message::type_url() const { return std::string(state_->view.type_url()); }
int Message::priority() const { return state_->view.priority(); }
std::int64_t Message::ttl_seconds() const { return state_->view.ttl_seconds(); }
std::int64_t Message::published_at_ms() const { return state_->view.published_at_ms(); }
std::optional<std::string> Message::correlation_id() const { return owned(state_->view.correlation_id()); }
std::optional<std::string> Message::causality_parent() const { return owned(state_->view.causality_parent()); }
std::optional<std::string> Message::publisher_id() const { return owned(state_->view.publisher_id()); }
std::optional<std::string> Message::signed_by() const { return state_->opened.signed_by; }
std::optional<std::string> Message::opened_by() const { return state_->opened.opened_by; }

std::string Message::publisher_team() const { return std::string(state_->view.security().publisher_team); }

std::string Message::data_classification() const { return std::string(state_->view.security().data_classification); }

bool Message::contains_pii() const {
  return state_->opened.marks_personal_data || state_->view.security().contains_pii;
}
std::optional<std::string> Message::traceparent() const { return state_->view.traceparent(); }
std::map<std::string, std::string> Message::labels() const { return state_->view.labels(); }
std::map<std::string, std::string> Message::baggage() const { return state_->view.baggage(); }
std::map<std::string, Bytes> Message::extensions() const { return state_->view.extensions(); }
void Message::done() { state_->done(); }

}  // namespace speed
