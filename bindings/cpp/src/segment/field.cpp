#include "segment/field.hpp"

#include <bit>

namespace speed::segment {

namespace {

constexpr std::uint16_t byte_basis[] = {1, 214, 152, 146, 86, 200, 88, 230};
constexpr std::uint16_t wide_basis[] = {0x0001, 0xACCA, 0x3C0E, 0x163E, 0xC582, 0xED2E, 0x914C, 0x4012,
                                        0x6C98, 0x10D8, 0x6A72, 0xB900, 0xFDB8, 0xFB34, 0xFF38, 0x991E};

}  // namespace

const Field& Field::byte() {
  static const Field field(8, 0x11D, byte_basis);
  return field;
}

const Field& Field::wide() {
  static const Field field(16, 0x1002D, wide_basis);
  return field;
}

const Field& Field::of(unsigned data_count, unsigned parity_count) {
  return run_of(parity_count) + data_count <= 256 ? byte() : wide();
}

unsigned run_of(unsigned parity_count) { return std::bit_ceil(parity_count); }

Field::Field(unsigned bits, unsigned polynomial, const std::uint16_t* basis)
    : bits_(bits), order_((1U << bits) - 1), log_(order_ + 1), exp_(order_ + 1), skew_(order_ + 1) {
  make_logarithms(polynomial, basis);
  make_skews();
}

void Field::make_logarithms(unsigned polynomial, const std::uint16_t* basis) {
  std::vector<std::uint16_t> power(order_ + 1);
  unsigned state = 1;
  for (unsigned exponent = 0; exponent < order_; ++exponent) {
    power[state] = static_cast<std::uint16_t>(exponent);
    state <<= 1;
    if (state > order_) state ^= polynomial;
  }
  power[0] = static_cast<std::uint16_t>(order_);
  std::vector<std::uint16_t> cantor = {0};
  for (unsigned bit = 0; bit < bits_; ++bit) {
    const std::size_t half = cantor.size();
    for (std::size_t at = 0; at < half; ++at) cantor.push_back(cantor[at] ^ basis[bit]);
  }
  for (unsigned element = 0; element <= order_; ++element) {
    log_[element] = power[cantor[element]];
    exp_[log_[element]] = static_cast<std::uint16_t>(element);
  }
  exp_[order_] = exp_[0];
}

void Field::make_skews() {
  std::vector<unsigned> factor;
  for (unsigned place = 1; place < bits_; ++place) factor.push_back(1U << place);
  for (unsigned level = 0; level + 1 < bits_; ++level) {
    const std::size_t first = (std::size_t{1} << level) - 1;
    skew_[first] = 0;
    for (unsigned place = level; place + 1 < bits_; ++place) {
      const std::size_t width = std::size_t{2} << place;
      for (std::size_t at = first; at < width; at += std::size_t{2} << level) {
        skew_[at + width] = static_cast<std::uint16_t>(skew_[at] ^ factor[place]);
      }
    }
    factor[level] = order_ - log_[times(factor[level], log_[factor[level] ^ 1])];
    for (unsigned place = level + 1; place + 1 < bits_; ++place) {
      factor[place] = times(factor[place], sum(log_[factor[place] ^ 1], factor[level]));
    }
  }
  for (std::uint16_t& element : skew_) element = log_[element];
}

}  // namespace speed::segment
