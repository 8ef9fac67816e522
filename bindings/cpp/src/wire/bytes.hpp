// Bytes as the wire has them: views, big-endian integers, hexadecimal.
#pragma once

#include <array>
#include <concepts>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "speed/value.hpp"

namespace speed::wire {

template <std::size_t N>
using Block = std::array<std::byte, N>;

inline ByteView view(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

inline std::string_view text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline const unsigned char* raw(ByteView bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }
inline unsigned char* raw(std::span<std::byte> bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

inline void append(Bytes& out, ByteView more) { out.insert(out.end(), more.begin(), more.end()); }

template <std::unsigned_integral T>
T load(const std::byte* from) {
  T value = 0;
  for (std::size_t at = 0; at < sizeof(T); ++at) {
    value = static_cast<T>(value << 8 | std::to_integer<T>(from[at]));
  }
  return value;
}

template <>
inline std::uint8_t load<std::uint8_t>(const std::byte* from) {
  return std::to_integer<std::uint8_t>(*from);
}

template <std::unsigned_integral T>
void store(std::byte* to, T value) {
  for (std::size_t at = sizeof(T); at-- > 0;) {
    to[at] = static_cast<std::byte>(value & 0xff);
    if constexpr (sizeof(T) > 1) value = static_cast<T>(value >> 8);
  }
}

std::string to_hex(ByteView bytes);
std::optional<Bytes> from_hex(std::string_view hex);

}  // namespace speed::wire
