// The floor of generations: below it lives were forgotten, above it every new claim begins.
#pragma once

#include <array>
#include <vector>

#include "wire/keyring.hpp"

namespace speed::wire {

using Floors = std::array<std::uint32_t, 256>;  // by the first byte of a node id
inline constexpr std::size_t floor_bytes = 8 + 256 * 4 + 16;

Bytes encode_floors(const Floors& floors, const Key& registry_key);
// WireError BAD_FLOOR if no accepted key made it, or it is no floor file.
Floors decode_floors(ByteView data, const std::vector<Key>& registry_keys);

}  // namespace speed::wire
