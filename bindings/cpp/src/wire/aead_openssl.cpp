#include <openssl/evp.h>

#include <new>

#include "wire/aead.hpp"

namespace speed::wire {

namespace {

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};

// Payloads are bounded by max_payload_bytes, so every length fits an int.
int length(ByteView bytes) { return static_cast<int>(bytes.size()); }

// OpenSSL takes a null output for associated data; an empty span may point nowhere, which it would mistake for that.
unsigned char nowhere[1];
unsigned char* output(std::span<std::byte> to) { return to.empty() ? nowhere : raw(to); }
const unsigned char* input(ByteView from) { return from.empty() ? nowhere : raw(from); }

}  // namespace

struct Aead::State {
  std::unique_ptr<EVP_CIPHER_CTX, FreeContext> context{EVP_CIPHER_CTX_new()};
};

Aead::Aead(const Key& key, Direction direction) : state_(std::make_unique<State>()) {
  EVP_CIPHER_CTX* const context = state_->context.get();
  const int encrypt = direction == Direction::seal ? 1 : 0;
  if (context == nullptr ||
      EVP_CipherInit_ex(context, EVP_chacha20_poly1305(), nullptr, raw(ByteView(key)), nullptr, encrypt) != 1) {
    throw std::bad_alloc();
  }
}
Aead::Aead(Aead&&) noexcept = default;
Aead& Aead::operator=(Aead&&) noexcept = default;
Aead::~Aead() = default;

void Aead::seal(const Nonce& nonce, ByteView aad, ByteView plain, std::span<std::byte> to) {
  EVP_CIPHER_CTX* const context = state_->context.get();
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
  EVP_CIPHER_CTX* const context = state_->context.get();
  const ByteView cipher = sealed.first(sealed.size() - limits::tag_bytes);
  Block<limits::tag_bytes> tag;
  std::ranges::copy(sealed.last(limits::tag_bytes), tag.begin());
  int written = 0;
  return EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, raw(ByteView(nonce)), -1) == 1 &&
         EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, limits::tag_bytes, tag.data()) == 1 &&
         EVP_CipherUpdate(context, nullptr, &written, raw(aad), length(aad)) == 1 &&
         EVP_CipherUpdate(context, output(to), &written, input(cipher), length(cipher)) == 1 &&
         EVP_CipherFinal_ex(context, output(to), &written) == 1;
}

}  // namespace speed::wire
