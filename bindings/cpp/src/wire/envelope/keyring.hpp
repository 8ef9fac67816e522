// Keys and what is derived from them (W-9 to W-12).
// Threads: all methods may be called from any thread, but for LaneKeys.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wire/envelope/aead.hpp"
#include "wire/mutex.hpp"

namespace speed::wire {

using Mac = Block<32>;

Key hkdf(const Key& key, ByteView info);  // HKDF-SHA256, empty salt, 32 bytes (W-10)
Mac hmac(const Key& key, ByteView data);
KeyId key_id_of(const Key& key);
// `target_life` is the generation of a receiver that is ephemeral: it keeps no record of what it handled, so what was
// sealed for one life of its name must not open in the next. 0 for a receiver that is not.
Key link_key(const Key& key, const NodeId& source, const NodeId& target, std::uint32_t generation,
             std::uint32_t target_life = 0);
Key lane_key(const Key& key, const NodeId& source, const NodeId& target);

// Compares in constant time.
bool same_bytes(ByteView one, ByteView other);

// The accepted keys at one moment, the sealing one first, and what is made of them alone. Never shows a key.
struct Keys {
  explicit Keys(std::vector<Key> accepted);  // ConfigurationError without a key
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;
  ~Keys();

  const Key* find(const KeyId& id) const;  // null: not accepted

  std::vector<Key> keys;
  std::vector<KeyId> ids;
  std::vector<Key> registry_keys;
};

class LaneKeys;

// The accepted pre-shared keys; the first one seals. They are replaced as a whole when they change: who keeps what was
// derived from them compares `changes`.
class Keyring {
 public:
  explicit Keyring(std::vector<Key> keys);  // ConfigurationError without a key
  Keyring(const Keyring&) = delete;
  Keyring& operator=(const Keyring&) = delete;
  ~Keyring() = default;

  std::shared_ptr<const Keys> now() const;
  std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  void take(std::vector<Key> keys);                    // accepts these, and no others any more
  Keyring frozen() const { return Keyring(now()->keys); }  // the keys of this moment, which stay

  // Looks for new keys; it is done as well when one is missing. Set before others use the ring.
  void look_with(std::function<void()> look) { look_ = std::move(look); }
  void look() const;
  // Told of other keys, once they are those of now. Set before others use the ring.
  void tell_with(std::function<void()> changed) { changed_ = std::move(changed); }

  Key sealing_key() const { return now()->keys.front(); }
  std::optional<Key> find(const KeyId& id) const;  // nothing: not accepted
  KeyId key_id() const { return now()->ids.front(); }
  std::vector<Key> registry_keys() const { return now()->registry_keys; }
  LaneKeys lane_keys(const NodeId& source, const NodeId& target) const;
  // What a node keeps of payloads in segments: the key that seals it, and 16 bytes that tell nothing about a name
  // without the key (G-14). WireError UNKNOWN_KEY.
  Key segments_key(const KeyId& id, ByteView info) const;
  Key dead_letters_key(const KeyId& id, const NodeId& node) const;  // of one node (S-18); UNKNOWN_KEY likewise
  Block<16> segments_name(const KeyId& id, ByteView name) const;

 private:
  Key known(const KeyId& id) const;

  mutable Mutex lock_;
  std::shared_ptr<const Keys> now_ SPEED_GUARDED_BY(lock_);
  std::atomic<std::uint64_t> changes_ = 0;
  std::function<void()> look_;
  std::function<void()> changed_;
};

// The MAC keys of the files of one link as they are now (W-11), the one to write with first.
// Threads: not thread-safe; the lock of the link or lane guards it. The ring outlives it.
class LaneKeys {
 public:
  LaneKeys(const Keyring& ring, const NodeId& source, const NodeId& target);

  const std::vector<Key>& now() const;
  const Key& front() const { return now().front(); }
  operator const std::vector<Key>&() const { return now(); }  // NOLINT(google-explicit-constructor): they are those

 private:
  void derive() const;

  const Keyring* ring_;
  NodeId source_;
  NodeId target_;
  mutable std::uint64_t changes_ = 0;
  mutable std::vector<Key> derived_;
};

// The text of a key file (W-14).

// The keys, the sealing one first; KeyFileError names the line, never its content.
std::vector<Key> parse_key_file(std::string_view text);
std::string format_key_file(const std::vector<Key>& keys);

std::string to_base64(ByteView bytes);

// HMAC-SHA256 under one key that is used often: what depends on the key alone is hashed once.
// Threads: not thread-safe; the lock of its owner guards it.

class MacKey {
 public:
  explicit MacKey(const Key& key);
  MacKey(MacKey&&) noexcept;
  MacKey& operator=(MacKey&&) noexcept;
  ~MacKey();

  Mac of(ByteView data);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace speed::wire
