#include "fs/lane/openings.hpp"

#include <algorithm>

#include "speed/error.hpp"

namespace speed::fs {

Openings::Openings(const IdentitySource& own, const wire::Keyring& keyring, const LaneFiles& files,
                   const wire::BoundLink& link)
    : own_(own), keyring_(keyring), files_(files), link_(link) {}

wire::Key Openings::key(const wire::KeyId& id, std::uint32_t generation) {
  const Bytes opening = read({generation, id});
  const std::optional<wire::Key> shared = keyring_.find(wire::shared_key_of(opening));
  if (!shared) throw WireError("UNKNOWN_KEY", "the shared key of a bound link is not in the key file");
  wire::BoundLink link = link_;
  link.generation = generation;
  const wire::OpenedLink opened = wire::accept_link(*own_.now(), *shared, link, opening);
  if (wire::key_id_of(opened.key) != id) throw WireError("BAD_IDENTITY", "an opening under another name");
  remember(id, wire::to_hex(opened.fingerprint));
  return opened.key;
}

Bytes Openings::read(const wire::OpeningName& name) const {
  try {
    return files_.read_opening(name);
  } catch (const std::system_error& error) {
    if (!is_gone(error)) throw;
    throw WireError("UNKNOWN_KEY", "neither a key nor an opening has the id " + wire::to_hex(name.key_id));
  }
}

void Openings::remember(const wire::KeyId& id, std::string fingerprint) {
  std::erase_if(fingerprints_, [&](const auto& one) { return one.first == id; });
  if (fingerprints_.size() >= most) fingerprints_.pop_front();
  fingerprints_.emplace_back(id, std::move(fingerprint));
}

// What is in use is never the oldest.
std::string Openings::fingerprint(const wire::KeyId& id) {
  if (!fingerprints_.empty() && fingerprints_.back().first == id) return fingerprints_.back().second;
  const auto found =
      std::find_if(fingerprints_.begin(), fingerprints_.end(), [&](const auto& one) { return one.first == id; });
  if (found == fingerprints_.end()) return {};
  std::rotate(found, found + 1, fingerprints_.end());
  return fingerprints_.back().second;
}

}  // namespace speed::fs
