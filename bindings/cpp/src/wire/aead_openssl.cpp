#include <sodium.h>

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

struct FreeMac {
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
};

// The MAC of RFC 8439, section 2.8, over what may be long; of libsodium's it has several times the speed.
class Poly1305 {
 public:
  explicit Poly1305(ByteView key) : context_(EVP_MAC_CTX_new(algorithm())) {
    good_ = context_ != nullptr && EVP_MAC_init(context_.get(), raw(key), key.size(), nullptr) == 1;
  }

  void add_padded(ByteView data) {
    static constexpr Block<block_bytes> zeros{};
    add(data);
    add(ByteView(zeros).first((block_bytes - data.size() % block_bytes) % block_bytes));
  }

  void add_lengths(std::size_t aad, std::size_t text) {
    Block<block_bytes> lengths;
    store_little_endian(lengths.data(), aad);
    store_little_endian(lengths.data() + 8, text);
    add(lengths);
  }

  Block<limits::tag_bytes> tag() {
    Block<limits::tag_bytes> tag;
    std::size_t size = 0;
    good_ = good_ && EVP_MAC_final(context_.get(), raw(std::span<std::byte>(tag)), &size, tag.size()) == 1;
    if (!good_) throw std::bad_alloc();
    return tag;
  }

 private:
  static constexpr std::size_t block_bytes = 16;

  static EVP_MAC* algorithm() {
    static EVP_MAC* const fetched = EVP_MAC_fetch(nullptr, "POLY1305", nullptr);
    return fetched;
  }

  void add(ByteView data) { good_ = good_ && EVP_MAC_update(context_.get(), input(data), data.size()) == 1; }

  std::unique_ptr<EVP_MAC_CTX, FreeMac> context_;
  bool good_ = false;
};

}  // namespace

// The combined cipher decrypts before it knows whether it should: what is long is opened by ChaCha20 alone.
struct Aead::State {
  Cipher whole;
  ShortAead brief;
};

Aead::Aead(const Key& key, Direction direction)
    : state_(new State{keyed(direction == Direction::seal ? EVP_chacha20_poly1305() : EVP_chacha20(), key, direction),
                       ShortAead(key)}) {}
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
  if (!is_authentic(nonce, aad, sealed)) return false;
  const ByteView text = sealed.first(to.size());
  int written = 0;
  if (EVP_CipherUpdate(state_->whole.get(), output(to), &written, input(text), length(text)) != 1) throw std::bad_alloc();
  return true;
}

// Leaves the cipher where the text begins: behind block 0, whose first half is the MAC's key.
bool Aead::is_authentic(const Nonce& nonce, ByteView aad, ByteView sealed) {
  EVP_CIPHER_CTX* const context = state_->whole.get();
  const ByteView text = sealed.first(sealed.size() - limits::tag_bytes);
  Block<64> first{};
  const Block<16> start = start_of(nonce);
  int written = 0;
  if (EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, raw(ByteView(start)), -1) != 1 ||
      EVP_CipherUpdate(context, raw(std::span<std::byte>(first)), &written, raw(ByteView(first)), length(first)) != 1) {
    throw std::bad_alloc();
  }
  Poly1305 mac(ByteView(first).first(32));
  sodium_memzero(first.data(), first.size());
  mac.add_padded(aad);
  mac.add_padded(text);
  mac.add_lengths(aad.size(), text.size());
  return crypto_verify_16(raw(ByteView(mac.tag())), raw(sealed.last(limits::tag_bytes))) == 0;
}

}  // namespace speed::wire
