// Opens protected messages as a node that has the keys of the vectors: those which every build has (M-24).
#pragma once

#include <set>

#include "message/guard.hpp"
#include "speed/message_error.hpp"
#include "vectors.hpp"

namespace speed::test {

inline constexpr std::int64_t vector_clock_ms = 1'800'000'000'000;

inline message::Guard vector_guard() {
  const std::set<std::string> opens{"aes-256-gcm", "chacha20-poly1305", "x25519-chacha20-poly1305"};
  MessageSecurity security;
  std::vector<MessageKey> keys;
  for (const Json& record : cases("signatures", "trusted")) {
    keys.push_back(MessageKey::parse(record.dump()));
    security.trusted.push_back(keys.back().id());
  }
  for (const Json& record : cases("encryption", "keys")) {
    if (opens.contains(record.at("algorithm").get<std::string>())) keys.push_back(MessageKey::parse(record.dump()));
  }
  security.keys = std::make_shared<KeyStore>(keys);
  security.policy = SignaturePolicy::verify;
  security.clearance = Classification::confidential;
  return message::Guard(std::move(security));
}

}  // namespace speed::test
