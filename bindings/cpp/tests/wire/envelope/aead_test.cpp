// The sealing of envelopes and the MAC of cursors against libsodium, whichever library the build uses (W-7, L-14).
#include <gtest/gtest.h>
#include <sodium.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <array>

#include "wire/envelope/keyring.hpp"

namespace speed::wire {
namespace {

constexpr std::size_t longest = 2200;  // beyond what is put together from its parts

Bytes random_bytes(std::size_t size) {
  Bytes bytes(size);
  if (size > 0) randombytes_buf(bytes.data(), size);
  return bytes;
}

template <std::size_t N>
Block<N> random_block() {
  Block<N> block;
  randombytes_buf(block.data(), N);
  return block;
}

Bytes sealed_by_sodium(const Key& key, const Nonce& nonce, ByteView aad, ByteView plain) {
  Bytes sealed(plain.size() + limits::tag_bytes);
  crypto_aead_chacha20poly1305_ietf_encrypt(raw(std::span(sealed)), nullptr, raw(plain), plain.size(), raw(aad),
                                            aad.size(), nullptr, raw(ByteView(nonce)), raw(ByteView(key)));
  return sealed;
}

TEST(Aead, every_length_gives_the_bytes_of_libsodium_and_opens_again_w_7) {
  const auto key = random_block<limits::key_bytes>();
  const Bytes aad = random_bytes(limits::aad_bytes);
  Aead sealer(key, Aead::Direction::seal);
  Aead opener(key, Aead::Direction::open);
  for (std::size_t size = 0; size <= longest; ++size) {
    const auto nonce = random_block<limits::nonce_bytes>();
    const Bytes plain = random_bytes(size);
    Bytes sealed(size + limits::tag_bytes);
    sealer.seal(nonce, aad, plain, sealed);
    ASSERT_EQ(sealed, sealed_by_sodium(key, nonce, aad, plain)) << size;
    Bytes opened(size);
    ASSERT_TRUE(opener.open(nonce, aad, sealed, opened)) << size;
    ASSERT_EQ(opened, plain) << size;
  }
}

#if defined(__x86_64__)
// Whether the upper halves of the vector registers are in use; false where the processor does not tell.
bool are_upper_halves_in_use() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned states = 0xd, tells_use = 4, upper_halves = 4;
  if (__get_cpuid_count(states, 1, &eax, &ebx, &ecx, &edx) == 0 || (eax & tells_use) == 0) return false;
  asm volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(1));
  return (eax & upper_halves) != 0;
}

TEST(Aead, what_runs_behind_it_finds_clean_vector_registers) {
  const auto key = random_block<limits::key_bytes>();
  const auto nonce = random_block<limits::nonce_bytes>();
  Aead sealer(key, Aead::Direction::seal);
  Aead opener(key, Aead::Direction::open);
  for (const std::size_t size : {200UL, 5000UL, 300'000UL}) {
    const Bytes plain = random_bytes(size);
    Bytes sealed(size + limits::tag_bytes);
    sealer.seal(nonce, {}, plain, sealed);
    EXPECT_FALSE(are_upper_halves_in_use()) << size;
    Bytes opened(size);
    const bool good = opener.open(nonce, {}, sealed, opened);
    EXPECT_FALSE(are_upper_halves_in_use()) << size;
    EXPECT_TRUE(good);
  }
}
#endif

constexpr std::array lengths{0UL, 1UL, 63UL, 200UL, 2048UL, 2049UL, 2064UL, 5000UL, 65536UL, 1'000'003UL};

TEST(Aead, what_is_authentic_opens_where_it_lies_w_7) {
  const auto key = random_block<limits::key_bytes>();
  const auto nonce = random_block<limits::nonce_bytes>();
  const Bytes aad = random_bytes(limits::aad_bytes);
  Aead opener(key, Aead::Direction::open);
  for (const std::size_t size : lengths) {
    const Bytes plain = random_bytes(size);
    Bytes bytes = sealed_by_sodium(key, nonce, aad, plain);
    EXPECT_TRUE(opener.is_authentic(nonce, aad, bytes)) << size;
    ASSERT_TRUE(opener.open(nonce, aad, bytes, std::span(bytes).first(size))) << size;
    bytes.resize(size);
    EXPECT_EQ(bytes, plain) << size;
  }
}

TEST(Aead, what_is_not_authentic_stays_where_it_lies_w_7_l_16) {
  const auto key = random_block<limits::key_bytes>();
  const auto nonce = random_block<limits::nonce_bytes>();
  const Bytes aad = random_bytes(limits::aad_bytes);
  Aead opener(key, Aead::Direction::open);
  for (const std::size_t size : lengths) {
    Bytes bytes = sealed_by_sodium(key, nonce, aad, random_bytes(size));
    bytes.back() ^= std::byte{1};
    const Bytes before = bytes;
    EXPECT_FALSE(opener.is_authentic(nonce, aad, bytes)) << size;
    EXPECT_FALSE(opener.open(nonce, aad, bytes, std::span(bytes).first(size))) << size;
    EXPECT_EQ(bytes, before) << size;
  }
}

TEST(Aead, a_flipped_bit_anywhere_is_refused_w_7) {
  const auto key = random_block<limits::key_bytes>();
  const auto nonce = random_block<limits::nonce_bytes>();
  for (const std::size_t size : {0UL, 1UL, 63UL, 200UL, 2048UL, 2100UL}) {
    Bytes aad = random_bytes(limits::aad_bytes);
    Bytes sealed = sealed_by_sodium(key, nonce, aad, random_bytes(size));
    Bytes opened(size);
    Aead opener(key, Aead::Direction::open);
    const auto is_refused_with = [&](std::byte& flipped) {
      flipped ^= std::byte{0x40};
      const bool refused = !opener.open(nonce, aad, sealed, opened);
      flipped ^= std::byte{0x40};
      return refused;
    };
    for (std::byte& one : sealed) ASSERT_TRUE(is_refused_with(one)) << size;
    for (std::byte& one : aad) ASSERT_TRUE(is_refused_with(one)) << size;
    EXPECT_TRUE(opener.open(nonce, aad, sealed, opened)) << size;
  }
}

TEST(MacKey, every_length_gives_the_mac_of_libsodium_l_14) {
  const auto key = random_block<limits::key_bytes>();
  MacKey mac(key);
  for (std::size_t size = 0; size < 300; ++size) {
    const Bytes data = random_bytes(size);
    ASSERT_EQ(mac.of(data), hmac(key, data)) << size;
  }
}

}  // namespace
}  // namespace speed::wire
