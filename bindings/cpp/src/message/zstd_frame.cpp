#include "message/zstd_frame.hpp"

#include <algorithm>
#include <array>

#include "wire/limits.hpp"

namespace speed::message {

namespace {

constexpr std::array<std::byte, 4> magic{std::byte{0x28}, std::byte{0xb5}, std::byte{0x2f}, std::byte{0xfd}};
constexpr std::array<std::size_t, 4> size_bytes{0, 2, 4, 8};
constexpr std::uint64_t two_bytes_begin_at = 256;
constexpr std::size_t block_header_bytes = 3;
constexpr std::size_t checksum_bytes = 4;
constexpr std::uint64_t smallest_window_bytes = 1024;
constexpr std::uint64_t max_block_bytes = 128 << 10;
constexpr std::uint64_t run = 1;
constexpr std::uint64_t compressed = 2;
constexpr unsigned refused_in_descriptor = 0b1011;  // the reserved bit, and those that name a dictionary
constexpr unsigned reserved_in_modes = 0b11;

// The head of the literals of a block: its bytes, where the size lies in them, and how many bits that has.
struct Literals {
  std::size_t head_bytes;
  unsigned shift;
  unsigned bits;
};

constexpr std::array<Literals, 4> plain{{{1, 3, 5}, {2, 4, 12}, {1, 3, 5}, {3, 4, 20}}};
// They state what they hold first, which is passed over.
constexpr std::array<Literals, 4> packed{{{3, 14, 10}, {3, 14, 10}, {4, 18, 14}, {5, 22, 18}}};

unsigned unsigned_at(ByteView data, std::size_t at) { return std::to_integer<unsigned>(data[at]); }

std::uint64_t little_endian(ByteView field) {
  std::uint64_t number = 0;
  for (std::size_t at = field.size(); at > 0; --at) number = number << 8U | unsigned_at(field, at - 1);
  return number;
}

ByteView first(ByteView data, std::size_t bytes) { return data.first(std::min(bytes, data.size())); }

// Behind the literals.
std::size_t sequences_at(ByteView block) {
  const unsigned kind = unsigned_at(block, 0) & 3U;
  const Literals& head = (kind >= compressed ? packed : plain)[unsigned_at(block, 0) >> 2U & 3U];
  const std::uint64_t size = little_endian(first(block, head.head_bytes)) >> head.shift & ((1ULL << head.bits) - 1);
  return head.head_bytes + (kind == run ? 1 : size);
}

// In the modes of its sequences. A block that ends before them is left to the decoder.
bool has_reserved_mode(ByteView block) {
  std::size_t at = block.empty() ? 0 : sequences_at(block);
  if (at >= block.size() || block[at] == std::byte{0}) return false;
  const unsigned count = unsigned_at(block, at);
  at += count < 128 ? 1 : count < 255 ? 2 : 3;
  return at < block.size() && (unsigned_at(block, at) & reserved_in_modes) != 0;
}

bool states(ByteView field, std::uint64_t size) {
  return field.empty() || little_endian(field) + (field.size() == 2 ? two_bytes_begin_at : 0) == size;
}

// By the byte that describes it: a power of two from 1 KiB, and eighths of that.
std::uint64_t window_bytes(std::byte descriptor) {
  const auto number = std::to_integer<unsigned>(descriptor);
  const std::uint64_t base = smallest_window_bytes << (number >> 3U);
  return base + base / 8 * (number & 7U);
}

// Blocks of at most so many bytes, and then so many bytes behind the last.
bool ends_well(ByteView data, std::size_t at, std::size_t most, std::size_t behind) {
  while (at + block_header_bytes <= data.size()) {
    const std::uint64_t header = little_endian(data.subspan(at, block_header_bytes));
    at += block_header_bytes;
    const std::uint64_t kind = header >> 1U & 3U;
    const std::size_t bytes = header >> 3U;
    if (bytes > most) return false;
    if (kind == compressed && has_reserved_mode(first(data.subspan(at), bytes))) return false;
    at += kind == run ? 1 : bytes;
    if ((header & 1U) == 1) return at + behind == data.size();
  }
  return false;
}

}  // namespace

bool is_one_zstd_frame(ByteView data, std::uint64_t size) {
  if (data.size() <= magic.size() || !std::ranges::equal(first(data, magic.size()), magic)) return false;
  const unsigned descriptor = unsigned_at(data, magic.size());
  const std::size_t single = descriptor >> 5U & 1U;
  const std::size_t field = std::max(size_bytes[descriptor >> 6U], single);
  const std::size_t at = magic.size() + 2 - single + field;
  if (at > data.size() || (descriptor & refused_in_descriptor) != 0) return false;
  // A single segment is its own window, and as large as the payload, which is bounded.
  const std::uint64_t window = single == 1 ? size : window_bytes(data[magic.size() + 1]);
  if (single == 0 && window > wire::limits::max_zstd_window_bytes) return false;
  return states(data.subspan(at - field, field), size) &&
         ends_well(data, at, std::min(window, max_block_bytes), (descriptor >> 2U & 1U) * checksum_bytes);
}

}  // namespace speed::message
