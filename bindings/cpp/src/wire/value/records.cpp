#include "wire/value/records.hpp"

#include "speed/error.hpp"

namespace speed::wire {

namespace {

constexpr std::size_t max_tag_bytes = 5;
constexpr std::size_t max_length_bytes = 5;
constexpr std::size_t max_varint_bytes = 10;

[[noreturn]] void refuse(const char* why) { throw WireError("BAD_MESSAGE", std::string("records: ") + why); }

std::uint64_t take_long_varint(ByteView data, std::size_t& at, std::size_t most) {
  std::uint64_t value = 0;
  for (std::size_t index = 0; index < most && at < data.size(); ++index) {
    const auto byte = std::to_integer<std::uint64_t>(data[at++]);
    value |= (byte & 0x7f) << (7 * index);
    if (byte < 0x80) return value;
  }
  refuse("a varint is cut short or too long");
}

inline std::uint64_t take_varint(ByteView data, std::size_t& at, std::size_t most) {
  if (at < data.size() && data[at] < std::byte{0x80}) return std::to_integer<std::uint64_t>(data[at++]);
  return take_long_varint(data, at, most);
}

ByteView take_bytes(ByteView data, std::size_t& at, std::uint64_t size) {
  if (size > data.size() - at) refuse("a field is cut short");
  const ByteView taken = data.subspan(at, static_cast<std::size_t>(size));
  at += taken.size();
  return taken;
}

// Field number and wire type.
std::uint32_t take_tag(ByteView data, std::size_t& at) {
  const std::uint64_t tag = take_varint(data, at, max_tag_bytes);
  if (tag >> 3 == 0 || tag >> 3 >= 1U << 29) refuse("a field number is out of range");
  return static_cast<std::uint32_t>(tag);
}

}  // namespace

Record read_record(ByteView data, std::size_t at) {
  Record record;
  record.start = at;
  record.tag = take_tag(data, at);
  const unsigned wire_type = record.tag & 7;
  std::uint64_t size = 0;
  if (wire_type == 2) size = take_varint(data, at, max_length_bytes);
  record.value = at;
  if (wire_type == 0) {
    take_varint(data, at, max_varint_bytes);
  } else if (wire_type == 1) {
    size = 8;
  } else if (wire_type == 5) {
    size = 4;
  } else if (wire_type != 2) {
    refuse("a wire type is not allowed");
  }
  if (size > data.size() - at) refuse("a field is cut short");
  record.end = at + static_cast<std::size_t>(size);
  return record;
}

bool Parts::next(Part& part) {
  if (at_ == data_.size()) return false;
  part.tag = take_tag(data_, at_);
  switch (part.tag & 7) {
    case 0: part.number = take_varint(data_, at_, max_varint_bytes); break;
    case 1: take_bytes(data_, at_, 8); break;
    case 2: part.content = take_bytes(data_, at_, take_varint(data_, at_, max_length_bytes)); break;
    case 5: take_bytes(data_, at_, 4); break;
    default: refuse("a wire type is not allowed");
  }
  return true;
}

void put_varint(std::uint64_t value, Buffer& out) {
  const std::span<std::byte> to = out.extend(varint_bytes(value));
  std::size_t at = 0;
  for (; value > 0x7f; value >>= 7) to[at++] = static_cast<std::byte>((value & 0x7f) | 0x80);
  to[at] = static_cast<std::byte>(value);
}

}  // namespace speed::wire
