#include "wire/keyring.hpp"

#include <sodium.h>

#include <algorithm>

#include "speed/error.hpp"

namespace speed::wire {

namespace {

Key label_key(const Key& key, std::string_view label, std::initializer_list<ByteView> parts) {
  Bytes info;
  append(info, view(label));
  for (const ByteView part : parts) append(info, part);
  return hkdf(key, info);
}

}  // namespace

Mac hmac(const Key& key, ByteView data) {
  Mac mac;
  crypto_auth_hmacsha256(raw(std::span<std::byte>(mac)), raw(data), data.size(), raw(ByteView(key)));
  return mac;
}

Key hkdf(const Key& key, ByteView info) {
  const Key extracted = hmac(Key{}, key);
  Bytes block(info.begin(), info.end());
  block.push_back(std::byte{1});
  return hmac(extracted, block);
}

KeyId key_id_of(const Key& key) {
  Bytes input;
  append(input, view("speed/1 key id"));
  append(input, key);
  Block<crypto_hash_sha256_BYTES> digest;
  crypto_hash_sha256(raw(std::span<std::byte>(digest)), raw(ByteView(input)), input.size());
  sodium_memzero(input.data(), input.size());
  KeyId id;
  std::copy_n(digest.begin(), id.size(), id.begin());
  return id;
}

Key link_key(const Key& key, const NodeId& source, const NodeId& target, std::uint32_t generation) {
  Block<8> number;
  store(number.data(), std::uint64_t{generation});
  return label_key(key, "speed/1 link", {source, target, number});
}

Key lane_key(const Key& key, const NodeId& source, const NodeId& target) {
  return label_key(key, "speed/1 lane", {source, target});
}

bool same_bytes(ByteView one, ByteView other) {
  return one.size() == other.size() && sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

Keyring::Keyring(std::vector<Key> keys) : keys_(std::move(keys)) {
  if (keys_.empty()) throw ConfigurationError("a keyring needs at least one key");
  for (const Key& key : keys_) {
    ids_.push_back(key_id_of(key));
    registry_keys_.push_back(label_key(key, "speed/1 registry", {}));
  }
}

Keyring::~Keyring() {
  for (Key& key : keys_) sodium_memzero(key.data(), key.size());
  for (Key& key : registry_keys_) sodium_memzero(key.data(), key.size());
}

const Key* Keyring::find(const KeyId& id) const {
  for (std::size_t at = 0; at < ids_.size(); ++at) {
    if (ids_[at] == id) return &keys_[at];
  }
  return nullptr;
}

std::vector<Key> Keyring::lane_keys(const NodeId& source, const NodeId& target) const {
  std::vector<Key> derived;
  for (const Key& key : keys_) derived.push_back(lane_key(key, source, target));
  return derived;
}

const Key& Keyring::known(const KeyId& id) const {
  if (const Key* const key = find(id)) return *key;
  throw WireError("UNKNOWN_KEY", "key id " + to_hex(id) + " is not in the key file");
}

Key Keyring::segments_key(const KeyId& id, ByteView info) const {
  return label_key(known(id), "speed/1 segments", {info});
}

Key Keyring::dead_letters_key(const KeyId& id, const NodeId& node) const {
  return label_key(known(id), "speed/1 dead letters", {node});
}

Block<16> Keyring::segments_name(const KeyId& id, ByteView name) const {
  const Mac mac = hmac(label_key(known(id), "speed/1 segments name", {}), name);
  Block<16> out;
  std::copy_n(mac.begin(), out.size(), out.begin());
  return out;
}

}  // namespace speed::wire
