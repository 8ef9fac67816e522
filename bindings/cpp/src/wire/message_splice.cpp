#include "wire/message_splice.hpp"

namespace speed::wire {

namespace {

constexpr std::uint32_t metadata_field = 1;
constexpr std::uint32_t security_field = 2;
constexpr std::uint32_t token_tag = text_tag(3);
constexpr std::uint32_t signature_tag = text_tag(4);
constexpr std::size_t length_bytes = 8;
constexpr std::string_view domain = "speed/1 message signature";

void put_length(std::size_t length, Bytes& out) {
  out.resize(out.size() + length_bytes);
  store(out.data() + out.size() - length_bytes, std::uint64_t{length});
}

void put_record(std::uint32_t field, ByteView value, Bytes& out) {
  Buffer head;
  put_varint(text_tag(field), head);
  put_varint(value.size(), head);
  append(out, head.view());
  append(out, value);
}

bool is_security(const Record& record) { return record.field == security_field && record.is_bytes(); }

ByteView whole(const Record& record, ByteView data) { return data.subspan(record.start, record.end - record.start); }
ByteView value(const Record& record, ByteView data) { return data.subspan(record.value, record.end - record.value); }

// The records of a security context but token and signature.
Bytes covered_of(ByteView security) {
  Bytes covered;
  for (std::size_t at = 0; at < security.size();) {
    const Record record = read_record(security, at);
    at = record.end;
    const std::uint32_t tag = record.field << 3 | record.wire_type;
    if (tag != token_tag && tag != signature_tag) append(covered, whole(record, security));
  }
  return covered;
}

}  // namespace

Bytes signing_input(ByteView message) {
  Bytes input;
  input.reserve(message.size() + 3 * length_bytes + domain.size());
  put_length(domain.size(), input);
  append(input, view(domain));
  const std::size_t length_at = input.size();
  put_length(0, input);  // known at the end
  Bytes security;
  for (std::size_t at = 0; at < message.size();) {
    const Record record = read_record(message, at);
    at = record.end;
    if (is_security(record)) {
      append(security, value(record, message));
    } else {
      append(input, whole(record, message));
    }
  }
  store(input.data() + length_at, std::uint64_t{input.size() - length_at - length_bytes});
  const Bytes covered = covered_of(security);
  put_length(covered.size(), input);
  append(input, covered);
  return input;
}

Bytes with_signature(ByteView message, ByteView signature) {
  Bytes signed_message;
  signed_message.reserve(message.size() + signature.size() + 16);
  Bytes security;
  Bytes rest;
  for (std::size_t at = 0; at < message.size();) {
    const Record record = read_record(message, at);
    at = record.end;
    if (is_security(record)) {
      append(security, value(record, message));
    } else {
      append(record.field == metadata_field && rest.empty() ? signed_message : rest, whole(record, message));
    }
  }
  put_record(signature_tag >> 3, signature, security);
  put_record(security_field, security, signed_message);
  append(signed_message, rest);
  return signed_message;
}

}  // namespace speed::wire
