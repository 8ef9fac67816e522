#include "wire/message/message_head.hpp"

#include "speed/error.hpp"
#include "wire/message/content.hpp"
#include "wire/names/names.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::wire {

namespace {

constexpr std::size_t max_id_bytes = 128;
constexpr std::size_t max_namespace_bytes = 128;
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
  check_text(metadata.message_id, max_id_bytes, "message_id");
  check_text(metadata.topic, limits::max_topic_bytes, "topic");
  check(is_topic(metadata.topic), "topic", "is not dot-separated parts of letters, digits, '_' and '-'");
  check_text(metadata.name_space, max_namespace_bytes, "namespace");
  check(metadata.published_at_ms > 0, "published_at_ms", "is required and greater than zero");
  check(metadata.priority >= 0 && metadata.priority <= max_priority, "priority", "is outside 0..10");
  check(metadata.ttl_seconds >= 0, "ttl_seconds", "is negative");
  check(metadata.content_type != content_type_custom || !metadata.content_type_custom.empty(), "content_type_custom",
        "is required when content_type is CUSTOM");
  check(metadata.content_encoding != content_type_custom || !metadata.content_encoding_custom.empty(),
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
  Parts parts(data);
  for (Part part; parts.next(part);) {
    switch (part.tag) {
      case text_tag(1): metadata.message_id = text_of(part); break;
      case text_tag(2): metadata.topic = text_of(part); break;
      case text_tag(3): metadata.name_space = text_of(part); break;
      case number_tag(4): metadata.published_at_ms = static_cast<std::int64_t>(part.number); break;
      case number_tag(5): metadata.content_type = narrow(part); break;
      case number_tag(6): metadata.priority = narrow(part); break;
      case number_tag(7): metadata.ttl_seconds = static_cast<std::int64_t>(part.number); break;
      case number_tag(8): metadata.content_encoding = narrow(part); break;
      case text_tag(9): head.correlation_id = text_of(part); break;
      case text_tag(10): head.causality_parent = text_of(part); break;
      case text_tag(11): metadata.content_type_custom = text_of(part); break;
      case text_tag(12): metadata.content_encoding_custom = text_of(part); break;
      case number_tag(13): head.uncompressed_bytes = static_cast<std::int64_t>(part.number); break;
      default: break;
    }
  }
}

void read_recipient(Encryption& encryption, ByteView data) {
  Recipient recipient;
  Parts parts(data);
  for (Part part; parts.next(part);) {
    switch (part.tag) {
      case text_tag(1): recipient.key_id = text_of(part); break;
      case text_tag(2): recipient.encapsulated_key = part.content; break;
      case text_tag(3): recipient.wrapped_key = part.content; break;
      default: break;
    }
  }
  if (encryption.recipients.size() < Encryption::most_kept) encryption.recipients.push_back(recipient);
}

void read_encryption(Encryption& encryption, ByteView data) {
  Parts parts(data);
  for (Part part; parts.next(part);) {
    switch (part.tag) {
      case text_tag(1): encryption.key_id = text_of(part); break;
      case number_tag(2): encryption.type = narrow(part); break;
      case text_tag(3): encryption.algorithm = text_of(part); break;
      case text_tag(5): encryption.iv = part.content; break;
      case text_tag(6): encryption.aad = part.content; break;
      case text_tag(4):
      case text_tag(8): text_of(part); break;
      case text_tag(9): read_recipient(encryption, part.content); break;
      default: break;
    }
  }
}

void read_security(Security& security, ByteView data) {
  Parts parts(data);
  for (Part part; parts.next(part);) {
    switch (part.tag) {
      case text_tag(1): security.publisher_id = text_of(part); break;
      case text_tag(2): security.publisher_team = text_of(part); break;
      case text_tag(3): text_of(part); break;  // a token, which only a gateway reads
      case text_tag(4):
        security.signature = part.content;
        ++security.signatures;
        break;
      case text_tag(5): security.signature_algorithm = text_of(part); break;
      case text_tag(6):
        if (!security.encryption) security.encryption.emplace();
        read_encryption(*security.encryption, part.content);
        break;
      case number_tag(7): security.contains_pii = part.number != 0; break;
      case text_tag(8): security.data_classification = text_of(part); break;
      case text_tag(9): security.signature_key_id = text_of(part); break;
      default: break;
    }
  }
}

// One pair of a map: the key is field 1, the value field 2.
std::pair<std::string_view, ByteView> read_pair(ByteView data, bool is_text) {
  std::pair<std::string_view, ByteView> pair;
  Parts parts(data);
  for (Part part; parts.next(part);) {
    if (part.tag == text_tag(1)) pair.first = text_of(part);
    if (part.tag != text_tag(2)) continue;
    if (is_text) text_of(part);
    pair.second = part.content;
  }
  return pair;
}

void read_observability(MessageHead& head, ByteView data) {
  Parts parts(data);
  for (Part part; parts.next(part);) {
    switch (part.tag) {
      case text_tag(1): head.trace_id = text_of(part); break;
      case text_tag(2): head.span_id = text_of(part); break;
      case text_tag(3): text_of(part); break;
      case number_tag(4): head.trace_flags = narrow(part); break;
      case text_tag(5): head.baggage.push_back(read_pair(part.content, true)); break;
      case text_tag(6): head.labels.push_back(read_pair(part.content, true)); break;
      default: break;
    }
  }
}

void read_schema(Schema& schema, ByteView data) {
  Parts parts(data);
  for (Part part; parts.next(part);) {
    switch (part.tag) {
      case text_tag(1): schema.url = text_of(part); break;
      case text_tag(2): schema.version = text_of(part); break;
      case text_tag(3): schema.format = text_of(part); break;
      case text_tag(4): schema.hash = text_of(part); break;
      case text_tag(5): schema.name = text_of(part); break;
      case text_tag(6): schema.compatibility_mode = text_of(part); break;
      case text_tag(7): text_of(part); break;
      default: break;
    }
  }
}

}  // namespace

void MessageHead::read(const Record& record, ByteView data) {
  if (!record.is_bytes()) return;
  const ByteView content = data.subspan(record.value, record.end - record.value);
  switch (record.field) {
    case 1: return read_metadata(*this, content);
    case 2: return read_security(security, content);
    case 3: return read_observability(*this, content);
    case 4: return read_schema(schema, content);
    case 97: extensions.push_back(read_pair(content, false)); return;
    default: return;
  }
}

}  // namespace speed::wire
