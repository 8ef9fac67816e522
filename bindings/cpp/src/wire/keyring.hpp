// Keys and what is derived from them (W-9 to W-12).
// Threads: immutable after construction.
#pragma once

#include <vector>

#include "wire/aead.hpp"

namespace speed::wire {

using Mac = Block<32>;

Key hkdf(const Key& key, ByteView info);  // HKDF-SHA256, empty salt, 32 bytes (W-10)
Mac hmac(const Key& key, ByteView data);
KeyId key_id_of(const Key& key);
Key link_key(const Key& key, const NodeId& source, const NodeId& target, std::uint32_t generation);
Key lane_key(const Key& key, const NodeId& source, const NodeId& target);

// Compares in constant time.
bool same_bytes(ByteView one, ByteView other);

// The accepted pre-shared keys; the first one seals. Never shows a key.
class Keyring {
 public:
  explicit Keyring(std::vector<Key> keys);  // ConfigurationError without a key
  Keyring(const Keyring&) = delete;
  Keyring& operator=(const Keyring&) = delete;
  ~Keyring();

  const Key& sealing_key() const { return keys_.front(); }
  const Key* find(const KeyId& id) const;  // null: not accepted
  const KeyId& key_id() const { return ids_.front(); }
  const std::vector<Key>& registry_keys() const { return registry_keys_; }
  std::vector<Key> lane_keys(const NodeId& source, const NodeId& target) const;
  // What a node keeps of payloads in segments: the key that seals it, and 16 bytes that tell nothing about a name
  // without the key (G-14). WireError UNKNOWN_KEY.
  Key segments_key(const KeyId& id, ByteView info) const;
  Key dead_letters_key(const KeyId& id, const NodeId& node) const;  // of one node (S-18); UNKNOWN_KEY likewise
  Block<16> segments_name(const KeyId& id, ByteView name) const;

 private:
  const Key& known(const KeyId& id) const;

  std::vector<Key> keys_;
  std::vector<KeyId> ids_;
  std::vector<Key> registry_keys_;
};

}  // namespace speed::wire
