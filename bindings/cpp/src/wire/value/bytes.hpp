// Bytes as the wire has them: views, big-endian integers, hexadecimal.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "speed/value.hpp"

namespace speed::wire {

template <std::size_t N>
using Block = std::array<std::byte, N>;

inline ByteView view(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

inline std::string_view text(ByteView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

inline const unsigned char* raw(ByteView bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }
inline unsigned char* raw(std::span<std::byte> bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

inline void append(Bytes& out, ByteView more) { out.insert(out.end(), more.begin(), more.end()); }

// One memcpy: GCC 12 makes std::ranges::copy of bytes a loop.
inline void copy_to(std::byte* to, ByteView from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

// Bytes, and what keeps them where they are; without an owner there are none.
struct KeptBytes {
  ByteView bytes;
  std::shared_ptr<const void> owner;
};

inline KeptBytes kept(Bytes bytes) {
  const auto owner = std::make_shared<const Bytes>(std::move(bytes));
  return {*owner, owner};
}

inline KeptBytes copy_of(ByteView bytes) {
  const auto owner = std::make_shared_for_overwrite<std::byte[]>(bytes.size());
  copy_to(owner.get(), bytes);
  return {{owner.get(), bytes.size()}, owner};
}

// Big-endian on the wire, whatever the machine is.
template <std::unsigned_integral T>
constexpr T swapped(T value) {
  if constexpr (std::endian::native == std::endian::big || sizeof(T) == 1) return value;
  if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(value));
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
}

template <std::unsigned_integral T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return swapped(value);
}

template <std::unsigned_integral T>
void store(std::byte* to, T value) {
  value = swapped(value);
  std::memcpy(to, &value, sizeof value);
}

std::string to_hex(ByteView bytes);
std::optional<Bytes> from_hex(std::string_view hex);

}  // namespace speed::wire
