// Keys of OpenSSL, and what it does with them, freed by their owner.
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include <memory>
#include <new>

#include "message/algorithms.hpp"
#include "message/crypto.hpp"
#include "speed/message_error.hpp"

namespace speed::message::openssl {

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeContext {
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, FreeContext>;

}  // namespace speed::message::openssl

namespace speed::message {

namespace {

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};

// Messages are bounded by max_payload_bytes, so every length fits an int.
int length(ByteView bytes) { return static_cast<int>(bytes.size()); }

// OpenSSL takes a null output for associated data; an empty span may point nowhere, which it would mistake for that.
unsigned char nowhere[1];
unsigned char* output(std::span<std::byte> to) { return to.empty() ? nowhere : wire::raw(to); }
const unsigned char* input(ByteView from) { return from.empty() ? nowhere : wire::raw(from); }

class Run {
 public:
  Run(CipherName cipher, ByteView key, ByteView iv, bool encrypt) : context_(EVP_CIPHER_CTX_new()) {
    const EVP_CIPHER* const used = cipher == CipherName::aes_256_gcm ? EVP_aes_256_gcm() : EVP_chacha20_poly1305();
    const bool begun = context_ != nullptr && EVP_CipherInit_ex(context_.get(), used, nullptr, wire::raw(key),
                                                                wire::raw(iv), encrypt ? 1 : 0) == 1;
    if (!begun) throw std::bad_alloc();
  }

  bool over(ByteView associated, ByteView from, std::span<std::byte> to) {
    int written = 0;
    return EVP_CipherUpdate(context_.get(), nullptr, &written, input(associated), length(associated)) == 1 &&
           EVP_CipherUpdate(context_.get(), output(to), &written, input(from), length(from)) == 1;
  }

  bool ends(std::span<std::byte> to) {
    int written = 0;
    return EVP_CipherFinal_ex(context_.get(), output(to), &written) == 1;
  }

  bool tag(int get_or_set, std::byte* tag) {
    return EVP_CIPHER_CTX_ctrl(context_.get(), get_or_set, static_cast<int>(tag_bytes), tag) == 1;
  }

 private:
  std::unique_ptr<EVP_CIPHER_CTX, FreeContext> context_;
};

}  // namespace

void seal(CipherName cipher, ByteView key, ByteView iv, ByteView associated, ByteView plain, std::span<std::byte> to) {
  Run run(cipher, key, iv, true);
  const std::span<std::byte> text = to.first(plain.size());
  const bool sealed =
      run.over(associated, plain, text) && run.ends(text) && run.tag(EVP_CTRL_AEAD_GET_TAG, to.data() + plain.size());
  if (!sealed) throw std::bad_alloc();  // the only failure left once the key is set
}

bool open(CipherName cipher, ByteView key, ByteView iv, ByteView associated, ByteView sealed, std::span<std::byte> to) {
  Run run(cipher, key, iv, false);
  wire::Block<tag_bytes> tag;
  wire::copy_to(tag.data(), sealed.last(tag_bytes));
  const bool opened = run.tag(EVP_CTRL_AEAD_SET_TAG, tag.data()) &&
                      run.over(associated, sealed.first(sealed.size() - tag_bytes), to) && run.ends(to);
  ERR_clear_error();
  return opened;
}

// OpenSSL is asked by name, so that a build of any version 3 has ML-KEM where the library it meets has it.

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
  const bool hashed = context != nullptr && EVP_DigestInit_ex(context, function, nullptr) == 1 &&
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
  check(copy != nullptr && EVP_PKEY_CTX_set0_rsa_oaep_label(context.get(), copy, static_cast<int>(label.size())) == 1);
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
  const bool opened =
      EVP_PKEY_decrypt(context.get(), wire::raw(room.span()), &size, wire::raw(sealed), sealed.size()) == 1;
  ERR_clear_error();
  if (!opened) return std::nullopt;
  return Secret(room.view().first(size));
}

}  // namespace speed::message
