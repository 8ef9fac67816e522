// Payload values <-> payload bytes: types inferred, named and decoded (M-8 to M-10).
#pragma once

#include <string>

#include "wire/value/buffer.hpp"

namespace speed::wire {

// The media type that a value travels under: text, bytes, or msgpack for all others.
std::string_view media_type_of(const Value& payload);

// Appends the bytes of a value of that type; UnserialisableError for a value outside the type table.
void encode_content(const Value& payload, Buffer& out);

// WireError BAD_MESSAGE when the bytes are not of the type they claim; unknown types come back as bytes.
Value decode_content(std::string_view media_type, ByteView data);

std::string content_type_text(int number, const std::string& custom);
std::string content_encoding_text(int number, const std::string& custom);

}  // namespace speed::wire
