#include "wire/records.hpp"

#include <algorithm>
#include <string>

#include "speed/error.hpp"

namespace speed::wire {

namespace {

constexpr std::size_t max_tag_bytes = 5;
constexpr std::size_t max_length_bytes = 5;
constexpr std::size_t max_varint_bytes = 10;

[[noreturn]] void refuse(const char* why) { throw WireError("BAD_MESSAGE", std::string("records: ") + why); }

std::uint64_t take_varint(ByteView data, std::size_t& at, std::size_t most) {
  std::uint64_t value = 0;
  for (std::size_t index = 0; index < most && at < data.size(); ++index) {
    const auto byte = std::to_integer<std::uint64_t>(data[at++]);
    value |= (byte & 0x7f) << (7 * index);
    if (byte < 0x80) return value;
  }
  refuse("a varint is cut short or too long");
}

}  // namespace

Record read_record(ByteView data, std::size_t at) {
  Record record;
  record.start = at;
  const std::uint64_t tag = take_varint(data, at, max_tag_bytes);
  record.wire_type = static_cast<unsigned>(tag & 7);
  if (tag >> 3 == 0 || tag >> 3 >= 1U << 29) refuse("a field number is out of range");
  record.field = static_cast<std::uint32_t>(tag >> 3);
  std::uint64_t size = 0;
  if (record.wire_type == 2) size = take_varint(data, at, max_length_bytes);
  record.value = at;
  if (record.wire_type == 0) {
    take_varint(data, at, max_varint_bytes);
  } else if (record.wire_type == 1) {
    size = 8;
  } else if (record.wire_type == 5) {
    size = 4;
  } else if (record.wire_type != 2) {
    refuse("a wire type is not allowed");
  }
  if (size > data.size() - at) refuse("a field is cut short");
  record.end = at + static_cast<std::size_t>(size);
  return record;
}

void check_nested(ByteView message, std::span<const Part> parts) {
  for (std::size_t at = 0; at < message.size();) {
    const Record record = read_record(message, at);
    at = record.end;
    const auto part = std::ranges::find(parts, record.field, &Part::field);
    if (!record.is_bytes() || part == parts.end()) continue;
    check_nested(message.subspan(record.value, record.end - record.value), part->parts);
  }
}

void put_varint(std::uint64_t value, Buffer& out) {
  while (value > 0x7f) {
    out.extend(1)[0] = static_cast<std::byte>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  out.extend(1)[0] = static_cast<std::byte>(value);
}

}  // namespace speed::wire
