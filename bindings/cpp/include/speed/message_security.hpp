// What a node does to its messages, and what it believes of others' (registry_spec/messages.md).
//   speed::MessageSecurity security;
//   security.keys->put("own", {speed::MessageKey::parse(own_key)});  // JSON, as `speed message keys` makes it
//   security.keys->put("analytics", {speed::MessageKey::parse(their_public_key)});
//   security.sign_with = "own";
//   security.encrypt_to = {"analytics"};
//   speed::Node billing("billing", {.allow = {"analytics"}, .security = security});
// The other side has the public part of `own` among its `trusted` sets and `policy = SignaturePolicy::require`; there
// `message.signed_by()` and `message.opened_by()` name the keys.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "speed/audit_log.hpp"
#include "speed/message_error.hpp"
#include "speed/message_key.hpp"
#include "speed/names.hpp"
#include "speed/value.hpp"

namespace speed {

enum class SignaturePolicy {
  off,     // no signature is looked at
  verify,  // one that does not hold is refused; messages without one pass
  require  // these are refused as well
};

// In this order; what a message does not say is internal.
enum class Classification { public_, internal, confidential, restricted };

// One schema of payloads. The program brings what validates; the node sees to it that it is asked.
struct PayloadSchema {
  std::string hash;                  // `sha256:` and 64 hex digits of the schema file's bytes
  bool marks_personal_data = false;  // each message with it is one with personal data then
  // Holds a payload, as it was before encryption and compression, to the schema: names of the deprecated fields that it
  // uses. SchemaError when it does not fit; say where, and not what stands there. Whatever else is thrown counts as one
  // that does not fit, and its text is not told. From several threads at once.
  std::function<std::vector<std::string>(std::string_view content_type, ByteView payload)> check;
};

// Where a program has its schemas; null where there is none, so that payloads are not held to it. Asked for each message
// that names one, from several threads at once: remember what you found. Neither text is trusted, since they stand in a
// message; they are 1 to 128 of [A-Za-z0-9._-] without `..`, and a message with others is refused unasked.
// std::system_error says that the schemas cannot be reached now: a received message waits, those behind it too, and you are
// asked again; what is sent is refused with BAD_SCHEMA. Whatever else is thrown refuses the message with BAD_SCHEMA; only
// the text of a SchemaError is told.
using Schemas = std::function<std::optional<PayloadSchema>(std::string_view name, std::string_view version)>;

// Names the schema of a payload, for receivers that have it. What is empty is not said. Where `schemas` has it, the hash is
// the one there; one of a name and version that `schemas` does not have is refused: SchemaError.
struct SchemaReference {
  std::string name = {};
  std::string version = {};
  std::string format = {};  // protobuf, json-schema or avro
  std::string url = {};  // where it can be read
  std::string hash = {};  // as in PayloadSchema
  std::string compatibility = {};  // backward, forward, full or none
};

// The settings of a node; all have a use alone. Names are those of key sets in `keys`.
struct MessageSecurity {
  std::shared_ptr<KeyStore> keys = std::make_shared<KeyStore>();
  SignaturePolicy policy = SignaturePolicy::off;
  Names trusted = {};  // key sets of publishers
  std::optional<std::string> sign_with = {};
  Names encrypt_to = {};
  std::string compression = "none";  // or gzip, zstd, lz4, snappy
  std::optional<Classification> clearance = {};  // what is above is refused; none: everything is read
  FipsMode fips_mode = FipsMode::off;
  std::optional<std::string> publisher_team = {};
  std::int64_t future_tolerance_ms = 300'000;  // how far `published_at_ms` may be ahead, with a policy
  Schemas schemas = {};  // payloads that name one of these are held to it, written or received
  std::shared_ptr<AuditLog> audit = {};  // null: nothing is written down
};

// What is done to one message; what is absent is as the node's settings say.
struct Protection {
  std::optional<std::string> sign_with = {};
  std::optional<Names> encrypt_to = {};
  std::optional<std::string> compression = {};
  std::optional<Classification> classification = {};
  bool contains_pii = false;
  bool direct = false;  // RSA of the payload itself
  std::string aad = {};  // further bytes that are authenticated, not encrypted
  std::optional<SchemaReference> schema = {};  // of a batch: of all of it, which its content type says
};

}  // namespace speed
