// ChaCha20-Poly1305 of short envelopes, put together from its two parts as RFC 8439, section 2.8, says.
// OpenSSL's combined cipher runs ChaCha20 three times for a few hundred bytes (the MAC's key, the whole blocks, the
// rest), which costs more than all the rest; here it runs once. The bytes are the same: tests hold it to libsodium.
// Threads: not thread-safe; the lock of the link or lane guards it.
#include <openssl/evp.h>
#include <sodium.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstring>
#include <new>

#include "wire/envelope/aead.hpp"
#include "wire/envelope/keyring.hpp"

namespace speed::wire {

struct FreeCipher {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, FreeCipher>;

// The number of the first block, 0, then the nonce.
inline Block<16> start_of(const Nonce& nonce) {
  Block<16> start{};
  copy_to(start.data() + 4, nonce);
  return start;
}

inline void store_little_endian(std::byte* to, std::uint64_t value) {
  for (std::size_t at = 0; at < sizeof value; ++at) to[at] = static_cast<std::byte>(value >> (8 * at) & 0xff);
}

// A context that keeps its key: later calls set the nonce only. std::bad_alloc, which is all that can fail.
Cipher keyed(const EVP_CIPHER* cipher, const Key& key, Aead::Direction direction);

class ShortAead {
 public:
  explicit ShortAead(const Key& key) : stream_(keyed(EVP_chacha20(), key, Aead::Direction::seal)) {}

  static bool takes(std::size_t aad, std::size_t text) { return aad <= max_aad && text <= max_text; }
  void seal(const Nonce& nonce, ByteView aad, ByteView plain, std::span<std::byte> to);
  bool open(const Nonce& nonce, ByteView aad, ByteView sealed, std::span<std::byte> to);

 private:
  static constexpr std::size_t max_aad = 96;
  static constexpr std::size_t max_text = 2048;
  static constexpr std::size_t block_bytes = 64;

  // [aad, padded | text, padded | lengths] for the MAC; before that, [block 0 | text] for the cipher, where block 0
  // ends where the text begins.
  using Work = Block<max_aad + max_text + block_bytes>;
  using MacKey = Block<32>;

  MacKey run(const Nonce& nonce, ByteView text, Work& work);
  static Block<limits::tag_bytes> tag_of(const MacKey& key, ByteView aad, std::size_t text, Work& work);

  Cipher stream_;
};

namespace {

// Payloads are bounded by max_payload_bytes, so every length fits an int.
int length(ByteView bytes) { return static_cast<int>(bytes.size()); }

// OpenSSL takes a null output for associated data; an empty span may point nowhere, which it would mistake for that.
unsigned char nowhere[1];
unsigned char* output(std::span<std::byte> to) { return to.empty() ? nowhere : raw(to); }
const unsigned char* input(ByteView from) { return from.empty() ? nowhere : raw(from); }

// OpenSSL's Poly1305 leaves the upper halves of the vector registers in use. Instructions from before AVX, of which most
// code on floats is made, then wait for these at each step: a service would compute at a tenth of its speed.
class VectorsLeftClean {
 public:
  VectorsLeftClean() = default;
  VectorsLeftClean(const VectorsLeftClean&) = delete;
  VectorsLeftClean& operator=(const VectorsLeftClean&) = delete;
#if defined(__x86_64__)
  ~VectorsLeftClean() {
    static const bool has_halves = __builtin_cpu_supports("avx") != 0;
    if (has_halves) clean();
  }

 private:
  [[gnu::target("avx")]] static void clean() { _mm256_zeroupper(); }
#else
  ~VectorsLeftClean() {}
#endif
};

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
  const VectorsLeftClean left_clean;
  if (ShortAead::takes(aad.size(), plain.size())) return state_->brief.seal(nonce, aad, plain, to);
  EVP_CIPHER_CTX* const context = state_->whole.get();
  int written = 0;
  const bool sealed =
      EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, raw(ByteView(nonce)), -1) == 1 &&
      EVP_CipherUpdate(context, nullptr, &written, raw(aad), length(aad)) == 1 &&
      EVP_CipherUpdate(context, output(to), &written, input(plain), length(plain)) == 1 &&
      EVP_CipherFinal_ex(context, output(to), &written) == 1 &&
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, limits::tag_bytes, raw(to.last(limits::tag_bytes))) == 1;
  if (!sealed) throw std::bad_alloc();  // the only failure left once the key is set
}

bool Aead::open(const Nonce& nonce, ByteView aad, ByteView sealed, std::span<std::byte> to) {
  const VectorsLeftClean left_clean;
  if (ShortAead::takes(aad.size(), sealed.size() - limits::tag_bytes)) {
    return state_->brief.open(nonce, aad, sealed, to);
  }
  if (!is_authentic(nonce, aad, sealed)) return false;
  const ByteView text = sealed.first(to.size());
  int written = 0;
  if (EVP_CipherUpdate(state_->whole.get(), output(to), &written, input(text), length(text)) != 1)
    throw std::bad_alloc();
  return true;
}

// Leaves the cipher where the text begins: behind block 0, whose first half is the MAC's key.
bool Aead::is_authentic(const Nonce& nonce, ByteView aad, ByteView sealed) {
  const VectorsLeftClean left_clean;
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

namespace {

constexpr std::size_t mac_block_bytes = 16;

constexpr std::size_t whole(std::size_t size, std::size_t block) { return (size + block - 1) / block * block; }

void check(bool good) {
  if (!good) throw std::bad_alloc();
}

}  // namespace

Cipher keyed(const EVP_CIPHER* cipher, const Key& key, Aead::Direction direction) {
  Cipher context(EVP_CIPHER_CTX_new());
  const int encrypt = direction == Aead::Direction::seal ? 1 : 0;
  check(context != nullptr &&
        EVP_CipherInit_ex(context.get(), cipher, nullptr, raw(ByteView(key)), nullptr, encrypt) == 1);
  return context;
}

void ShortAead::seal(const Nonce& nonce, ByteView aad, ByteView plain, std::span<std::byte> to) {
  Work work;
  MacKey key = run(nonce, plain, work);
  copy_to(to.data(), ByteView(work).subspan(max_aad, plain.size()));
  sodium_memzero(work.data() + max_aad - block_bytes, block_bytes);  // the key once more
  copy_to(to.last(limits::tag_bytes).data(), tag_of(key, aad, plain.size(), work));
  sodium_memzero(key.data(), key.size());
}

bool ShortAead::open(const Nonce& nonce, ByteView aad, ByteView sealed, std::span<std::byte> to) {
  const ByteView text = sealed.first(sealed.size() - limits::tag_bytes);
  Work opened;
  MacKey key = run(nonce, text, opened);
  Work work;
  copy_to(work.data() + max_aad, text);
  const auto tag = tag_of(key, aad, text.size(), work);
  sodium_memzero(key.data(), key.size());
  sodium_memzero(opened.data() + max_aad - block_bytes, block_bytes);  // the key once more
  if (crypto_verify_16(raw(ByteView(tag)), raw(sealed.last(tag.size()))) != 0) return false;
  copy_to(to.data(), ByteView(opened).subspan(max_aad, text.size()));
  return true;
}

// One run of the cipher over block 0, whose first half is the MAC's key, and the text behind it.
ShortAead::MacKey ShortAead::run(const Nonce& nonce, ByteView text, Work& work) {
  const std::size_t size = block_bytes + whole(text.size(), block_bytes);
  const std::span<std::byte> all = std::span(work).subspan(max_aad - block_bytes, size);
  std::memset(all.data(), 0, block_bytes);
  copy_to(all.data() + block_bytes, text);
  std::memset(all.data() + block_bytes + text.size(), 0, size - block_bytes - text.size());
  const Block<16> start = start_of(nonce);
  int written = 0;
  check(EVP_CipherInit_ex(stream_.get(), nullptr, nullptr, nullptr, raw(ByteView(start)), -1) == 1 &&
        EVP_CipherUpdate(stream_.get(), raw(all), &written, raw(ByteView(all)), static_cast<int>(all.size())) == 1);
  MacKey key;
  copy_to(key.data(), all.first(key.size()));
  return key;
}

// The tag over the ciphertext that lies in `work`.
Block<limits::tag_bytes> ShortAead::tag_of(const MacKey& key, ByteView aad, std::size_t text, Work& work) {
  const std::size_t padded_aad = whole(aad.size(), mac_block_bytes);
  const std::size_t padded_text = whole(text, mac_block_bytes);
  std::byte* const begin = work.data() + max_aad - padded_aad;
  std::byte* const at = work.data() + max_aad;
  copy_to(begin, aad);
  std::memset(begin + aad.size(), 0, padded_aad - aad.size());
  std::memset(at + text, 0, padded_text - text);
  store_little_endian(at + padded_text, aad.size());
  store_little_endian(at + padded_text + 8, text);
  Block<limits::tag_bytes> tag;
  crypto_onetimeauth_poly1305(raw(std::span<std::byte>(tag)), raw(ByteView(begin, padded_aad + padded_text + 16)),
                              padded_aad + padded_text + 16, raw(ByteView(key)));
  return tag;
}

namespace {

constexpr std::size_t block_bytes = 64;
constexpr std::byte inner_pad{0x36};
constexpr std::byte outer_pad{0x5c};

struct FreeDigest {
  void operator()(EVP_MD_CTX* digest) const { EVP_MD_CTX_free(digest); }
};
using Digest = std::unique_ptr<EVP_MD_CTX, FreeDigest>;

Digest begun() {
  Digest digest(EVP_MD_CTX_new());
  check(digest != nullptr && EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr) == 1);
  return digest;
}

Digest padded(const Key& key, std::byte pad) {
  Block<block_bytes> block;
  block.fill(pad);
  for (std::size_t at = 0; at < key.size(); ++at) block[at] ^= key[at];
  Digest digest = begun();
  check(EVP_DigestUpdate(digest.get(), block.data(), block.size()) == 1);
  sodium_memzero(block.data(), block.size());
  return digest;
}

}  // namespace

// The two hashes of RFC 2104 behind their first block, which is the padded key.
struct MacKey::State {
  Digest inner;
  Digest outer;
  Digest work = begun();

  void hash(const Digest& from, ByteView data, Mac& mac) {
    check(EVP_MD_CTX_copy_ex(work.get(), from.get()) == 1 &&
          EVP_DigestUpdate(work.get(), data.data(), data.size()) == 1 &&
          EVP_DigestFinal_ex(work.get(), raw(std::span<std::byte>(mac)), nullptr) == 1);
  }
};

MacKey::MacKey(const Key& key) : state_(new State{padded(key, inner_pad), padded(key, outer_pad)}) {}
MacKey::MacKey(MacKey&&) noexcept = default;
MacKey& MacKey::operator=(MacKey&&) noexcept = default;
MacKey::~MacKey() = default;

Mac MacKey::of(ByteView data) {
  Mac mac;
  state_->hash(state_->inner, data, mac);
  state_->hash(state_->outer, mac, mac);
  return mac;
}

}  // namespace speed::wire
