// What a node does to its messages, and what it believes of others' (registry_spec/messages.md).
//   speed::MessageSecurity security;
//   security.keys->put("own", {speed::MessageKey::parse(own_key)});  // JSON, as `speed message-key` makes it
//   security.keys->put("analytics", {speed::MessageKey::parse(their_public_key)});
//   security.sign_with = "own";
//   security.encrypt_to = {"analytics"};
//   speed::Node billing("billing", {.allow = {"analytics"}, .security = security});
// The other side has the public part of `own` among its `trusted` sets and `policy = SignaturePolicy::require`; there
// `message.signed_by()` and `message.opened_by()` name the keys.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "speed/message_error.hpp"
#include "speed/message_key.hpp"

namespace speed {

enum class SignaturePolicy {
  off,     // no signature is looked at
  verify,  // one that does not hold is refused; messages without one pass
  require  // these are refused as well
};

// In this order; what a message does not say is internal.
enum class Classification { public_, internal, confidential, restricted };

// The settings of a node; all have a use alone. Names are those of key sets in `keys`.
struct MessageSecurity {
  std::shared_ptr<KeyStore> keys = std::make_shared<KeyStore>();
  SignaturePolicy policy = SignaturePolicy::off;
  std::vector<std::string> trusted = {};  // key sets of publishers
  std::optional<std::string> sign_with = {};
  std::vector<std::string> encrypt_to = {};
  std::string compression = "none";  // or gzip, zstd, lz4, snappy
  std::optional<Classification> clearance = {};  // what is above is refused; none: everything is read
  FipsMode fips_mode = FipsMode::off;
  std::optional<std::string> publisher_team = {};
  std::int64_t future_tolerance_ms = 300'000;  // how far `published_at_ms` may be ahead, with a policy
};

// What is done to one message; what is absent is as the node's settings say.
struct Protection {
  std::optional<std::string> sign_with = {};
  std::optional<std::vector<std::string>> encrypt_to = {};
  std::optional<std::string> compression = {};
  std::optional<Classification> classification = {};
  bool contains_pii = false;
  bool direct = false;  // RSA of the payload itself
  std::string aad = {};   // further bytes that are authenticated, not encrypted
};

}  // namespace speed
