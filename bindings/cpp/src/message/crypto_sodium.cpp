#include "message/crypto.hpp"
#include "speed/message_error.hpp"

namespace speed::message {

namespace {

// libsodium has AES-256-GCM where the processor does.
bool uses_aes(CipherName cipher) {
  if (cipher != CipherName::aes_256_gcm) return false;
  if (sodium_init() >= 0 && crypto_aead_aes256gcm_is_available() == 1) return true;
  throw NotAvailableError("aes-256-gcm is not available here: build with OpenSSL 3");
}

}  // namespace

void seal(CipherName cipher, ByteView key, ByteView iv, ByteView associated, ByteView plain, std::span<std::byte> to) {
  const auto encrypt = uses_aes(cipher) ? crypto_aead_aes256gcm_encrypt : crypto_aead_chacha20poly1305_ietf_encrypt;
  encrypt(wire::raw(to), nullptr, wire::raw(plain), plain.size(), wire::raw(associated), associated.size(), nullptr,
          wire::raw(iv), wire::raw(key));
}

bool open(CipherName cipher, ByteView key, ByteView iv, ByteView associated, ByteView sealed, std::span<std::byte> to) {
  const auto decrypt = uses_aes(cipher) ? crypto_aead_aes256gcm_decrypt : crypto_aead_chacha20poly1305_ietf_decrypt;
  return decrypt(wire::raw(to), nullptr, nullptr, wire::raw(sealed), sealed.size(), wire::raw(associated),
                 associated.size(), wire::raw(iv), wire::raw(key)) == 0;
}

// A build without OpenSSL has no ML-KEM.

namespace {

[[noreturn]] void refuse_ml_kem() {
  throw NotAvailableError("ML-KEM and its hybrids are not available here: build with OpenSSL 3.5 or newer");
}

}  // namespace

struct MlKemKey::State {};

MlKemKey::MlKemKey(std::unique_ptr<State> state) : state_(std::move(state)) {}
MlKemKey::~MlKemKey() = default;
bool MlKemKey::is_available() { return false; }
std::shared_ptr<const MlKemKey> MlKemKey::from_seed(int, ByteView) { refuse_ml_kem(); }
std::shared_ptr<const MlKemKey> MlKemKey::from_public(int, ByteView) { refuse_ml_kem(); }
Bytes MlKemKey::public_bytes() const { refuse_ml_kem(); }
Encapsulated MlKemKey::encapsulate() const { refuse_ml_kem(); }
std::optional<Secret> MlKemKey::decapsulate(ByteView) const { refuse_ml_kem(); }
wire::Block<32> sha3_256(ByteView) { refuse_ml_kem(); }
Secret shake_256(ByteView, std::size_t) { refuse_ml_kem(); }

// A build without OpenSSL has no RSA.

namespace {

[[noreturn]] void refuse_rsa() { throw NotAvailableError("rsa-oaep is not available here: build with OpenSSL 3"); }

}  // namespace

struct RsaKey::State {};

RsaKey::RsaKey(std::unique_ptr<State> state) : state_(std::move(state)) {}
RsaKey::~RsaKey() = default;
std::shared_ptr<const RsaKey> RsaKey::from_secret(ByteView) { refuse_rsa(); }
std::shared_ptr<const RsaKey> RsaKey::from_public(ByteView) { refuse_rsa(); }
Secret RsaKey::generate(std::size_t) { refuse_rsa(); }
bool RsaKey::is_available() { return false; }
std::size_t RsaKey::bits() const { refuse_rsa(); }
Bytes RsaKey::public_bytes() const { refuse_rsa(); }
Bytes RsaKey::encrypt(ByteView, ByteView) const { refuse_rsa(); }
std::optional<Secret> RsaKey::decrypt(ByteView, ByteView) const { refuse_rsa(); }

}  // namespace speed::message
