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
    : LinkSealer(keyring, {source, target, generation, target_life}, nullptr,
                 make(keyring, {source, target, generation, target_life}, nullptr)) {}

LinkSealer::LinkSealer(const Keyring& keyring, const BoundLink& link, BondPtr bond, Made made)
    : keyring_(&keyring),
      changes_(made.changes),
      link_(link),
      bond_(std::move(bond)),
      opening_(std::move(made.opening)),
      aead_(made.key, Aead::Direction::seal) {
  header_.source = link.source;
  header_.target = link.target;
  header_.key_id = made.id;
}

LinkSealer::Made LinkSealer::make(const Keyring& keyring, const BoundLink& link, const BondPtr& bond) {
  const std::uint64_t changes = keyring.changes();  // before the keys: what changes in between is heeded next
  const auto keys = keyring.now();
  const Key& shared = keys->keys.front();
  if (bond == nullptr) {
    const Key key = link_key(shared, link.source, link.target, link.generation, link.target_life);
    return {changes, key, keys->ids.front(), std::nullopt};
  }
  auto [key, opening] = bond->bind(shared, link);
  return {changes, key, key_id_of(key), std::move(opening)};
}

void LinkSealer::seal_for(std::uint32_t target_life, BondPtr bond) {
  if (target_life == link_.target_life && bond == bond_) return;
  BoundLink link = link_;
  link.target_life = target_life;
  Made made = make(*keyring_, link, bond);
  *this = LinkSealer(*keyring_, link, std::move(bond), std::move(made));
}

void LinkSealer::make_anew() {
  Made made = make(*keyring_, link_, bond_);
  *this = LinkSealer(*keyring_, link_, bond_, std::move(made));
}

void LinkSealer::seal(EnvelopeType type, std::uint16_t flags, std::uint64_t counter, std::uint64_t timestamp_ms,
                      ByteView payload, const Nonce& nonce, Buffer& out) {
  if (counter == 0 || counter > max_counter) {
    throw ConfigurationError("the counter of a link is used up: close this node and start it anew");
  }
  if (keyring_->changes() != changes_) make_anew();
  header_.type = type;
  header_.flags = flags;
  header_.sequence = make_sequence(link_.generation, counter);
  header_.timestamp_ms = timestamp_ms;
  header_.payload_bytes = payload.size();
  header_.nonce = nonce;
  const std::span<std::byte> envelope = out.extend(envelope_overhead + payload.size());
  write_headers(header_, envelope.first<limits::aad_bytes>());
  aead_.seal(nonce, envelope.first(limits::aad_bytes), payload, envelope.subspan(limits::aad_bytes));
}

Refusal LinkOpener::open(const Header& header, std::span<std::byte> envelope) {
  Aead* aead = nullptr;
  if (const Refusal refusal = find(header, aead); refusal != Refusal::ok) return refusal;
  const bool authentic = aead->open(header.nonce, envelope.first(limits::aad_bytes),
                                    envelope.subspan(limits::aad_bytes), payload_in(envelope));
  return authentic ? Refusal::ok : Refusal::bad_tag;
}

Refusal LinkOpener::check(const Header& header, ByteView envelope) {
  Aead* aead = nullptr;
  if (const Refusal refusal = find(header, aead); refusal != Refusal::ok) return refusal;
  const bool authentic =
      aead->is_authentic(header.nonce, envelope.first(limits::aad_bytes), envelope.subspan(limits::aad_bytes));
  return authentic ? Refusal::ok : Refusal::bad_tag;
}

Refusal LinkOpener::find(const Header& header, Aead*& aead) {
  const std::uint64_t changes = keyring_.changes() + (bound_ == nullptr ? 0 : bound_->changes());
  if (changes != changes_) {
    known_.clear();  // a key that was retired is not accepted any more
    changes_ = changes;
  }
  const std::uint32_t generation = generation_of(header.sequence);
  for (Known& known : known_) {
    if (known.generation != generation || known.key_id != header.key_id) continue;
    aead = &known.aead;
    return Refusal::ok;
  }
  Key key;
  if (const Refusal refusal = derive(header.key_id, generation, key); refusal != Refusal::ok) return refusal;
  if (known_.size() == most) known_.erase(known_.begin());
  known_.push_back({header.key_id, generation, Aead(key, Aead::Direction::open)});
  aead = &known_.back().aead;
  return Refusal::ok;
}

Refusal LinkOpener::derive(const KeyId& key_id, std::uint32_t generation, Key& key) {
  if (bound_ != nullptr && keyring_.now()->find(key_id) == nullptr) {
    try {
      key = bound_->key(key_id, generation);
      return Refusal::ok;
    } catch (const WireError& error) {
      if (error.reason() != "UNKNOWN_KEY") return Refusal::bad_identity;
    }
  }
  const std::optional<Key> shared = keyring_.find(key_id);
  if (!shared) return Refusal::unknown_key;
  key = link_key(*shared, source_, target_, generation, target_life_);
  return Refusal::ok;
}

}  // namespace speed::wire
