// The two fields of the parity, of 2^8 and 2^16 elements, with the tables that all else is made from (G-7, G-8).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace speed::segment {

class Field {
 public:
  static const Field& byte();  // each made at its first use
  static const Field& wide();
  static const Field& of(unsigned data_count, unsigned parity_count);  // of the parity of this shape (G-6)

  unsigned bits() const { return bits_; }
  unsigned order() const { return order_; }  // the logarithm that stands for 0
  unsigned log(unsigned element) const { return log_[element]; }
  unsigned skew(std::size_t at) const { return skew_[at]; }
  // `element` times the one with this logarithm.
  unsigned times(unsigned element, unsigned logarithm) const {
    return element == 0 ? 0 : exp_[sum(log_[element], logarithm)];
  }
  unsigned inverse_log(unsigned element) const { return (order_ - log_[element]) % order_; }  // not of 0

 private:
  Field(unsigned bits, unsigned polynomial, const std::uint16_t* basis);

  void make_logarithms(unsigned polynomial, const std::uint16_t* basis);
  void make_skews();
  unsigned sum(unsigned left, unsigned right) const {
    const unsigned total = left + right;
    return (total + (total >> bits_)) & order_;
  }

  unsigned bits_;
  unsigned order_;
  std::vector<std::uint16_t> log_;
  std::vector<std::uint16_t> exp_;
  std::vector<std::uint16_t> skew_;
};

// Shards that are transformed together: the least power of two that holds the parity.
unsigned run_of(unsigned parity_count);

// What the parity spends its time on: adding one shard, times an element of the field, to another (G-7).

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
