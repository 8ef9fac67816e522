#include <sodium.h>

#include "wire/envelope/aead.hpp"
#include "wire/envelope/keyring.hpp"

namespace speed::wire {

struct Aead::State {
  Key key;
  explicit State(const Key& of) : key(of) {}
  ~State() { sodium_memzero(key.data(), key.size()); }
};

Aead::Aead(const Key& key, Direction) : state_(std::make_unique<State>(key)) {}
Aead::Aead(Aead&&) noexcept = default;
Aead& Aead::operator=(Aead&&) noexcept = default;
Aead::~Aead() = default;

void Aead::seal(const Nonce& nonce, ByteView aad, ByteView plain, std::span<std::byte> to) {
  crypto_aead_chacha20poly1305_ietf_encrypt(raw(to), nullptr, raw(plain), plain.size(), raw(aad), aad.size(), nullptr,
                                            raw(ByteView(nonce)), raw(ByteView(state_->key)));
}

bool Aead::open(const Nonce& nonce, ByteView aad, ByteView sealed, std::span<std::byte> to) {
  if (!is_authentic(nonce, aad, sealed)) return false;
  if (to.empty()) return true;
  crypto_stream_chacha20_ietf_xor_ic(raw(to), raw(sealed), to.size(), raw(ByteView(nonce)), 1,
                                     raw(ByteView(state_->key)));
  return true;
}

// Without an output libsodium looks at the tag alone.
bool Aead::is_authentic(const Nonce& nonce, ByteView aad, ByteView sealed) {
  return crypto_aead_chacha20poly1305_ietf_decrypt(nullptr, nullptr, nullptr, raw(sealed), sealed.size(), raw(aad),
                                                   aad.size(), raw(ByteView(nonce)), raw(ByteView(state_->key))) == 0;
}

struct MacKey::State {
  crypto_auth_hmacsha256_state begun;
  ~State() { sodium_memzero(&begun, sizeof begun); }
};

MacKey::MacKey(const Key& key) : state_(std::make_unique<State>()) {
  crypto_auth_hmacsha256_init(&state_->begun, raw(ByteView(key)), key.size());
}
MacKey::MacKey(MacKey&&) noexcept = default;
MacKey& MacKey::operator=(MacKey&&) noexcept = default;
MacKey::~MacKey() = default;

Mac MacKey::of(ByteView data) {
  crypto_auth_hmacsha256_state state = state_->begun;
  Mac mac;
  crypto_auth_hmacsha256_update(&state, raw(data), data.size());
  crypto_auth_hmacsha256_final(&state, raw(std::span<std::byte>(mac)));
  return mac;
}

}  // namespace speed::wire
