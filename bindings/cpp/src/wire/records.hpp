// Protobuf records walked without a parser: where each field of a message lies (M-4).
#pragma once

#include <cstdint>
#include <span>

#include "wire/buffer.hpp"

namespace speed::wire {

struct Record {
  std::uint32_t field = 0;
  unsigned wire_type = 0;
  std::size_t start = 0;  // of the tag
  std::size_t value = 0;  // of the content, behind a length
  std::size_t end = 0;

  bool is_bytes() const { return wire_type == 2; }
};

// Reads the record at `at`; WireError BAD_MESSAGE for what M-4 rejects.
Record read_record(ByteView data, std::size_t at);

// A field that is a message itself, with its own such fields.
struct Part {
  std::uint32_t field;
  std::span<const Part> parts;
};

// Holds the messages inside one to the same rules: protobuf libraries differ on what breaks them (M-4).
void check_nested(ByteView message, std::span<const Part> parts);

void put_varint(std::uint64_t value, Buffer& out);

}  // namespace speed::wire
