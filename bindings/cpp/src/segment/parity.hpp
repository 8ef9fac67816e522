// Parity shards, and data shards from parity (G-6 to G-10): the bytes of Leopard-RS, any number of columns at a time.
// Every 64 columns stand for themselves, so a payload of any size is encoded and decoded in slices, in bounded memory.
// Threads: an object may be used by one thread at a time.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "segment/field.hpp"
#include "speed/segment.hpp"

namespace speed::segment {

using ShardViews = std::span<const std::byte* const>;  // null: a shard of zeros
using ShardRoom = std::span<std::byte* const>;

class Encoder {
 public:
  Encoder(unsigned data_count, unsigned parity_count);

  // The parity of `width` columns, a multiple of 64; `parity` has room for that much of each parity shard.
  void encode(ShardViews data, ShardRoom parity, std::size_t width);
  // Elements of the generator, [parity index][data index] (G-9).
  std::vector<std::vector<unsigned>> matrix();

  const Field& field() const { return field_; }

 private:
  bool is_sum() const { return data_count_ == 1 || parity_count_ == 1; }  // the parity is the XOR of all data
  void encode_sum(ShardViews data, ShardRoom parity, std::size_t width) const;
  void encode_slice(ShardViews data, ShardRoom parity, std::size_t begin, std::size_t width);
  void into_basis(std::size_t first, std::size_t count, std::size_t width);
  void out_of_basis(std::size_t width);
  std::byte* work(std::size_t row) { return work_.data() + row * slice_bytes_; }
  std::byte* total(std::size_t row) { return total_.data() + row * slice_bytes_; }

  unsigned data_count_;
  unsigned parity_count_;
  const Field& field_;
  std::size_t run_;
  std::size_t slice_bytes_;
  std::vector<Product> by_skew_;
  std::vector<std::byte> work_;
  std::vector<std::byte> total_;
};

// Finds missing data shards from as many parity shards.
class Decoder {
 public:
  Decoder(unsigned data_count, unsigned parity_count, std::vector<unsigned> missing, std::vector<unsigned> parity);

  // `data` has null where a shard is missing; `parity` are those at hand and `found` room for the missing, in the order
  // given before. `width` is a multiple of 64.
  void decode(ShardViews data, ShardViews parity, ShardRoom found, std::size_t width);

 private:
  void solve(const std::vector<std::vector<unsigned>>& matrix);

  Encoder encoder_;
  unsigned parity_count_;
  std::vector<unsigned> missing_;
  std::vector<unsigned> parity_;
  std::vector<std::vector<Product>> solution_;  // [missing][parity]
  std::vector<std::byte> sums_;
};

// The same columns of many shards, as the parity wants them: views where the bytes lie in memory, else read into room.

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
