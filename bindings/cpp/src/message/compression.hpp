// Payloads compressed and decompressed, with a bound that holds before anything is allocated (M-23).
#pragma once

#include <optional>
#include <string_view>

#include "wire/buffer.hpp"

namespace speed::message {

// The number of an encoding: `none`, `gzip`, `zstd`, `lz4` or `snappy`. CompressionError for another name.
int encoding_of(std::string_view name);

// Whether payloads of this encoding are decompressed here; others are handed out as they are (M-9).
bool is_read(std::string_view encoding);

// Appends `data` in an encoding other than none. CompressionError above max_payload_bytes.
void compress(std::string_view encoding, ByteView data, wire::Buffer& out);

// Appends the `size` bytes that `data` holds; CompressionError for anything else.
void decompress(std::string_view encoding, ByteView data, std::int64_t size, wire::Buffer& out);

}  // namespace speed::message
