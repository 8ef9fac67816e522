#include "segment/form.hpp"

#include "speed/error.hpp"
#include "wire/limits.hpp"
#include "wire/message/fields.hpp"
#include "wire/value/records.hpp"

namespace speed::segment {

namespace field = wire::proto::segment_message_proto;

namespace {

// The fields as they were written, not yet checked.
struct Found {
  ByteView hash;
  ByteView payload;
  std::uint32_t data_index = 0;
  std::uint32_t data_count = 0;
  std::uint32_t parity_index = 0;
  std::uint32_t parity_count = 0;
  bool is_parity = false;
  bool is_unordered = false;
};

void put_number(std::uint32_t tag, std::uint32_t number, wire::Buffer& out) {
  if (number == 0) return;
  wire::put_varint(tag, out);
  wire::put_varint(number, out);
}

void put_bytes(std::uint32_t tag, std::size_t size, wire::Buffer& out) {
  if (size == 0) return;
  wire::put_varint(tag, out);
  wire::put_varint(size, out);
}

// What is not among the fields of G-1, in their wire types, is ignored.
void take(const wire::Part& part, Found& fields) {
  const auto low = static_cast<std::uint32_t>(part.number);
  switch (part.tag) {
    case field::entire_message_hash: fields.hash = part.content; break;
    case field::payload: fields.payload = part.content; break;
    case field::data_segment_index: fields.data_index = low; break;
    case field::data_segment_count: fields.data_count = low; break;
    case field::parity_segment_index: fields.parity_index = low; break;
    case field::parity_segment_count: fields.parity_count = low; break;
    case field::is_parity: fields.is_parity = part.number != 0; break;
    case field::unordered: fields.is_unordered = part.number != 0; break;
    default: break;
  }
}

Found fields_in(ByteView data) {
  Found fields;
  wire::Parts parts(data);
  wire::Part part;
  try {
    while (parts.next(part)) take(part, fields);
  } catch (const WireError&) {
    throw WireError("BAD_SEGMENT", "records: no records of a segment");
  }
  return fields;
}

[[noreturn]] void refuse(const char* field, std::uint64_t number, std::uint64_t most) {
  throw WireError("BAD_SEGMENT", std::string(field) + ": " + std::to_string(number) + " of " + std::to_string(most) +
                                     " is not allowed");
}

void check(const Found& fields) {
  const std::uint64_t count = std::uint64_t{fields.data_count} + fields.parity_count;
  const std::uint32_t data_bound = fields.is_parity ? 1 : fields.data_count;
  const std::uint32_t parity_bound = fields.is_parity ? fields.parity_count : 1;
  const std::size_t size = fields.payload.size();
  if (fields.hash.size() != Hash{}.size()) refuse("entire_message_hash", fields.hash.size(), Hash{}.size());
  if (fields.data_count == 0) refuse("data_segment_count", 0, wire::limits::max_segments);
  if (count > wire::limits::max_segments || (fields.is_parity && fields.parity_count == 0)) {
    refuse("parity_segment_count", fields.parity_count, count);
  }
  if (fields.data_index >= data_bound) refuse("data_segment_index", fields.data_index, data_bound);
  if (fields.parity_index >= parity_bound) refuse("parity_segment_index", fields.parity_index, parity_bound);
  if (size == 0 && (fields.is_parity || fields.data_count > 1)) refuse("payload", 0, fields.data_count);
  if (fields.is_parity && size % shard_unit != 0) refuse("payload", size, shard_unit);
}

}  // namespace

void write_segment(const Segment& segment, wire::Buffer& out) {
  put_bytes(field::entire_message_hash, segment.hash.size(), out);
  out.append(segment.hash);
  if (!segment.is_parity) put_number(field::data_segment_index, segment.index, out);
  put_number(field::data_segment_count, segment.data_count, out);
  put_bytes(field::payload, segment.payload.size(), out);
  out.append(segment.payload);
  if (segment.is_parity) put_number(field::parity_segment_index, segment.index, out);
  put_number(field::parity_segment_count, segment.parity_count, out);
  put_number(field::is_parity, segment.is_parity ? 1 : 0, out);
  put_number(field::unordered, segment.is_unordered ? 1 : 0, out);
}

Bytes write_segment(const Segment& segment) {
  wire::Buffer out;
  out.reserve(max_head_bytes + segment.payload.size());
  write_segment(segment, out);
  return {out.view().begin(), out.view().end()};
}

Segment read_segment(ByteView data) {
  const Found fields = fields_in(data);
  check(fields);
  Segment segment{.data_count = fields.data_count,
                  .parity_count = fields.parity_count,
                  .index = fields.is_parity ? fields.parity_index : fields.data_index,
                  .is_parity = fields.is_parity,
                  .payload = fields.payload,
                  .is_unordered = fields.is_unordered};
  wire::copy_to(segment.hash.data(), fields.hash);
  return segment;
}

}  // namespace speed::segment
