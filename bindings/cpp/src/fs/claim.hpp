// Claims: files created with O_EXCL, so that exactly one process wins a generation of a name.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "fs/identity.hpp"
#include "wire/keyring.hpp"

namespace speed::fs {

// Who made a claim, as far as its file tells.
struct Claimant {
  Identity identity;
  std::int64_t lease_ms = 0;
  std::optional<std::int64_t> made_ms = {};  // CLOCK_MONOTONIC of its boot
  std::optional<std::uint32_t> above = {};   // what earlier lives up to this generation left is forgotten
  bool ephemeral = false;                    // the name will not come back
  bool sweeps = false;                       // no node starts: somebody removes what is left of the name

  // Whether a claim of this boot has stood a whole lease.
  bool is_expired(std::int64_t now_ms) const { return made_ms && now_ms - *made_ms > lease_ms; }
  bool is_dead(const Identity& observer) const { return process_alive(identity, observer) == false; }
  // Whether one of this boot that sweeps goes on: it is seen to live, or cannot be seen and has a lease.
  bool holds(const Identity& observer, std::int64_t now_ms) const {
    return process_alive(identity, observer).value_or(!is_expired(now_ms));
  }
  friend bool operator==(const Claimant&, const Claimant&) = default;
};

// The two lines of a claim's file.
std::string encode_claim(const Claimant& claimant, const wire::Key& registry_key);
// Null if it does not say who made it. Without the MAC of an accepted key it tells of its maker only.
std::optional<Claimant> decode_claim(std::string_view text, const std::vector<wire::Key>& registry_keys);

// The highest claimed generation of each name that has claims.
std::unordered_map<std::string, std::uint32_t> newest_claims(const std::string& root);

// The claims of one name under one root.
class Claims {
 public:
  Claims(std::string root, std::string name, const wire::Keyring& keyring)
      : root_(std::move(root)), name_(std::move(name)), keyring_(keyring) {}

  std::uint32_t newest() const;                                         // 0 without one
  bool take(std::uint32_t generation, const Claimant& claimant) const;  // false if somebody else has it
  std::optional<Claimant> read(std::uint32_t generation) const;         // null while it is empty or unreadable
  std::optional<Claimant> newest_told() const;  // of those that say who made them; std::system_error if one is unreadable
  bool is_ephemeral(std::uint32_t generation) const;                    // it says that the name will not come back
  // The newest one, by a listing, says so, or tells nothing now: it may be gone since.
  bool may_be_ephemeral(std::uint32_t newest) const;
  void release(std::uint32_t generation) const noexcept;                // read-only: no entry follows any more
  std::optional<bool> is_released(std::uint32_t generation) const;      // null if the claim is gone
  bool exists(std::uint32_t generation) const;
  void remove(std::uint32_t generation) const;        // one that nothing was published under
  void remove_older(std::uint32_t generation) const;  // as far as they can be

 private:
  std::optional<Claimant> look(std::uint32_t generation) const;

  std::string root_;
  std::string name_;
  const wire::Keyring& keyring_;
};

}  // namespace speed::fs
