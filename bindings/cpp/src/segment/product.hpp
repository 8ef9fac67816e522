// What the parity spends its time on: adding one shard, times an element of the field, to another (G-7).
#pragma once

#include <array>
#include <cstddef>

#include "segment/field.hpp"

namespace speed::segment {

// Multiplication by one element, as tables over the half bytes of a word.
class Product {
 public:
  Product(const Field& field, unsigned logarithm);

  bool is_zero() const { return kind_ == Kind::zero; }
  // target ^= factor * element; `width` is a multiple of 64 bytes.
  void add(std::byte* target, const std::byte* factor, std::size_t width) const;

 private:
  enum class Kind { zero, byte, wide };
  using Row = std::array<std::byte, 16>;

  friend struct Kernel;

  Kind kind_;
  // [4 * to + from]: what half byte `from` of a word adds to byte `to` of the product; a byte word uses rows 0 and 1.
  std::array<Row, 8> rows_;
};

// target ^= other
void add(std::byte* target, const std::byte* other, std::size_t width);

}  // namespace speed::segment
