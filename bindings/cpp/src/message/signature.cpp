#include "message/signature.hpp"

#include <algorithm>

#include "message/crypto.hpp"
#include "message/key.hpp"
#include "wire/envelope/keyring.hpp"
#include "wire/message/message_parts.hpp"
#include "wire/names/names.hpp"

namespace speed::message {

namespace {

constexpr std::size_t shown_bytes = 64;

std::string shown(std::string_view text) { return "'" + std::string(text.substr(0, shown_bytes)) + "'"; }

Bytes ed25519(const MessageKey::State& key, ByteView covered) {
  wire::Block<crypto_sign_PUBLICKEYBYTES> ours;
  Secret expanded(crypto_sign_SECRETKEYBYTES);
  crypto_sign_seed_keypair(wire::raw(std::span<std::byte>(ours)), wire::raw(expanded.span()),
                           wire::raw(key.secret.view()));
  Bytes signature(crypto_sign_BYTES);
  crypto_sign_detached(wire::raw(std::span(signature)), nullptr, wire::raw(covered), covered.size(),
                       wire::raw(expanded.view()));
  return signature;
}

void check_publisher(const MessageKey& key, const wire::Security& security) {
  const std::string_view publisher = security.publisher_id.value_or("");
  const auto covers = [&](const std::string& pattern) { return wire::matches(pattern, publisher); };
  if (!publisher.empty() && std::ranges::any_of(key.bounds().publishers, covers)) return;
  throw UntrustedError("publisher_id: key '" + key.id() + "' does not speak for " + shown(publisher));
}

void check_bounds(const MessageKey& key, const wire::MessageView& view) {
  try {
    check_use(key, view.name_space(), view.topic(), view.published_at_ms());
  } catch (const KeyRefusedError& error) {
    throw UntrustedError(error.what());
  }
}

const MessageKey& trusted_key(const wire::MessageView& view, const TrustedKeys& trusted) {
  const wire::Security& security = view.security();
  const auto found = trusted.find(security.signature_key_id);
  if (found == trusted.end() || !state_of(found->second).algorithm->signs()) {
    throw UntrustedError("signature_key_id: " + shown(security.signature_key_id) + " is not trusted here");
  }
  const MessageKey& key = found->second;
  check_publisher(key, security);
  if (security.signature_algorithm != key.algorithm()) {
    throw UntrustedError("signature_algorithm: is not that of key '" + key.id() + "', " + std::string(key.algorithm()));
  }
  check_bounds(key, view);
  return key;
}

}  // namespace

Bytes sign(ByteView message, const MessageKey& key) {
  const MessageKey::State& state = state_of(key);
  if (!state.algorithm->signs() || !state.has_secret()) {
    throw KeyRefusedError("key '" + key.id() + "' cannot sign: use a secret ed25519 or hmac-sha256 key");
  }
  const Bytes covered = wire::signing_input(message);
  if (state.algorithm->family == Family::hmac) {
    return wire::with_signature(message, hmac_sha256(state.secret.view(), {covered}));
  }
  return wire::with_signature(message, ed25519(state, covered));
}

bool holds(const MessageKey& key, ByteView signature, ByteView covered) {
  const MessageKey::State& state = state_of(key);
  if (state.algorithm->family == Family::hmac) {
    return wire::same_bytes(hmac_sha256(state.secret.view(), {covered}), signature);
  }
  return signature.size() == crypto_sign_BYTES &&
         crypto_sign_verify_detached(wire::raw(signature), wire::raw(covered), covered.size(),
                                     wire::raw(state.public_bytes)) == 0;
}

void check_signature_algorithm(const wire::MessageView& view, FipsMode mode) {
  const std::string_view named = view.security().signature_algorithm;
  if (!named.empty()) algorithm_of(named, mode);
}

std::optional<MessageKey> verify(const wire::MessageView& view, const TrustedKeys& trusted, SignaturePolicy policy,
                                 FipsMode mode) {
  if (policy == SignaturePolicy::off) return std::nullopt;
  const wire::Security& security = view.security();
  if (security.signatures == 0) {
    if (policy == SignaturePolicy::verify) return std::nullopt;
    throw UnsignedError("message " + shown(view.message_id()) + " is not signed, and this node requires it");
  }
  if (security.signatures > 1) throw SignatureError("signature: stands there more than once");
  const MessageKey& key = trusted_key(view, trusted);
  algorithm_of(key.algorithm(), mode);
  if (!holds(key, security.signature, wire::signing_input(view.bytes()))) {
    throw SignatureError("the signature of " + shown(view.message_id()) + " does not hold under key '" + key.id() +
                         "'");
  }
  return key;
}

}  // namespace speed::message
