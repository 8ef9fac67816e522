// What a MessageKey holds, checked and ready for use.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "message/algorithms.hpp"
#include "message/crypto.hpp"
#include "message/secret.hpp"
#include "speed/message_key.hpp"

namespace speed {

struct SPEED_LOCAL MessageKey::State {
  std::string id;
  const message::Algorithm* algorithm = nullptr;
  message::Secret secret = {};  // empty: only the public part is here
  Bytes public_bytes = {};      // empty for shared keys
  KeyBounds bounds = {};
  std::shared_ptr<const message::RsaKey> rsa = {};       // as the library has it
  std::shared_ptr<const message::MlKemKey> ml_kem = {};  // likewise; of hybrids their part
  message::Secret x25519 = {};                           // its secret; of hybrids their part
  Bytes x25519_public = {};  // its part of `public_bytes`

  bool has_secret() const { return secret.size() > 0; }
};

namespace message {

// The one way between a key of a program and what it holds.
struct KeyAccess {
  static MessageKey make(MessageKey::State state) {
    return MessageKey(std::make_shared<const MessageKey::State>(std::move(state)));
  }
  static const MessageKey::State& state(const MessageKey& key) { return *key.state_; }
};

inline const MessageKey::State& state_of(const MessageKey& key) { return KeyAccess::state(key); }

// Checks everything (M-26) and has the library look at the bytes. KeyRefusedError, AlgorithmError.
MessageKey make_key(MessageKey::State state);

// The keys of one set, as a JSON record or a list of them. KeyRefusedError, AlgorithmError.
std::vector<MessageKey> parse_key_set(std::string_view json);

// Refuses a use outside the key's bounds: KeyRefusedError.
void check_use(const MessageKey& key, std::string_view name_space, std::string_view topic, std::int64_t at_ms);

bool is_key_id(std::string_view id);

// Whether the libraries at hand have the algorithm's keys.
bool is_available(const Algorithm& algorithm);

}  // namespace message
}  // namespace speed
