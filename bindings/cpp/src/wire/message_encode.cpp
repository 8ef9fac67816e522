#include "speed/error.hpp"
#include "wire/content.hpp"
#include "wire/message.hpp"
#include "wire/message_rules.hpp"
#include "wire/records.hpp"
#include "wire/traceparent.hpp"

namespace speed::wire {

namespace {

namespace proto = message::v1;

constexpr std::uint64_t payload_tag = 99U << 3 | 2;
constexpr std::uint64_t value_tag = 2U << 3 | 2;
constexpr std::size_t max_frame_bytes = 32;

void set_metadata(const Value& payload, const MessageFields& fields, proto::MessageMetadata& metadata) {
  metadata.set_message_id(fields.message_id);
  metadata.set_topic(fields.topic);
  metadata.set_namespace_(fields.name_space);
  metadata.set_published_at_ms(fields.published_at_ms);
  metadata.set_content_type(proto::CONTENT_TYPE_CUSTOM);
  metadata.set_content_type_custom(std::string(media_type_of(payload)));
  if (fields.priority) metadata.set_priority(*fields.priority);
  if (fields.ttl_seconds) metadata.set_ttl_seconds(*fields.ttl_seconds);
  if (fields.correlation_id) metadata.set_correlation_id(*fields.correlation_id);
  if (fields.causality_parent) metadata.set_causality_parent(*fields.causality_parent);
}

void set_contexts(const MessageFields& fields, proto::MessageEnvelope& head) {
  if (fields.publisher_id) head.mutable_security()->set_publisher_id(*fields.publisher_id);
  if (fields.traceparent) {
    const auto trace = parse_traceparent(*fields.traceparent);
    if (!trace) throw WireError("BAD_MESSAGE", "traceparent: is not valid");
    auto& context = *head.mutable_observability();
    context.set_trace_id(trace->trace_id);
    context.set_span_id(trace->span_id);
    context.set_trace_flags(static_cast<int>(trace->flags));
  }
  for (const auto& [key, label] : fields.labels) (*head.mutable_observability()->mutable_labels())[key] = label;
  for (const auto& [key, item] : fields.baggage) (*head.mutable_observability()->mutable_baggage())[key] = item;
  for (const auto& [key, bytes] : fields.extensions) {
    (*head.mutable_extensions())[key] = std::string(text(ByteView(bytes)));
  }
}

std::size_t varint_bytes(std::uint64_t value) {
  std::size_t size = 1;
  for (; value > 0x7f; value >>= 7) ++size;
  return size;
}

}  // namespace

void encode_message(const Value& payload, const MessageFields& fields, Buffer& out) {
  proto::MessageEnvelope head;
  set_metadata(payload, fields, *head.mutable_metadata());
  check_metadata(head.metadata());
  set_contexts(fields, head);

  // The payload's own length stands before it, so it is written aside first, unless it is known.
  Buffer packed;
  const auto* const bytes = payload.get_if<Bytes>();
  if (bytes == nullptr) encode_content(payload, packed);
  const ByteView content = bytes == nullptr ? packed.view() : ByteView(*bytes);

  const std::size_t head_bytes = head.ByteSizeLong();
  out.reserve(out.size() + head_bytes + content.size() + max_frame_bytes);
  if (!head.SerializeToArray(out.extend(head_bytes).data(), static_cast<int>(head_bytes))) {
    throw WireError("BAD_MESSAGE", "records: the metadata cannot be written");
  }
  put_varint(payload_tag, out);
  put_varint(1 + varint_bytes(content.size()) + content.size(), out);
  put_varint(value_tag, out);
  put_varint(content.size(), out);
  out.append(content);
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
