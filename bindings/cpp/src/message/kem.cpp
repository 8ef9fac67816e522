#include "message/kem.hpp"

#include "message/crypto.hpp"
#include "speed/message_error.hpp"

namespace speed::message {

namespace {

constexpr std::string_view key_domain = "speed/1 message key";

[[noreturn]] void refuse(const MessageKey& key) {
  throw EncryptionError("the data key does not open with key '" + key.id() + "'");
}

void check_length(const char* field, std::size_t size, std::size_t needed) {
  if (size == needed) return;
  throw EncryptionError(std::string(field) + ": has " + std::to_string(size) + " bytes and needs " +
                        std::to_string(needed));
}

}  // namespace

void put_lp(ByteView bytes, Bytes& out) {
  wire::Block<8> length;
  wire::store(length.data(), std::uint64_t{bytes.size()});
  wire::append(out, length);
  wire::append(out, bytes);
}

Bytes key_info(const MessageKey& key, ByteView encapsulated, const Hash& context) {
  Bytes info;
  put_lp(wire::view(key_domain), info);
  put_lp(wire::view(key.algorithm()), info);
  put_lp(encapsulated, info);
  put_lp(state_of(key).public_bytes, info);
  put_lp(wire::view(key.id()), info);
  wire::append(info, context);
  return info;
}

Secret wrapping_key(const MessageKey& key, const Secret& secret, ByteView encapsulated, const Hash& context) {
  const Secret extracted = hkdf_extract({}, {secret.view()});
  return hkdf_expand(extracted.view(), {key_info(key, encapsulated, context)}, data_key_bytes);
}

Wrapped wrap(const MessageKey& key, ByteView data_key, ByteView iv, const Hash& context) {
  Shared shared = encapsulate(key);
  Wrapped wrapped{std::move(shared.encapsulated_key), Bytes(wrapped_key_bytes)};
  if (state_of(key).algorithm->family == Family::x_wing) {
    hpke_seal(shared.secret, key_info(key, {}, context), data_key, wrapped.wrapped_key);
  } else {
    const Secret wrapping = wrapping_key(key, shared.secret, wrapped.encapsulated_key, context);
    seal(state_of(key).algorithm->cipher, wrapping.view(), iv, {}, data_key, wrapped.wrapped_key);
  }
  return wrapped;
}

Secret unwrap(const MessageKey& key, ByteView encapsulated, ByteView sealed, ByteView iv, const Hash& context) {
  const Algorithm& algorithm = *state_of(key).algorithm;
  check_length("encapsulated_key", encapsulated.size(), algorithm.output);
  check_length("wrapped_key", sealed.size(), wrapped_key_bytes);
  const std::optional<Secret> secret = decapsulate(key, encapsulated);
  if (!secret) refuse(key);
  Secret data_key(data_key_bytes);
  bool opened = false;
  if (algorithm.family == Family::x_wing) {
    opened = hpke_open(*secret, key_info(key, {}, context), sealed, data_key.span());
  } else {
    const Secret wrapping = wrapping_key(key, *secret, encapsulated, context);
    opened = open(algorithm.cipher, wrapping.view(), iv, {}, sealed, data_key.span());
  }
  if (!opened) refuse(key);
  return data_key;
}

namespace {

using wire::view;

constexpr std::string_view version = "HPKE-v1";
constexpr std::string_view suite("HPKE\x64\x7a\x00\x01\x00\x02", 10);  // KEM, KDF, AEAD
constexpr std::string_view x_wing_label = R"(\.//^\)";

Secret labeled_extract(ByteView salt, std::string_view label, ByteView secret) {
  return hkdf_extract(salt, {view(version), view(suite), view(label), secret});
}

Secret labeled_expand(const Secret& key, std::string_view label, ByteView info, std::uint16_t size) {
  wire::Block<2> length;
  wire::store(length.data(), size);
  return hkdf_expand(key.view(), {length, view(version), view(suite), view(label), info}, size);
}

struct Context {
  Secret key;
  Secret nonce;
};

// The key schedule of base mode (RFC 9180, 5.1).
Context schedule(const Secret& shared, ByteView info) {
  Bytes context{std::byte{0}};
  wire::append(context, labeled_extract({}, "psk_id_hash", {}).view());
  wire::append(context, labeled_extract({}, "info_hash", info).view());
  const Secret secret = labeled_extract(shared.view(), "secret", {});
  return {labeled_expand(secret, "key", context, data_key_bytes),
          labeled_expand(secret, "base_nonce", context, iv_bytes)};
}

}  // namespace

Secret x_wing_secret(const Secret& quantum, const Secret& classical, ByteView ephemeral, ByteView known) {
  const Secret secrets = Secret::joined(quantum.view(), classical.view());
  Bytes publics(ephemeral.begin(), ephemeral.end());
  wire::append(publics, known);
  wire::append(publics, view(x_wing_label));
  return Secret(sha3_256(Secret::joined(secrets.view(), publics).view()));
}

void hpke_seal(const Secret& secret, ByteView info, ByteView plain, std::span<std::byte> to) {
  const Context context = schedule(secret, info);
  seal(CipherName::aes_256_gcm, context.key.view(), context.nonce.view(), {}, plain, to);
}

bool hpke_open(const Secret& secret, ByteView info, ByteView sealed, std::span<std::byte> to) {
  const Context context = schedule(secret, info);
  return open(CipherName::aes_256_gcm, context.key.view(), context.nonce.view(), {}, sealed, to);
}

// The column *encapsulation* of M-19: how a recipient gets a secret, by the family of its key.

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
  const State& state = state_of(key);
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
  const State& state = state_of(key);
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
