// OpenSSL is asked by name, so that a build of any version 3 has ML-KEM where the library it meets has it.
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include <new>

#include "message/ml_kem.hpp"
#include "message/openssl_key.hpp"
#include "speed/message_error.hpp"

namespace speed::message {

namespace {

using openssl::Key;
using openssl::KeyContext;

constexpr std::size_t most_bytes = 1568;  // of a ciphertext and of a public key
constexpr std::size_t secret_bytes = 32;

const char* name_of(int parameters) { return parameters == 768 ? "ML-KEM-768" : "ML-KEM-1024"; }

KeyContext context_of(int parameters) {
  KeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, name_of(parameters), nullptr));
  if (context != nullptr) return context;
  ERR_clear_error();
  throw NotAvailableError(std::string(name_of(parameters)) +
                          " and its hybrids are not available here: they need OpenSSL 3.5 or newer");
}

Key key_of(int parameters, const char* part, int selection, ByteView bytes) {
  const KeyContext context = context_of(parameters);
  Bytes copy(bytes.begin(), bytes.end());  // the library takes no constant
  const OSSL_PARAM parts[] = {OSSL_PARAM_construct_octet_string(part, copy.data(), copy.size()),
                              OSSL_PARAM_construct_end()};
  EVP_PKEY* made = nullptr;
  const bool loaded = EVP_PKEY_fromdata_init(context.get()) == 1 &&
                      EVP_PKEY_fromdata(context.get(), &made, selection, const_cast<OSSL_PARAM*>(parts)) == 1;
  sodium_memzero(copy.data(), copy.size());
  ERR_clear_error();
  return Key(loaded ? made : nullptr);
}

KeyContext working(const Key& key) {
  KeyContext context(EVP_PKEY_CTX_new_from_pkey(nullptr, key.get(), nullptr));
  if (context == nullptr) throw std::bad_alloc();
  return context;
}

Bytes digest(const EVP_MD* function, ByteView data, std::size_t size) {
  Bytes hash(size);
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  const bool is_shake = function == EVP_shake256();
  const bool hashed =
      context != nullptr && EVP_DigestInit_ex(context, function, nullptr) == 1 &&
      EVP_DigestUpdate(context, data.data(), data.size()) == 1 &&
      (is_shake ? EVP_DigestFinalXOF(context, wire::raw(std::span(hash)), size)
                : EVP_DigestFinal_ex(context, wire::raw(std::span(hash)), nullptr)) == 1;
  EVP_MD_CTX_free(context);
  if (!hashed) throw std::bad_alloc();
  return hash;
}

}  // namespace

struct MlKemKey::State {
  Key key;
};

MlKemKey::MlKemKey(std::unique_ptr<State> state) : state_(std::move(state)) {}
MlKemKey::~MlKemKey() = default;

bool MlKemKey::is_available() {
  const KeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, name_of(1024), nullptr));
  ERR_clear_error();
  return context != nullptr;
}

std::shared_ptr<const MlKemKey> MlKemKey::from_seed(int parameters, ByteView seed) {
  Key key = key_of(parameters, "seed", EVP_PKEY_KEYPAIR, seed);
  if (key == nullptr) return nullptr;
  return std::shared_ptr<const MlKemKey>(new MlKemKey(std::make_unique<State>(State{std::move(key)})));
}

std::shared_ptr<const MlKemKey> MlKemKey::from_public(int parameters, ByteView bytes) {
  Key key = key_of(parameters, OSSL_PKEY_PARAM_PUB_KEY, EVP_PKEY_PUBLIC_KEY, bytes);
  if (key == nullptr) return nullptr;
  return std::shared_ptr<const MlKemKey>(new MlKemKey(std::make_unique<State>(State{std::move(key)})));
}

Bytes MlKemKey::public_bytes() const {
  Bytes bytes(most_bytes);
  std::size_t size = bytes.size();
  if (EVP_PKEY_get_raw_public_key(state_->key.get(), wire::raw(std::span(bytes)), &size) != 1) throw std::bad_alloc();
  bytes.resize(size);
  return bytes;
}

Encapsulated MlKemKey::encapsulate() const {
  const KeyContext context = working(state_->key);
  Encapsulated made{Bytes(most_bytes), Secret(secret_bytes)};
  std::size_t size = made.ciphertext.size();
  std::size_t secret_size = made.secret.size();
  const bool is_made = EVP_PKEY_encapsulate_init(context.get(), nullptr) == 1 &&
                       EVP_PKEY_encapsulate(context.get(), wire::raw(std::span(made.ciphertext)), &size,
                                            wire::raw(made.secret.span()), &secret_size) == 1;
  if (!is_made) throw std::bad_alloc();
  made.ciphertext.resize(size);
  return made;
}

std::optional<Secret> MlKemKey::decapsulate(ByteView ciphertext) const {
  const KeyContext context = working(state_->key);
  Secret secret(secret_bytes);
  std::size_t size = secret.size();
  const bool opened = EVP_PKEY_decapsulate_init(context.get(), nullptr) == 1 &&
                      EVP_PKEY_decapsulate(context.get(), wire::raw(secret.span()), &size, wire::raw(ciphertext),
                                           ciphertext.size()) == 1;
  ERR_clear_error();
  if (!opened) return std::nullopt;
  return secret;
}

wire::Block<32> sha3_256(ByteView data) {
  const Bytes hash = digest(EVP_sha3_256(), data, 32);
  wire::Block<32> block;
  wire::copy_to(block.data(), hash);
  return block;
}

Secret shake_256(ByteView data, std::size_t size) {
  Bytes made = digest(EVP_shake256(), data, size);
  Secret secret(made);
  sodium_memzero(made.data(), made.size());
  return secret;
}

}  // namespace speed::message
