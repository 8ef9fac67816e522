// Protobuf records walked without a parser: where each field of a message lies (M-4).
#pragma once

#include <cstdint>

#include "wire/value/buffer.hpp"

namespace speed::wire {

struct Record {
  std::uint32_t tag = 0;  // field number << 3 | wire type
  std::size_t start = 0;  // of the tag
  std::size_t value = 0;  // of the content, behind a length
  std::size_t end = 0;
};

// Reads the record at `at`; WireError BAD_MESSAGE for what M-4 rejects.
Record read_record(ByteView data, std::size_t at);

// A field of a message inside of the message.
struct Part {
  std::uint32_t tag = 0;     // likewise
  std::uint64_t number = 0;  // of a varint
  ByteView content;          // of a length-delimited field
};

// The fields of such a message one after the other, by the same rules: the protobuf libraries have others (M-4).
class Parts {
 public:
  explicit Parts(ByteView data) : data_(data) {}

  bool next(Part& part);  // false at the end; WireError BAD_MESSAGE

 private:
  ByteView data_;
  std::size_t at_ = 0;
};

constexpr std::uint32_t bytes_tag(std::uint32_t field) { return field << 3 | 2; }
constexpr std::uint32_t number_tag(std::uint32_t field) { return field << 3; }

constexpr std::size_t varint_bytes(std::uint64_t value) {
  std::size_t size = 1;
  for (; value > 0x7f; value >>= 7) ++size;
  return size;
}

void put_varint(std::uint64_t value, Buffer& out);

}  // namespace speed::wire
