// ChaCha20-Poly1305 in its IETF form (RFC 8439), under one key and in one direction (W-7).
// libsodium is the reference; where OpenSSL is at hand its faster code makes the same bytes (the vectors prove it).
// Threads: not thread-safe; the lock of the link or lane guards it.
#pragma once

#include <memory>

#include "wire/envelope/envelope.hpp"

namespace speed::wire {

using Key = Block<limits::key_bytes>;

class Aead {
 public:
  enum class Direction { seal, open };

  Aead(const Key& key, Direction direction);
  Aead(Aead&&) noexcept;
  Aead& operator=(Aead&&) noexcept;
  ~Aead();

  // Writes ciphertext and tag: `to` has 16 bytes more than `plain`.
  void seal(const Nonce& nonce, ByteView aad, ByteView plain, std::span<std::byte> to);

  // Writes the plaintext: `to` has 16 bytes fewer than `sealed`, and may begin where it does. False if it is not
  // authentic: then nothing is written.
  bool open(const Nonce& nonce, ByteView aad, ByteView sealed, std::span<std::byte> to);
  bool is_authentic(const Nonce& nonce, ByteView aad, ByteView sealed);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace speed::wire
