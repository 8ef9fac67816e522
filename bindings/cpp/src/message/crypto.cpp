#include "message/crypto.hpp"

#include <algorithm>

namespace speed::message {

Hash sha256(Pieces data) {
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  for (const ByteView piece : data) {
    if (!piece.empty()) crypto_hash_sha256_update(&state, wire::raw(piece), piece.size());
  }
  Hash hash;
  crypto_hash_sha256_final(&state, wire::raw(std::span<std::byte>(hash)));
  return hash;
}

Hash hmac_sha256(ByteView key, Pieces data) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, wire::raw(key), key.size());
  for (const ByteView piece : data) {
    if (!piece.empty()) crypto_auth_hmacsha256_update(&state, wire::raw(piece), piece.size());
  }
  Hash mac;
  crypto_auth_hmacsha256_final(&state, wire::raw(std::span<std::byte>(mac)));
  sodium_memzero(&state, sizeof state);
  return mac;
}

Secret hkdf_extract(ByteView salt, Pieces secret) {
  const Hash zeros{};  // what RFC 5869 takes for no salt
  Hash extracted = hmac_sha256(salt.empty() ? ByteView(zeros) : salt, secret);
  Secret key(extracted);
  sodium_memzero(extracted.data(), extracted.size());
  return key;
}

// One block of RFC 5869 is all that is ever needed.
Secret hkdf_expand(ByteView key, Pieces info, std::size_t size) {
  Bytes block;
  for (const ByteView piece : info) wire::append(block, piece);
  block.push_back(std::byte{1});
  Hash expanded = hmac_sha256(key, {block});
  Secret made(ByteView(expanded).first(std::min(size, expanded.size())));
  sodium_memzero(expanded.data(), expanded.size());
  return made;
}

}  // namespace speed::message
