#include "wire/envelope/keyring.hpp"

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

Key link_key(const Key& key, const NodeId& source, const NodeId& target, std::uint32_t generation,
             std::uint32_t target_life) {
  Block<8> number;
  store(number.data(), std::uint64_t{generation});
  if (target_life != 0) {
    Block<8> life;
    store(life.data(), std::uint64_t{target_life});
    return label_key(key, "speed/1 link", {source, target, number, life});
  }
  return label_key(key, "speed/1 link", {source, target, number});
}

Key lane_key(const Key& key, const NodeId& source, const NodeId& target) {
  return label_key(key, "speed/1 lane", {source, target});
}

bool same_bytes(ByteView one, ByteView other) {
  return one.size() == other.size() && sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

Keys::Keys(std::vector<Key> accepted) : keys(std::move(accepted)) {
  if (keys.empty()) throw ConfigurationError("a keyring needs at least one key");
  for (const Key& key : keys) {
    ids.push_back(key_id_of(key));
    registry_keys.push_back(label_key(key, "speed/1 registry", {}));
  }
}

Keys::~Keys() {
  for (Key& key : keys) sodium_memzero(key.data(), key.size());
  for (Key& key : registry_keys) sodium_memzero(key.data(), key.size());
}

const Key* Keys::find(const KeyId& id) const {
  for (std::size_t at = 0; at < ids.size(); ++at) {
    if (ids[at] == id) return &keys[at];
  }
  return nullptr;
}

Keyring::Keyring(std::vector<Key> keys) : now_(std::make_shared<const Keys>(std::move(keys))) {}

std::shared_ptr<const Keys> Keyring::now() const {
  const MutexLock guard(lock_);
  return now_;
}

void Keyring::take(std::vector<Key> keys) {
  if (keys == now()->keys) return;
  auto changed = std::make_shared<const Keys>(std::move(keys));
  {
    const MutexLock guard(lock_);
    now_ = std::move(changed);
    changes_.fetch_add(1, std::memory_order_release);
  }
  if (changed_) changed_();
}

void Keyring::look() const {
  if (look_) look_();
}

std::optional<Key> Keyring::find(const KeyId& id) const {
  if (const auto keys = now(); const Key* const key = keys->find(id)) return *key;
  look();
  const auto keys = now();
  const Key* const key = keys->find(id);
  return key == nullptr ? std::nullopt : std::optional(*key);
}

LaneKeys Keyring::lane_keys(const NodeId& source, const NodeId& target) const { return {*this, source, target}; }

LaneKeys::LaneKeys(const Keyring& ring, const NodeId& source, const NodeId& target)
    : ring_(&ring), source_(source), target_(target) {
  derive();
}

const std::vector<Key>& LaneKeys::now() const {
  if (ring_->changes() != changes_) derive();
  return derived_;
}

void LaneKeys::derive() const {
  changes_ = ring_->changes();  // before the keys: what changes in between is derived with the next use
  const std::shared_ptr<const Keys> keys = ring_->now();
  derived_.clear();
  for (const Key& key : keys->keys) derived_.push_back(lane_key(key, source_, target_));
}

Key Keyring::known(const KeyId& id) const {
  if (const std::optional<Key> key = find(id)) return *key;
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

namespace {

constexpr char fix[] = "; make one with `speed key new`";

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (true) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    const std::size_t last = line.find_last_not_of(" \t\r");
    lines.push_back(last == std::string_view::npos ? std::string_view() : line.substr(0, last + 1));
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 1);
  }
}

Key parse_key(std::string_view line, std::size_t number) {
  Key key;
  std::size_t size = 0;
  const char* end = nullptr;
  const int failed = sodium_base642bin(raw(std::span<std::byte>(key)), key.size(), line.data(), line.size(), nullptr,
                                       &size, &end, sodium_base64_VARIANT_ORIGINAL);
  if (failed == 0 && size != key.size() && end == line.data() + line.size()) {
    throw KeyFileError("line " + std::to_string(number) + " of the key file has " + std::to_string(size) +
                       " bytes, not " + std::to_string(key.size()) + fix);
  }
  if (failed != 0 || size != key.size() || end != line.data() + line.size() || to_base64(key) != line) {
    throw KeyFileError("line " + std::to_string(number) + " of the key file is not the Base64 of 32 bytes" + fix);
  }
  return key;
}

}  // namespace

std::string to_base64(ByteView bytes) {
  std::string text(sodium_base64_ENCODED_LEN(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(text.data(), text.size(), raw(bytes), bytes.size(), sodium_base64_VARIANT_ORIGINAL);
  text.pop_back();  // the terminating zero
  return text;
}

std::vector<Key> parse_key_file(std::string_view text) {
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) > 0x7f; })) {
    throw KeyFileError(std::string("the key file is no text") + fix);
  }
  const std::vector<std::string_view> lines = lines_of(text);
  if (lines[0] != "SPEED-KEY-V1") throw KeyFileError(std::string("line 1 of the key file is not SPEED-KEY-V1") + fix);
  if (lines.size() < 2 || !lines[1].empty()) {
    throw KeyFileError(std::string("line 2 of the key file is not blank") + fix);
  }
  std::vector<Key> keys;
  for (std::size_t at = 2; at < lines.size(); ++at) {
    if (lines[at].empty()) continue;
    const Key key = parse_key(lines[at], at + 1);
    if (keys.size() == limits::max_keys || std::ranges::find(keys, key) != keys.end()) {
      throw KeyFileError(std::string("the key file has too many keys or one twice") + fix);
    }
    keys.push_back(key);
  }
  if (keys.empty()) throw KeyFileError(std::string("the key file has no key after line 2") + fix);
  return keys;
}

std::string format_key_file(const std::vector<Key>& keys) {
  std::string text = "SPEED-KEY-V1\n\n";
  for (const Key& key : keys) text += to_base64(key) + "\n";
  return text;
}

}  // namespace speed::wire
