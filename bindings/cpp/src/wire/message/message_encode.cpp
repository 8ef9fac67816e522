// Ids of messages (M-13).
#include <sodium.h>

#include "speed/error.hpp"
#include "wire/message/content.hpp"
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

constexpr std::uint64_t tag(std::uint64_t field, std::uint64_t wire_type) { return field << 3 | wire_type; }

// A record's length stands before it: each is written twice, first for its size alone.
struct Counter {
  std::size_t size = 0;

  void number(std::uint64_t field, std::int64_t number) {
    size += varint_bytes(tag(field, 0)) + varint_bytes(static_cast<std::uint64_t>(number));
  }
  void bytes(std::uint64_t field, ByteView bytes) {
    size += varint_bytes(tag(field, 2)) + varint_bytes(bytes.size()) + bytes.size();
  }
  void text(std::uint64_t field, std::string_view text) {
    if (!is_utf8(text)) throw WireError("BAD_MESSAGE", "field " + std::to_string(field) + ": is not UTF-8");
    bytes(field, view(text));
  }
  template <class Fill>
  void record(std::uint64_t field, Fill fill) {
    Counter inner;
    fill(inner);
    size += varint_bytes(tag(field, 2)) + varint_bytes(inner.size) + inner.size;
  }
};

struct Writer {
  Buffer& out;

  void number(std::uint64_t field, std::int64_t number) {
    put_varint(tag(field, 0), out);
    put_varint(static_cast<std::uint64_t>(number), out);
  }
  void bytes(std::uint64_t field, ByteView bytes) {
    put_varint(tag(field, 2), out);
    put_varint(bytes.size(), out);
    out.append(bytes);
  }
  void text(std::uint64_t field, std::string_view text) { bytes(field, view(text)); }
  // A message inside of the message: what `fill` gives to a sink, behind its length.
  template <class Fill>
  void record(std::uint64_t field, Fill fill) {
    Counter inner;
    fill(inner);
    put_varint(tag(field, 2), out);
    put_varint(inner.size, out);
    out.reserve(out.size() + inner.size);
    fill(*this);
  }
};

// One entry of a map: the key is field 1, the value field 2 of a record of its own.
auto bytes_pair(std::string_view key, ByteView value) {
  return [=](auto& sink) {
    sink.text(1, key);
    sink.bytes(2, value);
  };
}

auto text_pair(std::string_view key, std::string_view value) {
  return [=](auto& sink) {
    sink.text(1, key);
    sink.text(2, value);
  };
}

void put_metadata(std::string_view media_type, const MessageFields& fields, Writer& out) {
  check_metadata({fields.message_id,
                  fields.topic,
                  fields.name_space,
                  fields.published_at_ms,
                  fields.priority.value_or(0),
                  fields.ttl_seconds.value_or(0),
                  content_type_custom,
                  media_type,
                  fields.content_encoding,
                  {}});
  out.record(1, [&](auto& sink) {
    sink.text(1, fields.message_id);
    sink.text(2, fields.topic);
    sink.text(3, fields.name_space);
    sink.number(4, fields.published_at_ms);
    sink.number(5, content_type_custom);
    if (fields.priority) sink.number(6, *fields.priority);
    if (fields.ttl_seconds) sink.number(7, *fields.ttl_seconds);
    if (fields.content_encoding != 0) sink.number(8, fields.content_encoding);
    if (fields.correlation_id) sink.text(9, *fields.correlation_id);
    if (fields.causality_parent) sink.text(10, *fields.causality_parent);
    sink.text(11, media_type);
    if (fields.content_encoding != 0) sink.number(13, fields.uncompressed_bytes);
  });
}

auto recipient(const EncryptionFields::Recipient& one) {
  return [&](auto& sink) {
    sink.text(1, one.key_id);
    sink.bytes(2, one.encapsulated_key);
    sink.bytes(3, one.wrapped_key);
  };
}

auto encryption_of(const EncryptionFields& encryption) {
  return [&](auto& sink) {
    if (!encryption.key_id.empty()) sink.text(1, encryption.key_id);
    sink.number(2, encryption.type);
    sink.text(3, encryption.algorithm);
    if (!encryption.iv.empty()) sink.bytes(5, encryption.iv);
    if (!encryption.aad.empty()) sink.bytes(6, encryption.aad);
    for (const auto& one : encryption.recipients) sink.record(9, recipient(one));
  };
}

bool says_security(const MessageFields& fields) {
  return fields.publisher_id || fields.publisher_team || !fields.signature_key_id.empty() || fields.encryption ||
         fields.contains_pii || !fields.data_classification.empty();
}

// Signature and token are no fields of a writer.
void put_security(const MessageFields& fields, Writer& out) {
  if (!says_security(fields)) return;
  out.record(2, [&](auto& sink) {
    if (fields.publisher_id) sink.text(1, *fields.publisher_id);
    if (fields.publisher_team) sink.text(2, *fields.publisher_team);
    if (!fields.signature_algorithm.empty()) sink.text(5, fields.signature_algorithm);
    if (fields.encryption) sink.record(6, encryption_of(*fields.encryption));
    if (fields.contains_pii) sink.number(7, 1);
    if (!fields.data_classification.empty()) sink.text(8, fields.data_classification);
    if (!fields.signature_key_id.empty()) sink.text(9, fields.signature_key_id);
  });
}

void put_observability(const MessageFields& fields, Writer& out) {
  if (!fields.traceparent && fields.labels.empty() && fields.baggage.empty()) return;
  std::optional<TraceParent> trace;
  if (fields.traceparent) {
    trace = parse_traceparent(*fields.traceparent);
    if (!trace) throw WireError("BAD_MESSAGE", "traceparent: is not 00-<32 hex>-<16 hex>-<2 hex> in lower case");
  }
  const auto put_pairs = [&](std::uint64_t field, const std::map<std::string, std::string>& pairs, auto& sink) {
    for (const auto& [key, value] : pairs) sink.record(field, text_pair(key, value));
  };
  out.record(3, [&](auto& sink) {
    if (trace) {
      sink.text(1, trace->trace_id);
      sink.text(2, trace->span_id);
      sink.number(4, trace->flags);
    }
    put_pairs(5, fields.baggage, sink);
    put_pairs(6, fields.labels, sink);
  });
}

void put_schema(const SchemaFields& schema, Writer& out) {
  out.record(4, [&](auto& sink) {
    const auto put = [&](std::uint64_t field, const std::string& text) {
      if (!text.empty()) sink.text(field, text);
    };
    put(1, schema.url);
    put(2, schema.version);
    put(3, schema.format);
    put(4, schema.hash);
    put(5, schema.name);
    put(6, schema.compatibility_mode);
    for (const std::string& name : schema.deprecated_fields_used) sink.text(7, name);
  });
}

void put_head(std::string_view media_type, const MessageFields& fields, Writer& out) {
  put_metadata(media_type, fields, out);
  put_security(fields, out);
  put_observability(fields, out);
  if (fields.schema) put_schema(*fields.schema, out);
  for (const auto& [key, bytes] : fields.extensions) out.record(97, bytes_pair(key, bytes));
}

// The payload is a google.protobuf.Any of which only the value is written; it stands last.
void put_payload(ByteView content, Writer& out) {
  out.record(99, [&](auto& sink) { sink.bytes(2, content); });
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
  const std::uint64_t any_bytes = varint_bytes(tag(2, 2)) + varint_bytes(payload_bytes) + payload_bytes;
  put_varint(tag(99, 2), out);
  put_varint(any_bytes, out);
  put_varint(tag(2, 2), out);
  put_varint(payload_bytes, out);
}

}  // namespace speed::wire
