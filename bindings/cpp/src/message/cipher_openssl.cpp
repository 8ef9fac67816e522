#include <openssl/err.h>
#include <openssl/evp.h>

#include <memory>
#include <new>

#include "message/cipher.hpp"

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
  const bool sealed = run.over(associated, plain, text) && run.ends(text) &&
                      run.tag(EVP_CTRL_AEAD_GET_TAG, to.data() + plain.size());
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

}  // namespace speed::message
