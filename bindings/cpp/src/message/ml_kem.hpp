// ML-KEM (FIPS 203), and the hash functions that X-Wing has beside it. OpenSSL 3.5 has it; without, NotAvailableError.
#pragma once

#include <memory>
#include <optional>

#include "message/secret.hpp"

namespace speed::message {

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

}  // namespace speed::message
