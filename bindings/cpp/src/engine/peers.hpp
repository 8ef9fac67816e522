// Who other nodes are, as a node with an identity judges it (I-3, I-7).
// Threads: all methods may be called from any thread.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/log_limiter.hpp"
#include "fs/keys/identity_files.hpp"
#include "fs/keys/key_store.hpp"
#include "speed/access_policy.hpp"
#include "wire/envelope/entry.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

class Peers {
 public:
  // `path`: of the identity file. KeyFileError.
  Peers(std::string root, const std::string& path, const AccessPolicy& policy, fs::KeySource& keys,
        const LogLimiter& log);

  fs::IdentitySource source;                // of the own identity
  const std::string own;                    // its fingerprint
  const wire::Keyring& resting() const { return resting_; }  // for what waits in files of this node (I-9)
  std::string card(const std::string& name) const;  // the own, as entries have it

  // What a link to this node is sealed by, null if neither side is to have an identity; IdentityError. `entry`: null
  // where the node is gone. `is_answer`: nothing is remembered of who has no grant.
  wire::BondPtr bond(const std::string& name, const wire::Entry* entry, bool is_answer = false);

  // Whether `name` may have this identity, or none if it is empty; never `first`: who is accepted at first use is
  // remembered, if it `is_met`.
  wire::Verdict verdict(const std::string& name, const std::string& fingerprint, bool is_met);

 private:
  struct Judged {
    TimePoint until = {};
    std::vector<std::string> grants;
    wire::Verdict verdict = wire::Verdict::missing;
  };
  struct Bound {
    std::string card;  // of the entry
    std::uint64_t changes = 0;  // of the own identity
    wire::BondPtr bond;
  };

  wire::BondPtr bond_of(const std::string& name, const std::string& card) SPEED_EXCLUDES(lock_);
  void check(const std::string& name, const std::string& fingerprint, bool is_met);
  wire::Verdict judge(const std::string& name, const std::string& fingerprint, const std::vector<std::string>& grants,
                      bool is_met) SPEED_REQUIRES(lock_);
  bool remember(const std::string& name, const wire::KnownIdentity& learnt) SPEED_REQUIRES(lock_);

  const std::string root_;
  const AccessPolicy& policy_;
  const LogLimiter& log_;
  fs::KnownIdentities known_;
  wire::Keyring resting_;
  Mutex lock_;
  std::unordered_map<std::string, Judged> judged_ SPEED_GUARDED_BY(lock_);  // by `name@fingerprint`
  std::set<std::string> warned_ SPEED_GUARDED_BY(lock_);
  std::unordered_map<std::string, Bound> bonds_ SPEED_GUARDED_BY(lock_);
};

// The fingerprint of the card of an entry; empty without one, and for one that is not sound.
std::string fingerprint_in(const wire::Entry& entry);

}  // namespace speed::engine
