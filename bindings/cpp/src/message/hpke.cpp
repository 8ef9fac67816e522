#include "message/hpke.hpp"

#include "message/cipher.hpp"
#include "message/kdf.hpp"
#include "message/ml_kem.hpp"

namespace speed::message {

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

}  // namespace speed::message
