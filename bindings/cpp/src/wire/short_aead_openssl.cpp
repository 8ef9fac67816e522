#include <sodium.h>

#include <cstring>
#include <new>

#include "wire/short_aead.hpp"

namespace speed::wire {

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

}  // namespace speed::wire
