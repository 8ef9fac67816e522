// Sealing and opening the envelopes of one link (W-7, W-8, W-12, W-13).
// Threads: not thread-safe; the lock of the link or lane guards each object.
#pragma once

#include <functional>
#include <vector>

#include "wire/envelope/identity.hpp"
#include "wire/value/buffer.hpp"

namespace speed::wire {

using RandomSource = std::function<void(std::span<std::byte>)>;

// Random nonces, drawn in batches, each used once.
class NonceSource {
 public:
  explicit NonceSource(RandomSource random) : random_(std::move(random)) {}
  Nonce draw();

 private:
  static constexpr std::size_t batch = 256;
  RandomSource random_;
  std::vector<Nonce> nonces_;
};

class LinkSealer {
 public:
  LinkSealer(const Keyring& keyring, const NodeId& source, const NodeId& target, std::uint32_t generation,
             std::uint32_t target_life = 0);

  // From now on for this life of an ephemeral receiver (W-10), 0 for a receiver that is not ephemeral; by this bond of
  // two identities, or none.
  void seal_for(std::uint32_t target_life, BondPtr bond = nullptr);

  // What the receiver needs before the next envelope (I-4); null where the link is not bound.
  const LinkOpening* opening() const { return opening_ ? &*opening_ : nullptr; }

  // Appends one whole envelope to `out`. ConfigurationError when the counter does not fit (W-8).
  void seal(EnvelopeType type, std::uint16_t flags, std::uint64_t counter, std::uint64_t timestamp_ms, ByteView payload,
            const Nonce& nonce, Buffer& out);

 private:
  // What envelopes are sealed with, under the first key of the ring.
  struct Made {
    std::uint64_t changes = 0;
    Key key{};
    KeyId id{};
    std::optional<LinkOpening> opening;
  };
  static Made make(const Keyring& keyring, const BoundLink& link, const BondPtr& bond);
  LinkSealer(const Keyring& keyring, const BoundLink& link, BondPtr bond, Made made);
  void make_anew();

  const Keyring* keyring_;
  std::uint64_t changes_;  // of the ring, as far as they are heeded
  Header header_;
  BoundLink link_;
  BondPtr bond_;
  std::optional<LinkOpening> opening_;
  Aead aead_;
};

// Where the payload lies in a whole envelope.
inline std::span<std::byte> payload_in(std::span<std::byte> envelope) {
  return envelope.subspan(limits::aad_bytes, envelope.size() - envelope_overhead);
}

// Keys of bound links, by what their senders left (I-5). The opener's guard guards it.
class BoundKeys {
 public:
  BoundKeys() = default;
  BoundKeys(const BoundKeys&) = delete;
  BoundKeys& operator=(const BoundKeys&) = delete;
  virtual ~BoundKeys() = default;

  virtual std::uint64_t changes() const = 0;  // of the own secrets: what was opened before is opened again
  // WireError UNKNOWN_KEY where nothing opens it, BAD_IDENTITY where what does is not sound.
  virtual Key key(const KeyId& id, std::uint32_t generation) = 0;
};

class LinkOpener {
 public:
  // `target_life`: the receiver's generation if it is ephemeral, else 0 (W-10).
  LinkOpener(const Keyring& keyring, const NodeId& source, const NodeId& target, std::uint32_t target_life = 0)
      : keyring_(keyring), source_(source), target_(target), target_life_(target_life) {}

  // Links may be bound; these outlive the opener.
  void find_bound(BoundKeys& keys) { bound_ = &keys; }

  // Opens a whole envelope where it lies: its payload is then plain. One that is refused stays as it is.
  Refusal open(const Header& header, std::span<std::byte> envelope);
  Refusal check(const Header& header, ByteView envelope);  // what `open` would say

 private:
  struct Known {
    KeyId key_id;
    std::uint32_t generation;
    Aead aead;
  };
  // A few generations and keys are in use at a time; forged ones must not fill memory.
  static constexpr std::size_t most = 8;
  Refusal find(const Header& header, Aead*& aead);
  Refusal derive(const KeyId& key_id, std::uint32_t generation, Key& key);

  const Keyring& keyring_;
  BoundKeys* bound_ = nullptr;
  std::uint64_t changes_ = 0;  // of the ring and the bound keys, as far as they are heeded
  NodeId source_;
  NodeId target_;
  std::uint32_t target_life_;
  std::vector<Known> known_;
};

}  // namespace speed::wire
