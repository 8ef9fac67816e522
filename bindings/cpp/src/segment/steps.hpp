// Any number of bytes through the hash, in parts of bounded size.
#pragma once

#include <algorithm>

#include "segment/keccak.hpp"

namespace speed::segment {

inline constexpr std::size_t step_bytes = 1 << 20;

// `read(begin, end, room)` gives those bytes.
template <class Read>
void hash_steps(Keccak& state, std::size_t begin, std::size_t end, const Read& read) {
  Bytes room;
  for (std::size_t at = begin; at < end; at += step_bytes) state.update(read(at, std::min(at + step_bytes, end), room));
}

}  // namespace speed::segment
