// The same columns of many shards, as the parity wants them: views where the bytes lie in memory, else read into room.
#pragma once

#include <algorithm>
#include <vector>

#include "segment/parity.hpp"
#include "speed/segment.hpp"

namespace speed::segment {

// Columns are read in multiples of this: a store that seals blocks of this size opens each of them once.
inline constexpr std::size_t column_unit = 32 << 10;
inline constexpr std::size_t columns_at_once = 4 << 20;  // bytes of all shards together, about

inline std::size_t column_width(unsigned data_count, std::size_t segment_size) {
  const std::size_t units = std::max<std::size_t>(columns_at_once / data_count / column_unit, 1);
  return std::min(units * column_unit, segment_size);
}

class Columns {
 public:
  explicit Columns(std::size_t most_shards) : rooms_(most_shards) {}

  void clear() { views_.clear(); }
  void add_missing() { views_.push_back(nullptr); }
  // The next shard; what `read(room)` returns counts as filled with zeros up to `width`.
  template <class Read>
  void add(std::size_t width, const Read& read) {
    Bytes& room = rooms_[views_.size()];
    const ByteView part = read(room);
    if (part.size() == width) return views_.push_back(part.data());
    Bytes filled(width);
    std::ranges::copy(part, filled.begin());
    room = std::move(filled);
    views_.push_back(room.data());
  }
  ShardViews views() const { return views_; }

 private:
  std::vector<Bytes> rooms_;
  std::vector<const std::byte*> views_;
};

}  // namespace speed::segment
