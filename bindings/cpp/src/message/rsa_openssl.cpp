#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include <new>

#include "message/algorithms.hpp"
#include "message/openssl_key.hpp"
#include "message/rsa.hpp"
#include "speed/message_error.hpp"

namespace speed::message {

namespace {

using openssl::Key;
using openssl::KeyContext;

void check(bool good) {
  if (good) return;
  ERR_clear_error();
  throw std::bad_alloc();  // nothing else can fail with a key that was loaded
}

std::size_t bits_of(const Key& key) { return static_cast<std::size_t>(EVP_PKEY_get_bits(key.get())); }

// Null unless the bytes were one RSA key to their end.
Key checked(EVP_PKEY* loaded, bool read_all) {
  Key key(loaded);
  ERR_clear_error();
  if (key == nullptr || !read_all || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_RSA) return nullptr;
  if (bits_of(key) < min_rsa_bits) {
    throw WeakAlgorithmError("an RSA key of " + std::to_string(bits_of(key)) + " bits is too short: use " +
                             std::to_string(min_rsa_bits) + " or more");
  }
  return key;
}

// The bytes of what `encode` writes; OpenSSL allocates them.
template <class Encode>
Secret encoded(Encode encode) {
  unsigned char* bytes = nullptr;
  const int size = encode(&bytes);
  check(size > 0);
  Secret made(std::as_bytes(std::span(bytes, static_cast<std::size_t>(size))));
  OPENSSL_clear_free(bytes, static_cast<std::size_t>(size));
  return made;
}

// Begun by `begin`, with SHA-256 and the label.
KeyContext oaep(const Key& key, int (*begin)(EVP_PKEY_CTX*), ByteView label) {
  KeyContext context(EVP_PKEY_CTX_new_from_pkey(nullptr, key.get(), nullptr));
  check(context != nullptr && begin(context.get()) == 1 &&
        EVP_PKEY_CTX_set_rsa_padding(context.get(), RSA_PKCS1_OAEP_PADDING) == 1 &&
        EVP_PKEY_CTX_set_rsa_oaep_md(context.get(), EVP_sha256()) == 1 &&
        EVP_PKEY_CTX_set_rsa_mgf1_md(context.get(), EVP_sha256()) == 1);
  if (label.empty()) return context;
  void* const copy = OPENSSL_memdup(label.data(), label.size());  // the context's from now on
  check(copy != nullptr &&
        EVP_PKEY_CTX_set0_rsa_oaep_label(context.get(), copy, static_cast<int>(label.size())) == 1);
  return context;
}

}  // namespace

struct RsaKey::State {
  Key key;
};

RsaKey::RsaKey(std::unique_ptr<State> state) : state_(std::move(state)) {}
RsaKey::~RsaKey() = default;

std::shared_ptr<const RsaKey> RsaKey::from_secret(ByteView der) {
  const unsigned char* at = wire::raw(der);
  PKCS8_PRIV_KEY_INFO* const info = d2i_PKCS8_PRIV_KEY_INFO(nullptr, &at, static_cast<long>(der.size()));
  EVP_PKEY* const loaded = info == nullptr ? nullptr : EVP_PKCS82PKEY(info);
  PKCS8_PRIV_KEY_INFO_free(info);
  Key key = checked(loaded, at == wire::raw(der) + der.size());
  if (key == nullptr) return nullptr;
  return std::shared_ptr<const RsaKey>(new RsaKey(std::make_unique<State>(State{std::move(key)})));
}

std::shared_ptr<const RsaKey> RsaKey::from_public(ByteView der) {
  const unsigned char* at = wire::raw(der);
  EVP_PKEY* const loaded = d2i_PUBKEY(nullptr, &at, static_cast<long>(der.size()));
  Key key = checked(loaded, at == wire::raw(der) + der.size());
  if (key == nullptr) return nullptr;
  return std::shared_ptr<const RsaKey>(new RsaKey(std::make_unique<State>(State{std::move(key)})));
}

Secret RsaKey::generate(std::size_t bits) {
  const Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", bits));
  check(key != nullptr);
  PKCS8_PRIV_KEY_INFO* const info = EVP_PKEY2PKCS8(key.get());
  check(info != nullptr);
  Secret made = encoded([&](unsigned char** bytes) { return i2d_PKCS8_PRIV_KEY_INFO(info, bytes); });
  PKCS8_PRIV_KEY_INFO_free(info);
  return made;
}

bool RsaKey::is_available() { return true; }

std::size_t RsaKey::bits() const { return bits_of(state_->key); }

Bytes RsaKey::public_bytes() const {
  const Secret made = encoded([&](unsigned char** bytes) { return i2d_PUBKEY(state_->key.get(), bytes); });
  return {made.view().begin(), made.view().end()};
}

Bytes RsaKey::encrypt(ByteView plain, ByteView label) const {
  const KeyContext context = oaep(state_->key, EVP_PKEY_encrypt_init, label);
  Bytes sealed(bits() / 8);
  std::size_t size = sealed.size();
  check(EVP_PKEY_encrypt(context.get(), wire::raw(std::span(sealed)), &size, wire::raw(plain), plain.size()) == 1);
  sealed.resize(size);
  return sealed;
}

std::optional<Secret> RsaKey::decrypt(ByteView sealed, ByteView label) const {
  const KeyContext context = oaep(state_->key, EVP_PKEY_decrypt_init, label);
  Secret room(bits() / 8);
  std::size_t size = room.size();
  const bool opened = EVP_PKEY_decrypt(context.get(), wire::raw(room.span()), &size, wire::raw(sealed),
                                       sealed.size()) == 1;
  ERR_clear_error();
  if (!opened) return std::nullopt;
  return Secret(room.view().first(size));
}

}  // namespace speed::message
