// Payloads compressed and decompressed, with a bound that holds before anything is allocated (M-23).
#pragma once

#include <optional>
#include <string_view>

#include "speed/value.hpp"
#include "wire/value/buffer.hpp"

namespace speed::message {

// The number of an encoding: `none`, `gzip`, `zstd`, `lz4` or `snappy`. CompressionError for another name.
int encoding_of(std::string_view name);

// Whether payloads of this encoding are decompressed here; others are handed out as they are (M-9).
bool is_read(std::string_view encoding);

// Appends `data` in an encoding other than none. CompressionError above max_payload_bytes.
void compress(std::string_view encoding, ByteView data, wire::Buffer& out);

// Appends the `size` bytes that `data` holds; CompressionError for anything else.
void decompress(std::string_view encoding, ByteView data, std::int64_t size, wire::Buffer& out);

// What a frame of Zstandard must be beside decodable (M-23; RFC 8878, section 3.1.1). Its decoders read several frames
// for one and pass over some, and not all of them look at reserved bits and at the size that a frame states.

// Whether `data` is one frame, whole and nothing beside it, that states no other size, names no dictionary, sets no
// reserved bit, and keeps to the bounds of windows and blocks. Else what its blocks hold is not looked at.
bool is_one_zstd_frame(ByteView data, std::uint64_t size);

}  // namespace speed::message
