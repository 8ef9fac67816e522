#include "wire/envelope/seal.hpp"

#include "speed/error.hpp"

namespace speed::wire {

Nonce NonceSource::draw() {
  if (nonces_.empty()) {
    nonces_.resize(batch);
    random_(std::as_writable_bytes(std::span(nonces_)));
  }
  const Nonce nonce = nonces_.back();
  nonces_.pop_back();
  return nonce;
}

LinkSealer::LinkSealer(const Keyring& keyring, const NodeId& source, const NodeId& target, std::uint32_t generation,
                       std::uint32_t target_life)
    : LinkSealer(keyring, keyring.changes(), *keyring.now(), source, target, generation, target_life) {}

LinkSealer::LinkSealer(const Keyring& keyring, std::uint64_t changes, const Keys& keys, const NodeId& source,
                       const NodeId& target, std::uint32_t generation, std::uint32_t target_life)
    : keyring_(&keyring),
      changes_(changes),
      generation_(generation),
      target_life_(target_life),
      aead_(link_key(keys.keys.front(), source, target, generation, target_life), Aead::Direction::seal) {
  header_.source = source;
  header_.target = target;
  header_.key_id = keys.ids.front();
}

void LinkSealer::seal_for(std::uint32_t target_life) {
  if (target_life == target_life_) return;
  *this = LinkSealer(*keyring_, header_.source, header_.target, generation_, target_life);
}

void LinkSealer::seal(EnvelopeType type, std::uint16_t flags, std::uint64_t counter, std::uint64_t timestamp_ms,
                      ByteView payload, const Nonce& nonce, Buffer& out) {
  if (counter == 0 || counter > max_counter) {
    throw ConfigurationError("the counter of a link is used up: close this node and start it anew");
  }
  if (keyring_->changes() != changes_) {
    *this = LinkSealer(*keyring_, header_.source, header_.target, generation_, target_life_);
  }
  header_.type = type;
  header_.flags = flags;
  header_.sequence = make_sequence(generation_, counter);
  header_.timestamp_ms = timestamp_ms;
  header_.payload_bytes = payload.size();
  header_.nonce = nonce;
  const std::span<std::byte> envelope = out.extend(envelope_overhead + payload.size());
  write_headers(header_, envelope.first<limits::aad_bytes>());
  aead_.seal(nonce, envelope.first(limits::aad_bytes), payload, envelope.subspan(limits::aad_bytes));
}

Refusal LinkOpener::open(const Header& header, std::span<std::byte> envelope) {
  Aead* const aead = aead_for(header.key_id, generation_of(header.sequence));
  if (aead == nullptr) return Refusal::unknown_key;
  const bool authentic = aead->open(header.nonce, envelope.first(limits::aad_bytes),
                                    envelope.subspan(limits::aad_bytes), payload_in(envelope));
  return authentic ? Refusal::ok : Refusal::bad_tag;
}

Refusal LinkOpener::check(const Header& header, ByteView envelope) {
  Aead* const aead = aead_for(header.key_id, generation_of(header.sequence));
  if (aead == nullptr) return Refusal::unknown_key;
  const bool authentic =
      aead->is_authentic(header.nonce, envelope.first(limits::aad_bytes), envelope.subspan(limits::aad_bytes));
  return authentic ? Refusal::ok : Refusal::bad_tag;
}

Aead* LinkOpener::aead_for(const KeyId& key_id, std::uint32_t generation) {
  if (const std::uint64_t changes = keyring_.changes(); changes != changes_) {
    known_.clear();  // a key that was retired is not accepted any more
    changes_ = changes;
  }
  for (Known& known : known_) {
    if (known.generation == generation && known.key_id == key_id) return &known.aead;
  }
  const std::optional<Key> key = keyring_.find(key_id);
  if (!key) return nullptr;
  if (known_.size() == most) known_.erase(known_.begin());
  const Key derived = link_key(*key, source_, target_, generation, target_life_);
  known_.push_back({key_id, generation, Aead(derived, Aead::Direction::open)});
  return &known_.back().aead;
}

}  // namespace speed::wire
