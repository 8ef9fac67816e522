// Values as msgpack (W-15 to W-17).
#pragma once

#include "speed/value.hpp"
#include "wire/value/buffer.hpp"

namespace speed::wire {

using Owner = std::shared_ptr<const void>;  // keeps bytes where they are

// Appends the msgpack of a value; UnserialisableError names the path to what has no representation.
void pack(const Value& value, Buffer& out, std::string_view what = "value");
void pack(const Map& map, Buffer& out, std::string_view what);  // as a Value it would be copied first
Bytes pack(const Value& value, std::string_view what = "value");

// Pieces of a map that is written without being built: the number of its members, then keys and values.
void pack_map_header(std::uint32_t members, Buffer& out);
void pack_array_header(std::uint32_t items, Buffer& out);
void pack_text(std::string_view text, Buffer& out);  // not checked: only for text that is known to be UTF-8
void pack_integer(std::uint64_t number, Buffer& out);

// The value in `data`; WireError BAD_PAYLOAD for anything but one value within the limits. `depth`: how many containers
// it lies in already; `owner` of `data`: bytes of 32 KiB and more are then lent, not copied.
Value unpack(ByteView data, std::string_view what = "payload", std::size_t depth = 0, const Owner& owner = nullptr);
// The value at `at`, which is moved behind it.
Value unpack_next(ByteView data, std::size_t& at, std::string_view what, std::size_t depth,
                  const Owner& owner = nullptr);
Map unpack_map(ByteView data, std::string_view what = "payload", const Owner& owner = nullptr);

// The bytes of a value that is bytes, lent or its own.
std::optional<ByteView> bytes_in(const Value& value);

// Bytes of the character that begins at `at`, 0 if there is none (RFC 3629: no overlong forms, no surrogates).
std::size_t character_bytes(std::string_view text, std::size_t at);
bool is_utf8(std::string_view text);
// A text for people that quotes anything: what is no UTF-8 reads as '?'; at most `most` bytes, cut between characters.
std::string readable(std::string_view text, std::size_t most = std::string_view::npos);
// Likewise, at most so many characters.
std::string readable_characters(std::string_view text, std::size_t most);

// The years 1 to 9999 in seconds since 1970: what an instant may be in every language (W-15).
inline constexpr std::int64_t first_second = -62'135'596'800;
inline constexpr std::int64_t last_second = 253'402'300'799;

}  // namespace speed::wire
