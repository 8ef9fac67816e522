// The column *encapsulation* of M-19: how a recipient gets a secret, by the family of its key.
#include "message/hpke.hpp"
#include "message/kem.hpp"
#include "speed/message_error.hpp"

namespace speed::message {

namespace {

constexpr std::size_t x_bytes = 32;
constexpr std::size_t x_wing_ciphertext_bytes = 1088;

using State = MessageKey::State;

// Null for a result of zeros, which a public key of small order gives.
std::optional<Secret> exchanged(ByteView secret, ByteView known) {
  Secret shared(x_bytes);
  if (crypto_scalarmult(wire::raw(shared.span()), wire::raw(secret), wire::raw(known)) != 0) return std::nullopt;
  return shared;
}

Shared x25519_for(const State& key) {
  const Secret ephemeral = Secret::random(x_bytes);
  Bytes known(x_bytes);
  crypto_scalarmult_base(wire::raw(std::span(known)), wire::raw(ephemeral.view()));
  std::optional<Secret> shared = exchanged(ephemeral.view(), key.x25519_public);
  if (!shared) throw KeyRefusedError("key '" + key.id + "' is a public key of small order: make it anew");
  return {std::move(known), std::move(*shared)};
}

Bytes joined(ByteView one, ByteView other) {
  Bytes both(one.begin(), one.end());
  wire::append(both, other);
  return both;
}

Shared rsa_for(const State& key) {
  Secret secret = Secret::random(data_key_bytes);
  Bytes sealed = key.rsa->encrypt(secret.view(), {});
  return {std::move(sealed), std::move(secret)};
}

Shared hybrid_for(const State& key) {
  const Shared classical = x25519_for(key);
  const Encapsulated quantum = key.ml_kem->encapsulate();
  return {joined(classical.encapsulated_key, quantum.ciphertext),
          Secret::joined(quantum.secret.view(), classical.secret.view())};
}

Shared x_wing_for(const State& key) {
  const Encapsulated quantum = key.ml_kem->encapsulate();
  const Shared classical = x25519_for(key);
  return {joined(quantum.ciphertext, classical.encapsulated_key),
          x_wing_secret(quantum.secret, classical.secret, classical.encapsulated_key, key.x25519_public)};
}

std::optional<Secret> rsa_of(const State& key, ByteView encapsulated) {
  std::optional<Secret> secret = key.rsa->decrypt(encapsulated, {});
  if (secret && secret->size() != data_key_bytes) return std::nullopt;
  return secret;
}

std::optional<Secret> hybrid_of(const State& key, ByteView encapsulated) {
  const std::optional<Secret> classical = exchanged(key.x25519.view(), encapsulated.first(x_bytes));
  const std::optional<Secret> quantum = key.ml_kem->decapsulate(encapsulated.subspan(x_bytes));
  if (!classical || !quantum) return std::nullopt;
  return Secret::joined(quantum->view(), classical->view());
}

std::optional<Secret> x_wing_of(const State& key, ByteView encapsulated) {
  const ByteView ephemeral = encapsulated.subspan(x_wing_ciphertext_bytes);
  const std::optional<Secret> quantum = key.ml_kem->decapsulate(encapsulated.first(x_wing_ciphertext_bytes));
  const std::optional<Secret> classical = exchanged(key.x25519.view(), ephemeral);
  if (!classical || !quantum) return std::nullopt;
  return x_wing_secret(*quantum, *classical, ephemeral, key.x25519_public);
}

[[noreturn]] void refuse(const State& key) {
  throw EncryptionError("recipients: key '" + key.id + "' is one for signatures");
}

}  // namespace

Shared encapsulate(const MessageKey& key) {
  const State& state = key.state();
  switch (state.algorithm->family) {
    case Family::symmetric: {
      const Secret random = Secret::random(data_key_bytes);
      return {Bytes(random.view().begin(), random.view().end()), state.secret};
    }
    case Family::rsa: return rsa_for(state);
    case Family::x25519: return x25519_for(state);
    case Family::ml_kem: {
      Encapsulated made = state.ml_kem->encapsulate();
      return {std::move(made.ciphertext), std::move(made.secret)};
    }
    case Family::hybrid: return hybrid_for(state);
    case Family::x_wing: return x_wing_for(state);
    case Family::ed25519:
    case Family::hmac: break;
  }
  refuse(state);
}

std::optional<Secret> decapsulate(const MessageKey& key, ByteView encapsulated) {
  const State& state = key.state();
  switch (state.algorithm->family) {
    case Family::symmetric: return state.secret;
    case Family::rsa: return rsa_of(state, encapsulated);
    case Family::x25519: return exchanged(state.x25519.view(), encapsulated);
    case Family::ml_kem: return state.ml_kem->decapsulate(encapsulated);
    case Family::hybrid: return hybrid_of(state, encapsulated);
    case Family::x_wing: return x_wing_of(state, encapsulated);
    case Family::ed25519:
    case Family::hmac: break;
  }
  refuse(state);
}

}  // namespace speed::message
