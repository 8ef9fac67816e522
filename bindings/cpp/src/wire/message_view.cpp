#include <google/protobuf/arena.h>

#include <array>
#include <cstddef>

#include "message.pb.h"
#include "speed/error.hpp"
#include "wire/content.hpp"
#include "wire/limits.hpp"
#include "wire/message.hpp"
#include "wire/message_rules.hpp"
#include "wire/records.hpp"
#include "wire/traceparent.hpp"
#include "wire/value_codec.hpp"

namespace speed::wire {

namespace {

constexpr std::uint32_t payload_field = 99;
constexpr std::uint32_t any_type_url = 1;
constexpr std::uint32_t any_value = 2;

// metadata, security (encryption), observability (baggage, labels), schema, extensions
constexpr std::array<Part, 1> security_parts{{{6, {}}}};
constexpr std::array<Part, 2> observability_parts{{{5, {}}, {6, {}}}};
constexpr std::array<Part, 5> head_parts{{{1, {}}, {2, security_parts}, {3, observability_parts}, {4, {}}, {97, {}}}};

[[noreturn]] void refuse(const std::string& what) { throw WireError("BAD_MESSAGE", what); }

Metadata facts_of(const message::v1::MessageMetadata& metadata) {
  return {metadata.message_id(),          metadata.topic(),
          metadata.namespace_(),          metadata.published_at_ms(),
          metadata.priority(),            metadata.ttl_seconds(),
          static_cast<int>(metadata.content_type()),     metadata.content_type_custom(),
          static_cast<int>(metadata.content_encoding()), metadata.content_encoding_custom()};
}

template <class Texts>
std::map<std::string, std::string> copied(const Texts& from) {
  return {from.begin(), from.end()};
}

google::protobuf::ArenaOptions block_of(std::span<char> block) {
  google::protobuf::ArenaOptions options;
  options.initial_block = block.data();
  options.initial_block_size = block.size();
  return options;
}

}  // namespace

struct MessageView::State {
  Bytes data;
  // Holds the head with its parts: one allocation for all of them, and none to take apart.
  alignas(std::max_align_t) std::array<char, 1024> block;
  google::protobuf::Arena arena{block_of(block)};
  message::v1::MessageEnvelope& head = *google::protobuf::Arena::CreateMessage<message::v1::MessageEnvelope>(&arena);
  bool has_payload = false;
  ByteView payload;
  std::string type_url;

  void parse();
  void take_payload(ByteView record);
};

// Finds the payload and parses all the rest (M-4): records may come in any order, repeated ones merge.
void MessageView::State::parse() {
  std::string rest;  // records in pieces: most messages have one piece, which is parsed where it lies
  ByteView piece;
  std::size_t piece_start = 0;
  const ByteView all(data);
  const auto end_piece = [&](std::size_t end) {
    rest += text(piece);
    piece = all.subspan(piece_start, end - piece_start);
  };
  for (std::size_t at = 0; at < all.size();) {
    const Record record = read_record(all, at);
    at = record.end;
    if (record.field != payload_field || !record.is_bytes()) continue;
    end_piece(record.start);
    piece_start = record.end;
    take_payload(all.subspan(record.value, record.end - record.value));
  }
  if (piece_start < all.size()) end_piece(all.size());
  if (!rest.empty()) {
    rest += text(piece);
    piece = view(rest);
  }
  check_nested(piece, head_parts);
  if (!head.ParseFromArray(piece.data(), static_cast<int>(piece.size()))) refuse("records: are no MessageEnvelope");
}

void MessageView::State::take_payload(ByteView any) {
  has_payload = true;
  for (std::size_t at = 0; at < any.size();) {
    const Record record = read_record(any, at);
    at = record.end;
    if (!record.is_bytes()) continue;
    const ByteView content = any.subspan(record.value, record.end - record.value);
    if (record.field == any_value) payload = content;
    if (record.field != any_type_url) continue;
    if (!is_utf8(text(content))) refuse("payload.type_url: is not UTF-8");
    type_url = text(content);
  }
}

MessageView::MessageView(Bytes data) : state_(std::make_unique<State>()) {
  state_->data = std::move(data);
  state_->parse();
  if (!state_->head.has_metadata()) refuse("metadata: is required");
  check_metadata(facts_of(state_->head.metadata()));
  if (!state_->has_payload) refuse("payload: is required");
  if (static_cast<int>(state_->head.metadata().content_type()) == content_type_protobuf && state_->type_url.empty()) {
    refuse("payload.type_url: is required for application/protobuf");
  }
}

MessageView::MessageView(MessageView&&) noexcept = default;
MessageView::~MessageView() = default;

std::string MessageView::message_id() const { return state_->head.metadata().message_id(); }
std::string MessageView::topic() const { return state_->head.metadata().topic(); }
std::string MessageView::name_space() const { return state_->head.metadata().namespace_(); }
std::int64_t MessageView::published_at_ms() const { return state_->head.metadata().published_at_ms(); }
std::string MessageView::type_url() const { return state_->type_url; }
std::int64_t MessageView::ttl_seconds() const { return state_->head.metadata().ttl_seconds(); }

std::string MessageView::content_type() const {
  const auto& metadata = state_->head.metadata();
  return content_type_text(static_cast<int>(metadata.content_type()), metadata.content_type_custom());
}

std::string MessageView::content_encoding() const {
  const auto& metadata = state_->head.metadata();
  return content_encoding_text(static_cast<int>(metadata.content_encoding()), metadata.content_encoding_custom());
}

int MessageView::priority() const {
  const int priority = state_->head.metadata().priority();
  return priority == 0 ? limits::default_priority : priority;
}

bool MessageView::is_expired(std::int64_t now_ms) const {
  const std::int64_t ttl = ttl_seconds();
  return ttl > 0 && (now_ms - published_at_ms()) / 1000 >= ttl;
}

std::optional<std::string> MessageView::correlation_id() const {
  const auto& metadata = state_->head.metadata();
  return metadata.has_correlation_id() ? std::optional(metadata.correlation_id()) : std::nullopt;
}

std::optional<std::string> MessageView::causality_parent() const {
  const auto& metadata = state_->head.metadata();
  return metadata.has_causality_parent() ? std::optional(metadata.causality_parent()) : std::nullopt;
}

std::optional<std::string> MessageView::publisher_id() const {
  const auto& security = state_->head.security();
  return security.has_publisher_id() ? std::optional(security.publisher_id()) : std::nullopt;
}

std::optional<std::string> MessageView::traceparent() const {
  const auto& trace = state_->head.observability();
  const bool is_valid =
      are_trace_ids(trace.trace_id(), trace.span_id()) && trace.trace_flags() >= 0 && trace.trace_flags() <= 255;
  if (!is_valid) return std::nullopt;
  return TraceParent{trace.trace_id(), trace.span_id(), static_cast<unsigned>(trace.trace_flags())}.text();
}

std::map<std::string, std::string> MessageView::labels() const { return copied(state_->head.observability().labels()); }

std::map<std::string, std::string> MessageView::baggage() const {
  return copied(state_->head.observability().baggage());
}

std::map<std::string, Bytes> MessageView::extensions() const {
  std::map<std::string, Bytes> found;
  for (const auto& [key, bytes] : state_->head.extensions()) {
    const ByteView content = view(bytes);
    found.emplace(key, Bytes(content.begin(), content.end()));
  }
  return found;
}

ByteView MessageView::payload_bytes() const { return state_->payload; }
const Bytes& MessageView::bytes() const { return state_->data; }

Value MessageView::payload() const {
  const std::string encoding = content_encoding();
  if (encoding != "none") refuse("content_encoding: is " + encoding + "; read payload_bytes");
  if (state_->head.security().has_encryption()) refuse("security.encryption: payload is encrypted; read payload_bytes");
  return decode_content(content_type(), state_->payload);
}

}  // namespace speed::wire
