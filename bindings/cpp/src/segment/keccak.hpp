// Keccak-256 a part at a time (G-3). A copy goes on from the same state, so that lengths can be tried (G-11).
#pragma once

#include <algorithm>

#include "speed/segment.hpp"

namespace speed::segment {

class Keccak {
 public:
  void update(ByteView data);
  Hash digest() const;

 private:
  static constexpr std::size_t lanes = 25;
  static constexpr std::size_t rate_bytes = 136;

  void absorb(const std::byte* block);

  std::array<std::uint64_t, lanes> state_{};
  std::array<std::byte, rate_bytes> block_{};
  std::size_t filled_ = 0;
};

// Any number of bytes through the hash, in parts of bounded size.

inline constexpr std::size_t step_bytes = 1 << 20;

// `read(begin, end, room)` gives those bytes.
template <class Read>
void hash_steps(Keccak& state, std::size_t begin, std::size_t end, const Read& read) {
  Bytes room;
  for (std::size_t at = begin; at < end; at += step_bytes) state.update(read(at, std::min(at + step_bytes, end), room));
}

}  // namespace speed::segment
