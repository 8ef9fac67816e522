#include "segment/keccak.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace speed::segment {

namespace {

using Lanes = std::uint64_t[25];

constexpr std::uint64_t round_constants[24] = {
    0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000, 0x000000000000808b,
    0x0000000080000001, 0x8000000080008081, 0x8000000000008009, 0x000000000000008a, 0x0000000000000088,
    0x0000000080008009, 0x000000008000000a, 0x000000008000808b, 0x800000000000008b, 0x8000000000008089,
    0x8000000000008003, 0x8000000000008002, 0x8000000000000080, 0x000000000000800a, 0x800000008000000a,
    0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008};

// Rotation of lane x + 5y, and where it goes.
constexpr int rotations[25] = {0,  1,  62, 28, 27, 36, 44, 6,  55, 20, 3,  10, 43,
                               25, 39, 41, 45, 15, 21, 8,  18, 2,  61, 56, 14};

// One round from `a` to `e`; all indexes are constants once it is unrolled, and the lanes stay in registers.
[[gnu::always_inline]] inline void round(const Lanes& a, Lanes& e, std::uint64_t constant) {
  std::uint64_t parity[5];
#pragma GCC unroll 5
  for (int x = 0; x < 5; ++x) parity[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
  std::uint64_t mixed[5];
#pragma GCC unroll 5
  for (int x = 0; x < 5; ++x) mixed[x] = parity[(x + 4) % 5] ^ std::rotl(parity[(x + 1) % 5], 1);
#pragma GCC unroll 5
  for (int y = 0; y < 5; ++y) {
    std::uint64_t row[5];
#pragma GCC unroll 5
    for (int x = 0; x < 5; ++x) {  // lane (x, y) of the result comes from column (x + 3y) mod 5, row x
      const int from = (x + 3 * y) % 5 + 5 * x;
      row[x] = std::rotl(a[from] ^ mixed[from % 5], rotations[from]);
    }
#pragma GCC unroll 5
    for (int x = 0; x < 5; ++x) e[x + 5 * y] = row[x] ^ (~row[(x + 1) % 5] & row[(x + 2) % 5]);
  }
  e[0] ^= constant;
}

[[gnu::always_inline]] inline void all_rounds(std::uint64_t* state) {
  Lanes a;
  Lanes e;
  std::memcpy(a, state, sizeof a);
  for (std::size_t at = 0; at < 24; at += 2) {
    round(a, e, round_constants[at]);
    round(e, a, round_constants[at + 1]);
  }
  std::memcpy(state, a, sizeof a);
}

// The same code twice: a sixth faster where the machine has and-not and rotations into another register.
#if defined(__x86_64__)
__attribute__((target("bmi,bmi2"))) void permute_bmi(std::uint64_t* state) { all_rounds(state); }

void permute(std::uint64_t* state) {
  static const bool has_bmi = __builtin_cpu_supports("bmi") != 0 && __builtin_cpu_supports("bmi2") != 0;
  has_bmi ? permute_bmi(state) : all_rounds(state);
}
#else
void permute(std::uint64_t* state) { all_rounds(state); }
#endif

// Lanes are little-endian.
std::uint64_t swapped(std::uint64_t lane) {
  return std::endian::native == std::endian::big ? __builtin_bswap64(lane) : lane;
}

}  // namespace

void Keccak::absorb(const std::byte* block) {
  for (std::size_t lane = 0; lane < rate_bytes / 8; ++lane) {
    std::uint64_t word = 0;
    std::memcpy(&word, block + 8 * lane, 8);
    state_[lane] ^= swapped(word);
  }
  permute(state_.data());
}

void Keccak::update(ByteView data) {
  if (filled_ != 0) {
    const std::size_t taken = std::min(data.size(), rate_bytes - filled_);
    std::copy_n(data.begin(), taken, block_.begin() + static_cast<std::ptrdiff_t>(filled_));
    filled_ += taken;
    data = data.subspan(taken);
    if (filled_ < rate_bytes) return;
    absorb(block_.data());
    filled_ = 0;
  }
  for (; data.size() >= rate_bytes; data = data.subspan(rate_bytes)) absorb(data.data());
  std::ranges::copy(data, block_.begin());
  filled_ = data.size();
}

Hash Keccak::digest() const {
  Keccak last = *this;
  std::fill(last.block_.begin() + static_cast<std::ptrdiff_t>(filled_), last.block_.end(), std::byte{0});
  last.block_[filled_] = std::byte{0x01};
  last.block_[rate_bytes - 1] |= std::byte{0x80};
  last.absorb(last.block_.data());
  Hash hash;
  for (std::size_t lane = 0; lane < hash.size() / 8; ++lane) {
    const std::uint64_t word = swapped(last.state_[lane]);
    std::memcpy(hash.data() + 8 * lane, &word, 8);
  }
  return hash;
}

Hash keccak256(ByteView data) {
  Keccak state;
  state.update(data);
  return state.digest();
}

}  // namespace speed::segment
