#include "wire/message/message_parts.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "speed/error.hpp"
#include "wire/limits.hpp"
#include "wire/message/fields.hpp"
#include "wire/names/harmless.hpp"
#include "wire/value/records.hpp"

namespace speed::wire {

namespace {

// As writers write them: M-2 asks for these very bytes, not for the numbers that they stand for.
template <std::uint32_t tag>
constexpr auto written() {
  std::array<std::byte, varint_bytes(tag)> bytes{};
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] = static_cast<std::byte>((tag >> (7 * at) & 0x7f) | (at + 1 < bytes.size() ? 0x80 : 0));
  }
  return bytes;
}

constexpr auto payload_tag = written<proto::message_envelope::payload>();
constexpr auto url_tag = written<proto::protobuf_any::type_url>();
constexpr auto value_tag = written<proto::protobuf_any::value>();

[[noreturn]] void refuse() { throw WireError("BAD_MESSAGE", "payload: is not the last record, or begins too late"); }

// Tags and lengths from the front of bytes that end before the message does.
class Cursor {
 public:
  Cursor(ByteView data, std::size_t at, std::size_t total) : data_(data), at_(at), total_(total) {}

  bool takes(ByteView tag) {
    const ByteView rest = data_.subspan(at_);
    if (rest.size() < tag.size() || !std::ranges::equal(rest.first(tag.size()), tag)) return false;
    at_ += tag.size();
    return true;
  }
  std::size_t number() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 35 && at_ < data_.size(); shift += 7) {
      const auto byte = std::to_integer<std::uint64_t>(data_[at_++]);
      number |= (byte & 0x7f) << shift;
      if (byte < 0x80) return number;
    }
    refuse();
  }
  void skip(std::size_t size) {
    if (size > data_.size() - at_) refuse();
    at_ += size;
  }
  void ends_behind(std::size_t size) const {  // so many bytes more, and no others
    if (size != total_ - at_) refuse();
  }
  std::size_t at() const { return at_; }

 private:
  ByteView data_;
  std::size_t at_;
  std::size_t total_;
};

// Where the payload record begins; all before it lies within `data`.
std::size_t end_of_others(ByteView data) {
  std::size_t at = 0;
  try {
    while (at < data.size()) {
      if (Cursor(data, at, data.size()).takes(payload_tag)) return at;
      at = read_record(data, at).end;
    }
  } catch (const WireError&) {
    refuse();
  }
  refuse();
}

}  // namespace

MessageFront read_front(ByteView data, std::size_t total) {
  const std::size_t others = end_of_others(data);
  Cursor cursor(data, others, total);
  if (!cursor.takes(payload_tag)) refuse();
  cursor.ends_behind(cursor.number());
  const std::size_t begin = cursor.at();
  if (cursor.takes(url_tag)) cursor.skip(cursor.number());
  const ByteView url = data.subspan(begin, cursor.at() - begin);
  if (!cursor.takes(value_tag)) refuse();
  cursor.ends_behind(cursor.number());
  Buffer head;
  head.append(data.first(others));
  head.append(payload_tag);
  put_varint(url.size() + 2, head);
  head.append(url);
  head.append(value_tag);
  put_varint(0, head);
  return {MessageView(Bytes(head.view().begin(), head.view().end())), cursor.at()};
}

namespace {

struct OutlinePart {
  std::uint32_t tag;
  const char* name;
  std::optional<std::size_t> bytes;
};

constexpr std::size_t most_records = 64;  // who writes more is not to be paid for with time

using OutlineParts = std::array<OutlinePart, 6>;

// What can be read of it, as a log may have it.
std::string message_id_of(ByteView metadata) {
  std::string_view found;
  try {
    std::size_t at = 0;
    for (std::size_t number = 0; at < metadata.size() && number < most_records; ++number) {
      const Record record = read_record(metadata, at);
      if (record.tag == proto::message_metadata::message_id)
        found = text(metadata.subspan(record.value, record.end - record.value));
      at = record.end;
    }
  } catch (const WireError&) {  // as far as it could be read
  }
  return harmless(found.substr(0, limits::max_message_id_bytes));
}

std::string shown(const OutlineParts& parts) {
  std::string all;
  for (const OutlinePart& part : parts) {
    if (!all.empty()) all += ", ";
    all += part.bytes ? std::string(part.name) + " " + std::to_string(*part.bytes) : std::string("no ") + part.name;
  }
  return all;
}

}  // namespace

std::string outline(ByteView data) {
  namespace field = proto::message_envelope;
  OutlineParts parts{{{field::metadata, "metadata", {}},
                      {field::security, "security", {}},
                      {field::observability, "observability", {}},
                      {field::schema, "schema", {}},
                      {field::extensions, "extensions", {}},
                      {field::payload, "payload", {}}}};
  std::size_t others = 0;
  std::size_t at = 0;
  std::string message_id;
  std::string more;
  try {
    for (std::size_t number = 0; at < data.size(); ++number) {
      if (number == most_records) {
        more = ", more from byte " + std::to_string(at);
        break;
      }
      const Record record = read_record(data, at);
      const auto part = std::ranges::find(parts, record.tag, &OutlinePart::tag);
      at = record.end;
      if (part == parts.end()) {
        ++others;
        continue;
      }
      part->bytes = part->bytes.value_or(0) + record.end - record.value;
      if (record.tag != field::metadata) continue;
      const std::string found = message_id_of(data.subspan(record.value, record.end - record.value));
      if (!found.empty()) message_id = found;
    }
  } catch (const WireError&) {
    more = ", nothing to be read from byte " + std::to_string(at);
  }
  if (others > 0) more = ", " + std::to_string(others) + " unknown" + more;
  return std::to_string(data.size()) + " bytes: " + shown(parts) + more +
         (message_id.empty() ? "; no message_id" : "; message_id '" + message_id + "'");
}

namespace {

constexpr std::size_t length_bytes = 8;
constexpr std::string_view domain = "speed/1 message signature";

void put_length(std::size_t length, Bytes& out) {
  out.resize(out.size() + length_bytes);
  store(out.data() + out.size() - length_bytes, std::uint64_t{length});
}

void put_record(std::uint32_t tag, ByteView value, Bytes& out) {
  Buffer head;
  put_varint(tag, head);
  put_varint(value.size(), head);
  append(out, head.view());
  append(out, value);
}

bool is_security(const Record& record) { return record.tag == proto::message_envelope::security; }

ByteView whole(const Record& record, ByteView data) { return data.subspan(record.start, record.end - record.start); }
ByteView value(const Record& record, ByteView data) { return data.subspan(record.value, record.end - record.value); }

// The records of a security context but token and signature.
Bytes covered_of(ByteView security) {
  namespace field = proto::security_context;
  Bytes covered;
  for (std::size_t at = 0; at < security.size();) {
    const Record record = read_record(security, at);
    at = record.end;
    if (record.tag != field::auth_token && record.tag != field::signature) append(covered, whole(record, security));
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
      append(record.tag == proto::message_envelope::metadata && rest.empty() ? signed_message : rest,
             whole(record, message));
    }
  }
  put_record(proto::security_context::signature, signature, security);
  put_record(proto::message_envelope::security, security, signed_message);
  append(signed_message, rest);
  return signed_message;
}

}  // namespace speed::wire
