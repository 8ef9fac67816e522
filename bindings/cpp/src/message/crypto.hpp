// The two ciphers of payloads and data keys (M-19): the tag of 16 bytes follows the ciphertext.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>

#include "message/algorithms.hpp"
#include "message/secret.hpp"

namespace speed::message {

// Writes ciphertext and tag: `to` has 16 bytes more than `plain`. NotAvailableError.
void seal(CipherName cipher, ByteView key, ByteView iv, ByteView associated, ByteView plain, std::span<std::byte> to);

// Writes the plaintext: `to` has 16 bytes fewer than `sealed`. False if it does not open. NotAvailableError.
bool open(CipherName cipher, ByteView key, ByteView iv, ByteView associated, ByteView sealed, std::span<std::byte> to);

// HMAC-SHA256 and HKDF (RFC 5869) of secrets of any length.

using Hash = wire::Block<32>;
using Pieces = std::initializer_list<ByteView>;  // read one after the other

Hash sha256(Pieces data);
Hash hmac_sha256(ByteView key, Pieces data);

Secret hkdf_extract(ByteView salt, Pieces secret);
Secret hkdf_expand(ByteView key, Pieces info, std::size_t size);  // at most 32 bytes

// ML-KEM (FIPS 203), and the hash functions that X-Wing has beside it. OpenSSL 3.5 has it; without, NotAvailableError.

struct Encapsulated {
  Bytes ciphertext;
  Secret secret;
};

class MlKemKey {
 public:
  // `parameters` is 768 or 1024. Null if the bytes are no key.
  static std::shared_ptr<const MlKemKey> from_seed(int parameters, ByteView seed);
  static std::shared_ptr<const MlKemKey> from_public(int parameters, ByteView bytes);
  static bool is_available();
  ~MlKemKey();
  MlKemKey(const MlKemKey&) = delete;
  MlKemKey& operator=(const MlKemKey&) = delete;

  Bytes public_bytes() const;
  Encapsulated encapsulate() const;
  std::optional<Secret> decapsulate(ByteView ciphertext) const;  // null for one of another length

 private:
  struct State;
  explicit MlKemKey(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

wire::Block<32> sha3_256(ByteView data);
Secret shake_256(ByteView data, std::size_t size);

// RSA-OAEP with SHA-256 throughout (M-19). OpenSSL has it; a build without gives NotAvailableError.

class RsaKey {
 public:
  // PKCS #8 and SubjectPublicKeyInfo, DER. Null if they are none; WeakAlgorithmError below 3072 bits.
  static std::shared_ptr<const RsaKey> from_secret(ByteView der);
  static std::shared_ptr<const RsaKey> from_public(ByteView der);
  static Secret generate(std::size_t bits);  // PKCS #8
  static bool is_available();
  ~RsaKey();
  RsaKey(const RsaKey&) = delete;
  RsaKey& operator=(const RsaKey&) = delete;

  std::size_t bits() const;
  Bytes public_bytes() const;
  Bytes encrypt(ByteView plain, ByteView label) const;
  std::optional<Secret> decrypt(ByteView sealed, ByteView label) const;  // null if it does not open

 private:
  struct State;
  explicit RsaKey(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace speed::message
