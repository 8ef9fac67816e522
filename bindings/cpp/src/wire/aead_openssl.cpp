#include <new>

#include "wire/short_aead.hpp"

namespace speed::wire {

namespace {

// Payloads are bounded by max_payload_bytes, so every length fits an int.
int length(ByteView bytes) { return static_cast<int>(bytes.size()); }

// OpenSSL takes a null output for associated data; an empty span may point nowhere, which it would mistake for that.
unsigned char nowhere[1];
unsigned char* output(std::span<std::byte> to) { return to.empty() ? nowhere : raw(to); }
const unsigned char* input(ByteView from) { return from.empty() ? nowhere : raw(from); }

}  // namespace

struct Aead::State {
  Cipher whole;
  ShortAead brief;
};

Aead::Aead(const Key& key, Direction direction)
    : state_(new State{keyed(EVP_chacha20_poly1305(), key, direction), ShortAead(key)}) {}
Aead::Aead(Aead&&) noexcept = default;
Aead& Aead::operator=(Aead&&) noexcept = default;
Aead::~Aead() = default;

void Aead::seal(const Nonce& nonce, ByteView aad, ByteView plain, std::span<std::byte> to) {
  if (ShortAead::takes(aad.size(), plain.size())) return state_->brief.seal(nonce, aad, plain, to);
  EVP_CIPHER_CTX* const context = state_->whole.get();
  int written = 0;
  const bool sealed = EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, raw(ByteView(nonce)), -1) == 1 &&
                      EVP_CipherUpdate(context, nullptr, &written, raw(aad), length(aad)) == 1 &&
                      EVP_CipherUpdate(context, output(to), &written, input(plain), length(plain)) == 1 &&
                      EVP_CipherFinal_ex(context, output(to), &written) == 1 &&
                      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, limits::tag_bytes,
                                          raw(to.last(limits::tag_bytes))) == 1;
  if (!sealed) throw std::bad_alloc();  // the only failure left once the key is set
}

bool Aead::open(const Nonce& nonce, ByteView aad, ByteView sealed, std::span<std::byte> to) {
  if (ShortAead::takes(aad.size(), sealed.size() - limits::tag_bytes)) {
    return state_->brief.open(nonce, aad, sealed, to);
  }
  EVP_CIPHER_CTX* const context = state_->whole.get();
  const ByteView cipher = sealed.first(sealed.size() - limits::tag_bytes);
  Block<limits::tag_bytes> tag;
  copy_to(tag.data(), sealed.last(limits::tag_bytes));
  int written = 0;
  return EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, raw(ByteView(nonce)), -1) == 1 &&
         EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, limits::tag_bytes, tag.data()) == 1 &&
         EVP_CipherUpdate(context, nullptr, &written, raw(aad), length(aad)) == 1 &&
         EVP_CipherUpdate(context, output(to), &written, input(cipher), length(cipher)) == 1 &&
         EVP_CipherFinal_ex(context, output(to), &written) == 1;
}

}  // namespace speed::wire
