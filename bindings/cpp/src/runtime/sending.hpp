// Many messages in a write: so many of them, or so many bytes and one.
#pragma once

#include <cstddef>
#include <span>

#include "speed/value.hpp"

namespace speed::runtime {

inline constexpr std::size_t messages_in_a_write = 64;
inline constexpr std::size_t bytes_in_a_write = 64 << 10;

// Whether a write is full that has so much in it.
constexpr bool is_full(std::size_t messages, std::size_t bytes) {
  return messages >= messages_in_a_write || bytes >= bytes_in_a_write;
}

// As many of `messages` as leave in one write; at least one, if there are any.
constexpr std::span<const ByteView> first_write(std::span<const ByteView> messages) {
  std::size_t count = 0;
  for (std::size_t bytes = 0; count < messages.size() && !is_full(count, bytes); ++count) bytes += messages[count].size();
  return messages.first(count);
}

}  // namespace speed::runtime
