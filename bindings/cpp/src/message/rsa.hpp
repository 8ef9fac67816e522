// RSA-OAEP with SHA-256 throughout (M-19). OpenSSL has it; a build without gives NotAvailableError.
#pragma once

#include <memory>
#include <optional>

#include "message/secret.hpp"

namespace speed::message {

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
