// Messages are written record by record: the head is small, and no object need be built for it (M-2).
#include "speed/error.hpp"
#include "wire/content.hpp"
#include "wire/message.hpp"
#include "wire/message_rules.hpp"
#include "wire/records.hpp"
#include "wire/traceparent.hpp"
#include "wire/value_codec.hpp"

namespace speed::wire {

namespace {

constexpr std::uint64_t tag(std::uint64_t field, std::uint64_t wire_type) { return field << 3 | wire_type; }

void put_number(std::uint64_t field, std::int64_t number, Buffer& out) {
  put_varint(tag(field, 0), out);
  put_varint(static_cast<std::uint64_t>(number), out);
}

void put_bytes(std::uint64_t field, ByteView bytes, Buffer& out) {
  put_varint(tag(field, 2), out);
  put_varint(bytes.size(), out);
  out.append(bytes);
}

void put_text(std::uint64_t field, std::string_view text, Buffer& out) {
  if (!is_utf8(text)) throw WireError("BAD_MESSAGE", "field " + std::to_string(field) + ": is not UTF-8");
  put_bytes(field, view(text), out);
}

// One entry of a map: the key is field 1, the value field 2 of a record of its own.
void put_pair(std::uint64_t field, std::string_view key, ByteView value, Buffer& out) {
  Buffer pair;
  put_text(1, key, pair);
  put_bytes(2, value, pair);
  put_bytes(field, pair.view(), out);
}

void put_metadata(std::string_view media_type, const MessageFields& fields, Buffer& out) {
  check_metadata({fields.message_id, fields.topic, fields.name_space, fields.published_at_ms,
                  fields.priority.value_or(0), fields.ttl_seconds.value_or(0), content_type_custom, media_type, 0, {}});
  Buffer metadata;
  metadata.reserve(256);
  put_text(1, fields.message_id, metadata);
  put_text(2, fields.topic, metadata);
  put_text(3, fields.name_space, metadata);
  put_number(4, fields.published_at_ms, metadata);
  put_number(5, content_type_custom, metadata);
  if (fields.priority) put_number(6, *fields.priority, metadata);
  if (fields.ttl_seconds) put_number(7, *fields.ttl_seconds, metadata);
  if (fields.correlation_id) put_text(9, *fields.correlation_id, metadata);
  if (fields.causality_parent) put_text(10, *fields.causality_parent, metadata);
  put_text(11, media_type, metadata);
  put_bytes(1, metadata.view(), out);
}

void put_security(const MessageFields& fields, Buffer& out) {
  if (!fields.publisher_id) return;
  Buffer security;
  put_text(1, *fields.publisher_id, security);
  put_bytes(2, security.view(), out);
}

void put_observability(const MessageFields& fields, Buffer& out) {
  if (!fields.traceparent && fields.labels.empty() && fields.baggage.empty()) return;
  Buffer context;
  if (fields.traceparent) {
    const auto trace = parse_traceparent(*fields.traceparent);
    if (!trace) throw WireError("BAD_MESSAGE", "traceparent: is not valid");
    put_text(1, trace->trace_id, context);
    put_text(2, trace->span_id, context);
    put_number(4, trace->flags, context);
  }
  for (const auto& [key, item] : fields.baggage) put_pair(5, key, view(item), context);
  for (const auto& [key, label] : fields.labels) put_pair(6, key, view(label), context);
  put_bytes(3, context.view(), out);
}

std::size_t varint_bytes(std::uint64_t value) {
  std::size_t size = 1;
  for (; value > 0x7f; value >>= 7) ++size;
  return size;
}

// The payload is a google.protobuf.Any of which only the value is written; it stands last.
void put_payload(ByteView content, Buffer& out) {
  put_varint(tag(99, 2), out);
  put_varint(1 + varint_bytes(content.size()) + content.size(), out);
  put_bytes(2, content, out);
}

}  // namespace

void encode_message(const Value& payload, const MessageFields& fields, Buffer& out) {
  put_metadata(media_type_of(payload), fields, out);
  put_security(fields, out);
  put_observability(fields, out);
  for (const auto& [key, bytes] : fields.extensions) put_pair(97, key, bytes, out);
  // The payload's length stands before it, so it is written aside first, unless it is bytes already.
  if (const auto* const bytes = payload.get_if<Bytes>()) return put_payload(*bytes, out);
  Buffer packed;
  encode_content(payload, packed);
  put_payload(packed.view(), out);
}

std::string new_message_id(std::uint64_t unix_ms, const Block<10>& random) {
  Block<16> id;
  Block<8> time;
  store(time.data(), unix_ms);
  std::copy_n(time.begin() + 2, 6, id.begin());
  std::copy(random.begin(), random.end(), id.begin() + 6);
  id[6] = (id[6] & std::byte{0x0f}) | std::byte{0x70};
  id[8] = (id[8] & std::byte{0x3f}) | std::byte{0x80};
  std::string text = to_hex(id);
  for (const std::size_t at : {20U, 16U, 12U, 8U}) text.insert(at, 1, '-');
  return text;
}

}  // namespace speed::wire
