#include "message/compression.hpp"

#include <lz4.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "speed/message_error.hpp"
#include "wire/limits.hpp"
#include "wire/message/fields.hpp"

namespace speed::message {

namespace {

namespace encoding = wire::proto::content_encoding;

constexpr int gzip_window = 16 + MAX_WBITS;  // a header of gzip, and the largest window
constexpr int gzip_memory = 8;               // zlib's own default
constexpr std::size_t shown_bytes = 64;

const char* chars(ByteView bytes) { return reinterpret_cast<const char*>(bytes.data()); }
char* chars(std::span<std::byte> bytes) { return reinterpret_cast<char*>(bytes.data()); }
int length(std::size_t size) { return static_cast<int>(size); }  // bounded by max_payload_bytes

z_stream stream_over(ByteView from, std::span<std::byte> to) {
  z_stream stream{};
  stream.next_in = const_cast<unsigned char*>(wire::raw(from));  // zlib's interface knows no constants
  stream.avail_in = static_cast<unsigned>(from.size());
  stream.next_out = wire::raw(to);
  stream.avail_out = static_cast<unsigned>(to.size());
  return stream;
}

std::size_t gzip_bound(std::size_t size) { return compressBound(size) + 12; }  // gzip's header is longer than zlib's

// These write to `to` and say how many bytes; 0 if they cannot.
std::size_t gzip(ByteView from, std::span<std::byte> to) {
  z_stream stream = stream_over(from, to);
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_window, gzip_memory, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  const int ended = deflate(&stream, Z_FINISH);
  deflateEnd(&stream);
  return ended == Z_STREAM_END ? stream.total_out : 0;
}

std::size_t zstd(ByteView from, std::span<std::byte> to) {
  const std::size_t written = ZSTD_compress(to.data(), to.size(), from.data(), from.size(), ZSTD_CLEVEL_DEFAULT);
  return ZSTD_isError(written) != 0 ? 0 : written;
}

std::size_t lz4(ByteView from, std::span<std::byte> to) {
  return static_cast<std::size_t>(LZ4_compress_default(chars(from), chars(to), length(from.size()), length(to.size())));
}

std::size_t snappy(ByteView from, std::span<std::byte> to) {
  std::size_t written = to.size();
  return snappy_compress(chars(from), from.size(), chars(to), &written) == SNAPPY_OK ? written : 0;
}

std::size_t lz4_bound(std::size_t size) { return static_cast<std::size_t>(LZ4_compressBound(length(size))); }

// These say whether `from` is one whole stream, frame or block of exactly the bytes that `to` has room for.
bool gunzip(ByteView from, std::span<std::byte> to) {
  z_stream stream = stream_over(from, to);
  if (inflateInit2(&stream, gzip_window) != Z_OK) throw std::bad_alloc();
  const int ended = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  return ended == Z_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0;
}

bool unzstd(ByteView from, std::span<std::byte> to) {
  return is_one_zstd_frame(from, to.size()) &&
         ZSTD_decompress(to.data(), to.size(), from.data(), from.size()) == to.size();
}

bool unlz4(ByteView from, std::span<std::byte> to) {
  return LZ4_decompress_safe(chars(from), chars(to), length(from.size()), length(to.size())) == length(to.size());
}

bool unsnappy(ByteView from, std::span<std::byte> to) {
  std::size_t size = 0;
  return snappy_uncompressed_length(chars(from), from.size(), &size) == SNAPPY_OK && size == to.size() &&
         snappy_uncompress(chars(from), from.size(), chars(to), &size) == SNAPPY_OK;
}

struct Codec {
  std::string_view name;
  int number;
  std::size_t (*bound)(std::size_t);
  std::size_t (*compress)(ByteView, std::span<std::byte>);
  bool (*decompress)(ByteView, std::span<std::byte>);
};

constexpr std::array<Codec, 4> codecs{{
    {"gzip", encoding::gzip, gzip_bound, gzip, gunzip},
    {"snappy", encoding::snappy, snappy_max_compressed_length, snappy, unsnappy},
    {"zstd", encoding::zstd, ZSTD_compressBound, zstd, unzstd},
    {"lz4", encoding::lz4, lz4_bound, lz4, unlz4},
}};

const Codec& codec_of(std::string_view name) {
  const auto* const found = std::ranges::find(codecs, name, &Codec::name);
  if (found != codecs.end()) return *found;
  throw CompressionError("content_encoding: '" + std::string(name.substr(0, shown_bytes)) +
                         "' is not known here; there are gzip, snappy, zstd, lz4");
}

}  // namespace

int encoding_of(std::string_view name) { return name == "none" ? encoding::none : codec_of(name).number; }

bool is_read(std::string_view encoding) { return std::ranges::find(codecs, encoding, &Codec::name) != codecs.end(); }

void compress(std::string_view encoding, ByteView data, wire::Buffer& out) {
  const Codec& codec = codec_of(encoding);
  if (data.size() > wire::limits::max_payload_bytes) {
    throw CompressionError("payload: " + std::to_string(data.size()) + " bytes are above the bound of " +
                           std::to_string(wire::limits::max_payload_bytes) + ": send it in parts");
  }
  const std::size_t before = out.size();
  const std::size_t written = codec.compress(data, out.extend(codec.bound(data.size())));
  if (written == 0) throw std::bad_alloc();  // there is room for the worst case
  out.shrink(before + written);
}

void decompress(std::string_view encoding, ByteView data, std::int64_t size, wire::Buffer& out) {
  const Codec& codec = codec_of(encoding);
  if (size <= 0 || static_cast<std::uint64_t>(size) > wire::limits::max_payload_bytes) {
    throw CompressionError("uncompressed_bytes: is " + std::to_string(size) + ", allowed are 1 to " +
                           std::to_string(wire::limits::max_payload_bytes));
  }
  if (!codec.decompress(data, out.extend(static_cast<std::size_t>(size)))) {
    throw CompressionError("payload: is not " + std::string(encoding) + " of the " + std::to_string(size) +
                           " bytes that it says");
  }
}

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
