#include "segment/field.hpp"

#include <bit>
#include <cstring>

#include "speed/segment.hpp"

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

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace speed::segment {

namespace {

constexpr std::size_t half_unit = shard_unit / 2;

}  // namespace

// The loops: plain ones for every machine, and with shuffles where there are any.
struct Kernel {
  using Rows = std::array<Product::Row, 8>;

  static std::byte look_up(const Rows& rows, std::size_t low_row, std::byte byte) {
    const auto value = std::to_integer<std::size_t>(byte);
    return rows[low_row][value & 15] ^ rows[low_row + 1][value >> 4];
  }

  static void add_bytes(const Rows& rows, std::byte* target, const std::byte* factor, std::size_t width) {
    for (std::size_t at = 0; at < width; ++at) target[at] ^= look_up(rows, 0, factor[at]);
  }

  static void add_words(const Rows& rows, std::byte* target, const std::byte* factor, std::size_t width) {
    for (std::size_t unit = 0; unit < width; unit += shard_unit) {
      for (std::size_t low = unit; low < unit + half_unit; ++low) {
        const std::size_t high = low + half_unit;
        target[low] ^= look_up(rows, 0, factor[low]) ^ look_up(rows, 2, factor[high]);
        target[high] ^= look_up(rows, 4, factor[low]) ^ look_up(rows, 6, factor[high]);
      }
    }
  }

#if defined(__x86_64__)
#define SPEED_AVX2 __attribute__((target("avx2")))

  static bool has_shuffles() {
    static const bool has = __builtin_cpu_supports("avx2") != 0;
    return has;
  }

  SPEED_AVX2 static __m256i table(const Product::Row& row) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row.data())));
  }
  SPEED_AVX2 static __m256i load(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  SPEED_AVX2 static void add_to(std::byte* to, __m256i value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_xor_si256(load(to), value));
  }
  SPEED_AVX2 static __m256i look_up(__m256i low_table, __m256i high_table, __m256i bytes) {
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i low = _mm256_and_si256(bytes, mask);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi64(bytes, 4), mask);
    return _mm256_xor_si256(_mm256_shuffle_epi8(low_table, low), _mm256_shuffle_epi8(high_table, high));
  }

  SPEED_AVX2 static void shuffle_bytes(const Rows& rows, std::byte* target, const std::byte* factor,
                                       std::size_t width) {
    const __m256i low = table(rows[0]);
    const __m256i high = table(rows[1]);
    for (std::size_t at = 0; at < width; at += 32) add_to(target + at, look_up(low, high, load(factor + at)));
  }

  SPEED_AVX2 static void shuffle_words(const Rows& rows, std::byte* target, const std::byte* factor,
                                       std::size_t width) {
    __m256i tables[8];
    for (std::size_t row = 0; row < 8; ++row) tables[row] = table(rows[row]);
    for (std::size_t at = 0; at < width; at += shard_unit) {
      const __m256i low = load(factor + at);
      const __m256i high = load(factor + at + half_unit);
      add_to(target + at, _mm256_xor_si256(look_up(tables[0], tables[1], low), look_up(tables[2], tables[3], high)));
      add_to(target + at + half_unit,
             _mm256_xor_si256(look_up(tables[4], tables[5], low), look_up(tables[6], tables[7], high)));
    }
  }
#else
  static bool has_shuffles() { return false; }
  static constexpr auto shuffle_bytes = add_bytes;
  static constexpr auto shuffle_words = add_words;
#endif
};

Product::Product(const Field& field, unsigned logarithm)
    : kind_(logarithm == field.order() ? Kind::zero
            : field.bits() == 8        ? Kind::byte
                                       : Kind::wide),
      rows_{} {
  if (kind_ == Kind::zero) return;
  for (unsigned from = 0; from < field.bits() / 4; ++from) {
    for (unsigned half = 0; half < 16; ++half) {
      const unsigned product = field.times(half << (4 * from), logarithm);
      rows_[from][half] = static_cast<std::byte>(product);
      rows_[4 + from][half] = static_cast<std::byte>(product >> 8);
    }
  }
}

void Product::add(std::byte* target, const std::byte* factor, std::size_t width) const {
  const bool shuffles = Kernel::has_shuffles();
  if (kind_ == Kind::byte) (shuffles ? Kernel::shuffle_bytes : Kernel::add_bytes)(rows_, target, factor, width);
  if (kind_ == Kind::wide) (shuffles ? Kernel::shuffle_words : Kernel::add_words)(rows_, target, factor, width);
}

void add(std::byte* target, const std::byte* other, std::size_t width) {
  for (std::size_t at = 0; at < width; at += sizeof(std::uint64_t)) {  // becomes vector instructions
    std::uint64_t left = 0;
    std::uint64_t right = 0;
    std::memcpy(&left, target + at, sizeof left);
    std::memcpy(&right, other + at, sizeof right);
    left ^= right;
    std::memcpy(target + at, &left, sizeof left);
  }
}

}  // namespace speed::segment
