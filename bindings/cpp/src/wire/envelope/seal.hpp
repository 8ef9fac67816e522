// Sealing and opening the envelopes of one link (W-7, W-8, W-12, W-13).
// Threads: not thread-safe; the lock of the link or lane guards each object.
#pragma once

#include <functional>
#include <vector>

#include "wire/envelope/keyring.hpp"
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

  // From now on for this life of an ephemeral receiver (W-10); 0 for a receiver that is not ephemeral.
  void seal_for(std::uint32_t target_life);

  // Appends one whole envelope to `out`. ConfigurationError when the counter does not fit (W-8).
  void seal(EnvelopeType type, std::uint16_t flags, std::uint64_t counter, std::uint64_t timestamp_ms, ByteView payload,
            const Nonce& nonce, Buffer& out);

 private:
  LinkSealer(const Keyring& keyring, std::uint64_t changes, const Keys& keys, const NodeId& source,
             const NodeId& target, std::uint32_t generation, std::uint32_t target_life);

  const Keyring* keyring_;
  std::uint64_t changes_;  // of the ring, as far as they are heeded
  Header header_;
  std::uint32_t generation_;
  std::uint32_t target_life_;
  Aead aead_;
};

// Where the payload lies in a whole envelope.
inline std::span<std::byte> payload_in(std::span<std::byte> envelope) {
  return envelope.subspan(limits::aad_bytes, envelope.size() - envelope_overhead);
}

class LinkOpener {
 public:
  // `target_life`: the receiver's generation if it is ephemeral, else 0 (W-10).
  LinkOpener(const Keyring& keyring, const NodeId& source, const NodeId& target, std::uint32_t target_life = 0)
      : keyring_(keyring), source_(source), target_(target), target_life_(target_life) {}

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
  Aead* aead_for(const KeyId& key_id, std::uint32_t generation);

  const Keyring& keyring_;
  std::uint64_t changes_ = 0;  // of the ring, as far as they are heeded
  NodeId source_;
  NodeId target_;
  std::uint32_t target_life_;
  std::vector<Known> known_;
};

}  // namespace speed::wire
