// Ids of messages (M-13).
#include <sodium.h>

#include "speed/error.hpp"
#include "wire/message/content.hpp"
#include "wire/message/fields.hpp"
#include "wire/message/message.hpp"
#include "wire/message/message_head.hpp"
#include "wire/message/traceparent.hpp"
#include "wire/value/bytes.hpp"
#include "wire/value/records.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::wire {

namespace {

constexpr std::size_t number_bytes = 6;

std::string uuid(Block<16> id, std::byte version) {
  id[6] = (id[6] & std::byte{0x0f}) | version;
  id[8] = (id[8] & std::byte{0x3f}) | std::byte{0x80};
  const std::string hex = to_hex(id);
  std::string text;
  text.reserve(36);
  for (const auto& [from, size] : {std::pair{0, 8}, {8, 4}, {12, 4}, {16, 4}, {20, 12}}) {
    if (from > 0) text += '-';
    text.append(hex, static_cast<std::size_t>(from), static_cast<std::size_t>(size));
  }
  return text;
}

void put_number(std::uint64_t number, std::byte* to) {
  Block<8> bytes;
  store(bytes.data(), number);
  std::copy_n(bytes.begin() + 2, number_bytes, to);
}

Block<crypto_hash_sha256_BYTES> hash_of(const std::vector<std::string>& names) {
  Buffer text;
  for (const std::string& name : names) {
    put_varint(name.size(), text);
    text.append(view(name));
  }
  Block<crypto_hash_sha256_BYTES> digest;
  crypto_hash_sha256(raw(std::span<std::byte>(digest)), raw(text.view()), text.view().size());
  return digest;
}

}  // namespace

std::string new_message_id(std::uint64_t unix_ms, const Block<10>& random) {
  Block<16> id;
  put_number(unix_ms, id.data());
  std::copy(random.begin(), random.end(), id.begin() + number_bytes);
  return uuid(id, std::byte{0x70});
}

std::string repeated_message_id(const std::vector<std::string>& names, std::uint64_t number) {
  if (number >> 48 != 0) throw WireError("BAD_MESSAGE", "message_id: a work makes at most 2^48 messages");
  const auto digest = hash_of(names);
  Block<16> id;
  std::copy_n(digest.begin(), id.size() - number_bytes, id.begin());
  put_number(number, id.data() + id.size() - number_bytes);
  return uuid(id, std::byte{0x80});
}

// Messages are written record by record: the head is small, and no object need be built for it (M-2).

namespace {

// A record's length stands before it: each is written twice, first for its size alone.
struct Counter {
  std::size_t size = 0;

  void number(std::uint32_t tag, std::int64_t number) {
    size += varint_bytes(tag) + varint_bytes(static_cast<std::uint64_t>(number));
  }
  void bytes(std::uint32_t tag, ByteView bytes) {
    size += varint_bytes(tag) + varint_bytes(bytes.size()) + bytes.size();
  }
  void text(std::uint32_t tag, std::string_view text) {
    if (!is_utf8(text)) throw WireError("BAD_MESSAGE", "field " + std::to_string(tag >> 3) + ": is not UTF-8");
    bytes(tag, view(text));
  }
  template <class Fill>
  void record(std::uint32_t tag, Fill fill) {
    Counter inner;
    fill(inner);
    size += varint_bytes(tag) + varint_bytes(inner.size) + inner.size;
  }
};

struct Writer {
  Buffer& out;

  void number(std::uint32_t tag, std::int64_t number) {
    put_varint(tag, out);
    put_varint(static_cast<std::uint64_t>(number), out);
  }
  void bytes(std::uint32_t tag, ByteView bytes) {
    put_varint(tag, out);
    put_varint(bytes.size(), out);
    out.append(bytes);
  }
  void text(std::uint32_t tag, std::string_view text) { bytes(tag, view(text)); }
  // A message inside of the message: what `fill` gives to a sink, behind its length.
  template <class Fill>
  void record(std::uint32_t tag, Fill fill) {
    Counter inner;
    fill(inner);
    put_varint(tag, out);
    put_varint(inner.size, out);
    out.reserve(out.size() + inner.size);
    fill(*this);
  }
};

// One entry of a map, a record of its own.
auto bytes_pair(std::string_view key, ByteView value) {
  return [=](auto& sink) {
    sink.text(proto::map_entry::key, key);
    sink.bytes(proto::map_entry::value, value);
  };
}

auto text_pair(std::string_view key, std::string_view value) {
  return [=](auto& sink) {
    sink.text(proto::map_entry::key, key);
    sink.text(proto::map_entry::value, value);
  };
}

void put_metadata(std::string_view media_type, const MessageFields& fields, Writer& out) {
  namespace field = proto::message_metadata;
  check_metadata({fields.message_id,
                  fields.topic,
                  fields.name_space,
                  fields.published_at_ms,
                  fields.priority.value_or(0),
                  fields.ttl_seconds.value_or(0),
                  proto::content_type::custom,
                  media_type,
                  fields.content_encoding,
                  {}});
  out.record(proto::message_envelope::metadata, [&](auto& sink) {
    sink.text(field::message_id, fields.message_id);
    sink.text(field::topic, fields.topic);
    sink.text(field::name_space, fields.name_space);
    sink.number(field::published_at_ms, fields.published_at_ms);
    sink.number(field::content_type, proto::content_type::custom);
    if (fields.priority) sink.number(field::priority, *fields.priority);
    if (fields.ttl_seconds) sink.number(field::ttl_seconds, *fields.ttl_seconds);
    if (fields.content_encoding != 0) sink.number(field::content_encoding, fields.content_encoding);
    if (fields.correlation_id) sink.text(field::correlation_id, *fields.correlation_id);
    if (fields.causality_parent) sink.text(field::causality_parent, *fields.causality_parent);
    sink.text(field::content_type_custom, media_type);
    if (fields.content_encoding != 0) sink.number(field::uncompressed_bytes, fields.uncompressed_bytes);
  });
}

auto recipient(const EncryptionFields::Recipient& one) {
  namespace field = proto::encryption_recipient;
  return [&](auto& sink) {
    sink.text(field::key_id, one.key_id);
    sink.bytes(field::encapsulated_key, one.encapsulated_key);
    sink.bytes(field::wrapped_key, one.wrapped_key);
  };
}

auto encryption_of(const EncryptionFields& encryption) {
  namespace field = proto::encryption_metadata;
  return [&](auto& sink) {
    if (!encryption.key_id.empty()) sink.text(field::key_id, encryption.key_id);
    sink.number(field::encryption_type, encryption.type);
    sink.text(field::algorithm, encryption.algorithm);
    if (!encryption.iv.empty()) sink.bytes(field::iv, encryption.iv);
    if (!encryption.aad.empty()) sink.bytes(field::aad, encryption.aad);
    for (const auto& one : encryption.recipients) sink.record(field::recipients, recipient(one));
  };
}

bool says_security(const MessageFields& fields) {
  return fields.publisher_id || fields.publisher_team || !fields.signature_key_id.empty() || fields.encryption ||
         fields.contains_pii || !fields.data_classification.empty();
}

// Signature and token are no fields of a writer.
void put_security(const MessageFields& fields, Writer& out) {
  namespace field = proto::security_context;
  if (!says_security(fields)) return;
  out.record(proto::message_envelope::security, [&](auto& sink) {
    if (fields.publisher_id) sink.text(field::publisher_id, *fields.publisher_id);
    if (fields.publisher_team) sink.text(field::publisher_team, *fields.publisher_team);
    if (!fields.signature_algorithm.empty()) sink.text(field::signature_algorithm, fields.signature_algorithm);
    if (fields.encryption) sink.record(field::encryption, encryption_of(*fields.encryption));
    if (fields.contains_pii) sink.number(field::contains_pii, 1);
    if (!fields.data_classification.empty()) sink.text(field::data_classification, fields.data_classification);
    if (!fields.signature_key_id.empty()) sink.text(field::signature_key_id, fields.signature_key_id);
  });
}

void put_observability(const MessageFields& fields, Writer& out) {
  namespace field = proto::observability_context;
  if (!fields.traceparent && fields.labels.empty() && fields.baggage.empty()) return;
  std::optional<TraceParent> trace;
  if (fields.traceparent) {
    trace = parse_traceparent(*fields.traceparent);
    if (!trace) throw WireError("BAD_MESSAGE", "traceparent: is not 00-<32 hex>-<16 hex>-<2 hex> in lower case");
  }
  const auto put_pairs = [&](std::uint32_t tag, const std::map<std::string, std::string>& pairs, auto& sink) {
    for (const auto& [key, value] : pairs) sink.record(tag, text_pair(key, value));
  };
  out.record(proto::message_envelope::observability, [&](auto& sink) {
    if (trace) {
      sink.text(field::trace_id, trace->trace_id);
      sink.text(field::span_id, trace->span_id);
      sink.number(field::trace_flags, trace->flags);
    }
    put_pairs(field::baggage, fields.baggage, sink);
    put_pairs(field::labels, fields.labels, sink);
  });
}

void put_schema(const SchemaFields& schema, Writer& out) {
  namespace field = proto::schema_context;
  out.record(proto::message_envelope::schema, [&](auto& sink) {
    const auto put = [&](std::uint32_t tag, const std::string& text) {
      if (!text.empty()) sink.text(tag, text);
    };
    put(field::schema_url, schema.url);
    put(field::schema_version, schema.version);
    put(field::schema_format, schema.format);
    put(field::schema_hash, schema.hash);
    put(field::schema_name, schema.name);
    put(field::compatibility_mode, schema.compatibility_mode);
    for (const std::string& name : schema.deprecated_fields_used) sink.text(field::deprecated_fields_used, name);
  });
}

void put_head(std::string_view media_type, const MessageFields& fields, Writer& out) {
  put_metadata(media_type, fields, out);
  put_security(fields, out);
  put_observability(fields, out);
  if (fields.schema) put_schema(*fields.schema, out);
  for (const auto& [key, bytes] : fields.extensions)
    out.record(proto::message_envelope::extensions, bytes_pair(key, bytes));
}

// The payload is a google.protobuf.Any of which only the value is written; it stands last.
void put_payload(ByteView content, Writer& out) {
  out.record(proto::message_envelope::payload, [&](auto& sink) { sink.bytes(proto::protobuf_any::value, content); });
}

}  // namespace

void encode_message(const Value& payload, const MessageFields& fields, Buffer& out) {
  Writer writer{out};
  put_head(media_type_of(payload), fields, writer);
  // The payload's length stands before it, so it is written aside first, unless it is bytes already.
  if (const auto bytes = bytes_in(payload)) return put_payload(*bytes, writer);
  Buffer packed;
  encode_content(payload, packed);
  put_payload(packed.view(), writer);
}

void encode_message(std::string_view media_type, ByteView content, const MessageFields& fields, Buffer& out) {
  Writer writer{out};
  put_head(media_type, fields, writer);
  put_payload(content, writer);
}

void encode_front(std::uint64_t payload_bytes, const MessageFields& fields, Buffer& out) {
  Writer writer{out};
  put_head(media_type_of(Value(Bytes())), fields, writer);
  const std::uint64_t any_bytes =
      varint_bytes(proto::protobuf_any::value) + varint_bytes(payload_bytes) + payload_bytes;
  put_varint(proto::message_envelope::payload, out);
  put_varint(any_bytes, out);
  put_varint(proto::protobuf_any::value, out);
  put_varint(payload_bytes, out);
}

}  // namespace speed::wire
