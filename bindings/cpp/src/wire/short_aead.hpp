// ChaCha20-Poly1305 of short envelopes, put together from its two parts as RFC 8439, section 2.8, says.
// OpenSSL's combined cipher runs ChaCha20 three times for a few hundred bytes (the MAC's key, the whole blocks, the
// rest), which costs more than all the rest; here it runs once. The bytes are the same: tests hold it to libsodium.
// Threads: not thread-safe; the lock of the link or lane guards it.
#pragma once

#include <openssl/evp.h>

#include "wire/aead.hpp"

namespace speed::wire {

struct FreeCipher {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, FreeCipher>;

// The number of the first block, 0, then the nonce.
inline Block<16> start_of(const Nonce& nonce) {
  Block<16> start{};
  copy_to(start.data() + 4, nonce);
  return start;
}

inline void store_little_endian(std::byte* to, std::uint64_t value) {
  for (std::size_t at = 0; at < sizeof value; ++at) to[at] = static_cast<std::byte>(value >> (8 * at) & 0xff);
}

// A context that keeps its key: later calls set the nonce only. std::bad_alloc, which is all that can fail.
Cipher keyed(const EVP_CIPHER* cipher, const Key& key, Aead::Direction direction);

class ShortAead {
 public:
  explicit ShortAead(const Key& key) : stream_(keyed(EVP_chacha20(), key, Aead::Direction::seal)) {}

  static bool takes(std::size_t aad, std::size_t text) { return aad <= max_aad && text <= max_text; }
  void seal(const Nonce& nonce, ByteView aad, ByteView plain, std::span<std::byte> to);
  bool open(const Nonce& nonce, ByteView aad, ByteView sealed, std::span<std::byte> to);

 private:
  static constexpr std::size_t max_aad = 96;
  static constexpr std::size_t max_text = 2048;
  static constexpr std::size_t block_bytes = 64;

  // [aad, padded | text, padded | lengths] for the MAC; before that, [block 0 | text] for the cipher, where block 0
  // ends where the text begins.
  using Work = Block<max_aad + max_text + block_bytes>;
  using MacKey = Block<32>;

  MacKey run(const Nonce& nonce, ByteView text, Work& work);
  static Block<limits::tag_bytes> tag_of(const MacKey& key, ByteView aad, std::size_t text, Work& work);

  Cipher stream_;
};

}  // namespace speed::wire
