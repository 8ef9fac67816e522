#include "message/compression.hpp"

#include <lz4.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "message/zstd_frame.hpp"
#include "speed/message_error.hpp"
#include "wire/limits.hpp"

namespace speed::message {

namespace {

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
    {"gzip", 1, gzip_bound, gzip, gunzip},
    {"snappy", 2, snappy_max_compressed_length, snappy, unsnappy},
    {"zstd", 3, ZSTD_compressBound, zstd, unzstd},
    {"lz4", 4, lz4_bound, lz4, unlz4},
}};

const Codec& codec_of(std::string_view name) {
  const auto* const found = std::ranges::find(codecs, name, &Codec::name);
  if (found != codecs.end()) return *found;
  throw CompressionError("content_encoding: '" + std::string(name.substr(0, shown_bytes)) +
                         "' is not known here; there are gzip, snappy, zstd, lz4");
}

}  // namespace

int encoding_of(std::string_view name) { return name == "none" ? 0 : codec_of(name).number; }

bool is_read(std::string_view encoding) {
  return std::ranges::find(codecs, encoding, &Codec::name) != codecs.end();
}

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

}  // namespace speed::message
