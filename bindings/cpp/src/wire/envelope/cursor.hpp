// The small binary files of a lane: the receiver's cursor (L-14) and deliveries (L-25), the sender's fence (L-18).
#pragma once

#include <array>
#include <map>
#include <vector>

#include "wire/envelope/keyring.hpp"

namespace speed::wire {

// A place in a lane; ordered as the bytes are.
struct Position {
  std::uint32_t generation = 0;
  std::uint32_t number = 0;
  std::uint64_t offset = 0;

  LaneFileName file() const { return {generation, number}; }
  auto operator<=>(const Position&) const = default;
};

// One envelope that was dispatched and is not finished, and where it begins.
struct Unfinished {
  std::uint64_t sequence = 0;
  Position start;
  bool begun = false;  // a request of an idempotent service, which runs or ran
  bool operator==(const Unfinished&) const = default;
};

// Every envelope before the position was dispatched, and all of those are finished but the listed ones.
struct Cursor {
  std::uint32_t receiver_generation = 0;
  Position position;
  std::uint64_t last_sequence = 0;
  std::vector<Unfinished> unfinished;
  bool clean = false;
  bool sealed = false;  // no earlier generation begins more than this one read (L-31)
  bool operator==(const Cursor&) const = default;
};

// The end of all that older generations of a sender wrote by right.
struct Fence {
  std::uint32_t new_generation = 0;
  LaneFileName old;
  std::uint64_t size = 0;
  bool operator==(const Fence&) const = default;
};

inline constexpr std::size_t cursor_head_bytes = 64;
inline constexpr std::size_t unfinished_bytes = 24;
inline constexpr std::size_t short_mac_bytes = 16;
inline constexpr std::size_t max_cursor_bytes =
    cursor_head_bytes + limits::max_unfinished * unfinished_bytes + short_mac_bytes;
inline constexpr std::size_t fence_bytes = 48;

Bytes encode_cursor(const Cursor& cursor, const Key& lane_key);
// The same into `to`, for who writes many: returns what was written.
ByteView encode_cursor(const Cursor& cursor, MacKey& lane_key, Block<max_cursor_bytes>& to);
Cursor decode_cursor(ByteView data, const std::vector<Key>& lane_keys);  // WireError BAD_CURSOR
Bytes encode_fence(const Fence& fence, const Key& lane_key);
Fence decode_fence(ByteView data, const std::vector<Key>& lane_keys);  // WireError BAD_FENCE

// How often messages that came again have been begun, by their sequences (L-25). Decoding: WireError BAD_CURSOR.
inline constexpr std::size_t max_deliveries_listed = 4096;
inline constexpr std::size_t max_deliveries_bytes = 8 + max_deliveries_listed * 12 + 16;
using Deliveries = std::map<std::uint64_t, std::uint32_t>;
Bytes encode_deliveries(const Deliveries& deliveries, const Key& lane_key);
Deliveries decode_deliveries(ByteView data, const std::vector<Key>& lane_keys);

// The floor of generations: below it lives were forgotten, above it every new claim begins.

using Floors = std::array<std::uint32_t, 256>;  // by the first byte of a node id
inline constexpr std::size_t floor_bytes = 8 + 256 * 4 + 16;

Bytes encode_floors(const Floors& floors, const Key& registry_key);
// WireError BAD_FLOOR if no accepted key made it, or it is no floor file.
Floors decode_floors(ByteView data, const std::vector<Key>& registry_keys);

}  // namespace speed::wire
