#include "wire/message/message_head.hpp"

#include "speed/error.hpp"
#include "wire/limits.hpp"
#include "wire/message/fields.hpp"
#include "wire/names/names.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::wire {

namespace {

constexpr std::int64_t max_priority = 10;

void check(bool good, const char* field, const char* why) {
  if (!good) throw WireError("BAD_MESSAGE", std::string(field) + ": " + why);
}

void check_text(std::string_view text, std::size_t most, const char* field) {
  check(!text.empty(), field, "is required and not empty");
  check(text.size() <= most, field, "is too long");
}

}  // namespace

void check_metadata(const Metadata& metadata) {
  check_text(metadata.message_id, limits::max_message_id_bytes, "message_id");
  check_text(metadata.topic, limits::max_topic_bytes, "topic");
  check(is_topic(metadata.topic), "topic", "is not dot-separated parts of letters, digits, '_' and '-'");
  check_text(metadata.name_space, limits::max_namespace_bytes, "namespace");
  check(metadata.published_at_ms > 0, "published_at_ms", "is required and greater than zero");
  check(metadata.priority >= 0 && metadata.priority <= max_priority, "priority", "is outside 0..10");
  check(metadata.ttl_seconds >= 0, "ttl_seconds", "is negative");
  check(metadata.content_type != proto::content_type::custom || !metadata.content_type_custom.empty(),
        "content_type_custom", "is required when content_type is CUSTOM");
  check(metadata.content_encoding != proto::content_encoding::custom || !metadata.content_encoding_custom.empty(),
        "content_encoding_custom", "is required when content_encoding is CUSTOM");
}

// One function for each message of message.proto; fields that nobody reads are checked all the same: what is text is
// UTF-8, and a field of another wire type is unknown, which is no error.

namespace {

std::string_view text_of(const Part& part) {
  const std::string_view content = text(part.content);
  if (!is_utf8(content)) throw WireError("BAD_MESSAGE", "records: a text is not UTF-8");
  return content;
}

// An int32 or an enum: protobuf keeps the low half.
std::int32_t narrow(const Part& part) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(part.number)); }

void read_metadata(MessageHead& head, ByteView data) {
  Metadata& metadata = head.metadata;
  head.has_metadata = true;
  namespace field = proto::message_metadata;
  Parts parts(data);
  for (Part part; parts.next(part);) {
    switch (part.tag) {
      case field::message_id: metadata.message_id = text_of(part); break;
      case field::topic: metadata.topic = text_of(part); break;
      case field::name_space: metadata.name_space = text_of(part); break;
      case field::published_at_ms: metadata.published_at_ms = static_cast<std::int64_t>(part.number); break;
      case field::content_type: metadata.content_type = narrow(part); break;
      case field::priority: metadata.priority = narrow(part); break;
      case field::ttl_seconds: metadata.ttl_seconds = static_cast<std::int64_t>(part.number); break;
      case field::content_encoding: metadata.content_encoding = narrow(part); break;
      case field::correlation_id: head.correlation_id = text_of(part); break;
      case field::causality_parent: head.causality_parent = text_of(part); break;
      case field::content_type_custom: metadata.content_type_custom = text_of(part); break;
      case field::content_encoding_custom: metadata.content_encoding_custom = text_of(part); break;
      case field::uncompressed_bytes: head.uncompressed_bytes = static_cast<std::int64_t>(part.number); break;
      default: break;
    }
  }
}

void read_recipient(Encryption& encryption, ByteView data) {
  Recipient recipient;
  namespace field = proto::encryption_recipient;
  Parts parts(data);
  for (Part part; parts.next(part);) {
    switch (part.tag) {
      case field::key_id: recipient.key_id = text_of(part); break;
      case field::encapsulated_key: recipient.encapsulated_key = part.content; break;
      case field::wrapped_key: recipient.wrapped_key = part.content; break;
      default: break;
    }
  }
  if (encryption.recipients.size() < Encryption::most_kept) encryption.recipients.push_back(recipient);
}

void read_encryption(Encryption& encryption, ByteView data) {
  namespace field = proto::encryption_metadata;
  Parts parts(data);
  for (Part part; parts.next(part);) {
    switch (part.tag) {
      case field::key_id: encryption.key_id = text_of(part); break;
      case field::encryption_type: encryption.type = narrow(part); break;
      case field::algorithm: encryption.algorithm = text_of(part); break;
      case field::iv: encryption.iv = part.content; break;
      case field::aad: encryption.aad = part.content; break;
      case field::public_key_id:
      case field::algorithm_params: text_of(part); break;
      case field::recipients: read_recipient(encryption, part.content); break;
      default: break;
    }
  }
}

void read_security(Security& security, ByteView data) {
  namespace field = proto::security_context;
  Parts parts(data);
  for (Part part; parts.next(part);) {
    switch (part.tag) {
      case field::publisher_id: security.publisher_id = text_of(part); break;
      case field::publisher_team: security.publisher_team = text_of(part); break;
      case field::auth_token: text_of(part); break;  // a token, which only a gateway reads
      case field::signature:
        security.signature = part.content;
        ++security.signatures;
        break;
      case field::signature_algorithm: security.signature_algorithm = text_of(part); break;
      case field::encryption:
        if (!security.encryption) security.encryption.emplace();
        read_encryption(*security.encryption, part.content);
        break;
      case field::contains_pii: security.contains_pii = part.number != 0; break;
      case field::data_classification: security.data_classification = text_of(part); break;
      case field::signature_key_id: security.signature_key_id = text_of(part); break;
      default: break;
    }
  }
}

// One pair of a map.
std::pair<std::string_view, ByteView> read_pair(ByteView data, bool is_text) {
  std::pair<std::string_view, ByteView> pair;
  Parts parts(data);
  for (Part part; parts.next(part);) {
    if (part.tag == proto::map_entry::key) pair.first = text_of(part);
    if (part.tag != proto::map_entry::value) continue;
    if (is_text) text_of(part);
    pair.second = part.content;
  }
  return pair;
}

void read_observability(MessageHead& head, ByteView data) {
  namespace field = proto::observability_context;
  Parts parts(data);
  for (Part part; parts.next(part);) {
    switch (part.tag) {
      case field::trace_id: head.trace_id = text_of(part); break;
      case field::span_id: head.span_id = text_of(part); break;
      case field::parent_span_id: text_of(part); break;
      case field::trace_flags: head.trace_flags = narrow(part); break;
      case field::baggage: head.baggage.push_back(read_pair(part.content, true)); break;
      case field::labels: head.labels.push_back(read_pair(part.content, true)); break;
      default: break;
    }
  }
}

void read_schema(Schema& schema, ByteView data) {
  namespace field = proto::schema_context;
  Parts parts(data);
  for (Part part; parts.next(part);) {
    switch (part.tag) {
      case field::schema_url: schema.url = text_of(part); break;
      case field::schema_version: schema.version = text_of(part); break;
      case field::schema_format: schema.format = text_of(part); break;
      case field::schema_hash: schema.hash = text_of(part); break;
      case field::schema_name: schema.name = text_of(part); break;
      case field::compatibility_mode: schema.compatibility_mode = text_of(part); break;
      case field::deprecated_fields_used: text_of(part); break;
      default: break;
    }
  }
}

}  // namespace

void MessageHead::read(const Record& record, ByteView data) {
  namespace field = proto::message_envelope;
  const ByteView content = data.subspan(record.value, record.end - record.value);
  switch (record.tag) {
    case field::metadata: return read_metadata(*this, content);
    case field::security: return read_security(security, content);
    case field::observability: return read_observability(*this, content);
    case field::schema: return read_schema(schema, content);
    case field::extensions: extensions.push_back(read_pair(content, false)); return;
    default: return;
  }
}

}  // namespace speed::wire
