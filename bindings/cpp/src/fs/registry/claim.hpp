// Claims: files created with O_EXCL, so that exactly one process wins a generation of a name.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "fs/process.hpp"
#include "fs/registry/registry.hpp"
#include "wire/envelope/keyring.hpp"
#include "wire/time.hpp"

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
  std::optional<Claimant> newest_claimant()
      const;  // of those that say who made them; std::system_error if one is unreadable
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

// Winning a name: the next generation of it, once nobody holds it any more.
// Threads: may be called from any.

// A claim of this process, and the highest generation that was used before; 0 where there was none.
struct Won {
  Claimant claimant;
  std::uint32_t generation = 0;
  std::uint32_t former = 0;
};

// How the end of somebody else's hold is waited for.
struct Waiting {
  bool allowed = true;                                 // else what cannot be told at once counts as held
  std::function<void(const std::string&)> tell = {};   // takes what somebody should know meanwhile
  Duration sweep_timeout = wire::limits::sweep;  // until a sweeper is done
};

// Claims the next generation of `name`; NameTakenError. WireError if the floor is not authentic; std::system_error.
Won win(Registry& registry, const std::string& name, const Claimant& claimant, const Waiting& waiting = {});

// Keeps everybody from starting under a name, as long as it lives, to remove what is left of it.
class Hold {
 public:
  // NameTakenError if it is alive, starting, or nobody can tell at once; other errors of `win`.
  Hold(Registry& registry, const std::string& name);
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold();

  const Won& won() const { return won_; }

 private:
  Claims claims_;
  Won won_;
};

// The file of the floor: read by who claims a name, raised by who forgets one.

// The highest generation that may have been forgotten of `name`. WireError if the file is not authentic.
std::uint32_t floor_of(const std::string& root, const std::string& name, const wire::Keyring& keyring);

// Nothing of the lives of `name` up to this generation is accepted any more (L-15). WireError, std::system_error.
std::uint32_t forgotten_up_to(const std::string& root, const std::string& name, const wire::Keyring& keyring);

inline constexpr Duration floor_lock_timeout = 1s;  // who renews a lease waits for it

// Makes it `generation` at least; it is on disk when this returns. StorageError while others hold the lock for so long;
// WireError, std::system_error.
void raise_floor(const std::string& root, const std::string& name, std::uint32_t generation,
                 const wire::Keyring& keyring, Duration lock_timeout = floor_lock_timeout);

// Has the floor made by the first key, so that an older one can be retired. Errors likewise.
void seal_floor_anew(const std::string& root, const wire::Keyring& keyring);

}  // namespace speed::fs
