#include <openssl/evp.h>
#include <sodium.h>

#include <new>

#include "wire/mac.hpp"

namespace speed::wire {

namespace {

constexpr std::size_t block_bytes = 64;
constexpr std::byte inner_pad{0x36};
constexpr std::byte outer_pad{0x5c};

struct FreeDigest {
  void operator()(EVP_MD_CTX* digest) const { EVP_MD_CTX_free(digest); }
};
using Digest = std::unique_ptr<EVP_MD_CTX, FreeDigest>;

void check(bool good) {
  if (!good) throw std::bad_alloc();  // nothing else can fail here
}

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
