#include "speed/error.hpp"
#include "wire/limits.hpp"
#include "wire/message/content.hpp"
#include "wire/message/fields.hpp"
#include "wire/message/message.hpp"
#include "wire/message/traceparent.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::wire {

namespace {

[[noreturn]] void refuse(const std::string& what) { throw WireError("BAD_MESSAGE", what); }

std::map<std::string, std::string> copied(const MessageHead::Pairs& from) {
  std::map<std::string, std::string> pairs;
  for (const auto& [key, content] : from) pairs.insert_or_assign(std::string(key), std::string(text(content)));
  return pairs;
}

}  // namespace

// Records may come in any order, repeated ones merge (M-4).
MessageView::MessageView(KeptBytes data) : data_(std::move(data)) {
  const ByteView all = data_.bytes;
  for (std::size_t at = 0; at < all.size();) {
    const Record record = read_record(all, at);
    at = record.end;
    if (record.tag == proto::message_envelope::payload) {
      read_payload(all.subspan(record.value, record.end - record.value));
    } else {
      head_.read(record, all);
    }
  }
  if (!head_.has_metadata) refuse("metadata: is required");
  check_metadata(head_.metadata);
  if (!has_payload_) refuse("payload: is required");
  if (head_.metadata.content_type == proto::content_type::protobuf && type_url_.empty()) {
    refuse("payload.type_url: is required for application/protobuf");
  }
}

// A google.protobuf.Any.
void MessageView::read_payload(ByteView any) {
  has_payload_ = true;
  for (std::size_t at = 0; at < any.size();) {
    const Record record = read_record(any, at);
    at = record.end;
    const ByteView content = any.subspan(record.value, record.end - record.value);
    if (record.tag == proto::protobuf_any::value) payload_ = content;
    if (record.tag != proto::protobuf_any::type_url) continue;
    if (!is_utf8(text(content))) refuse("payload.type_url: is not UTF-8");
    type_url_ = text(content);
  }
}

std::string MessageView::content_type() const {
  return content_type_text(head_.metadata.content_type, std::string(head_.metadata.content_type_custom));
}

std::string MessageView::content_encoding() const {
  return content_encoding_text(head_.metadata.content_encoding, std::string(head_.metadata.content_encoding_custom));
}

int MessageView::priority() const {
  const auto priority = static_cast<int>(head_.metadata.priority);
  return priority == 0 ? limits::default_priority : priority;
}

bool MessageView::is_expired(std::int64_t now_ms) const {
  const std::int64_t ttl = ttl_seconds();
  return ttl > 0 && (now_ms - published_at_ms()) / 1000 >= ttl;
}

std::optional<std::string> MessageView::traceparent() const {
  const bool is_valid =
      are_trace_ids(head_.trace_id, head_.span_id) && head_.trace_flags >= 0 && head_.trace_flags <= 255;
  if (!is_valid) return std::nullopt;
  return TraceParent{std::string(head_.trace_id), std::string(head_.span_id), static_cast<unsigned>(head_.trace_flags)}
      .text();
}

std::map<std::string, std::string> MessageView::labels() const { return copied(head_.labels); }
std::map<std::string, std::string> MessageView::baggage() const { return copied(head_.baggage); }

std::map<std::string, Bytes> MessageView::extensions() const {
  std::map<std::string, Bytes> found;
  for (const auto& [key, content] : head_.extensions) {
    found.insert_or_assign(std::string(key), Bytes(content.begin(), content.end()));
  }
  return found;
}

Value MessageView::payload() const { return decode(payload_); }

Value MessageView::decode(ByteView payload) const {
  check_plain();
  return decode_plain(payload);
}

void MessageView::check_plain() const {
  const std::string encoding = content_encoding();
  if (encoding != "none") refuse("content_encoding: is " + encoding + "; read payload_bytes");
  if (is_encrypted()) refuse("security.encryption: payload is encrypted; read payload_bytes");
}

Value MessageView::decode_plain(ByteView payload) const { return decode_content(content_type(), payload); }

}  // namespace speed::wire
