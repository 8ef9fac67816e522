#include "message/cipher.hpp"
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
  const auto encrypt =
      uses_aes(cipher) ? crypto_aead_aes256gcm_encrypt : crypto_aead_chacha20poly1305_ietf_encrypt;
  encrypt(wire::raw(to), nullptr, wire::raw(plain), plain.size(), wire::raw(associated), associated.size(), nullptr,
          wire::raw(iv), wire::raw(key));
}

bool open(CipherName cipher, ByteView key, ByteView iv, ByteView associated, ByteView sealed, std::span<std::byte> to) {
  const auto decrypt =
      uses_aes(cipher) ? crypto_aead_aes256gcm_decrypt : crypto_aead_chacha20poly1305_ietf_decrypt;
  return decrypt(wire::raw(to), nullptr, nullptr, wire::raw(sealed), sealed.size(), wire::raw(associated),
                 associated.size(), wire::raw(iv), wire::raw(key)) == 0;
}

}  // namespace speed::message
