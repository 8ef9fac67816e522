// A node's own entry: claiming the name, publishing, heartbeats, leaving.
// Threads: all methods may be called from any thread; one lock, under which no other is taken but the registry's.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "fs/files.hpp"
#include "fs/registry/claim.hpp"
#include "fs/registry/registry.hpp"
#include "wire/mutex.hpp"

namespace speed::fs {

class Registration {
 public:
  struct Settings {
    std::string name;
    std::int64_t lease_ms = 0;
    std::int64_t heartbeat_ms = 0;
    std::vector<std::string> fabrics;
    std::vector<std::string> allow;
    std::string language;
    std::vector<std::string> features = {};
    std::function<void(const std::string&)> tell = {};  // takes what somebody should know while the name is waited for
    bool ephemeral = false;  // the name will not come back
    bool starting = false;  // it does not serve yet
    std::string identity = {};  // its card (I-3), empty without one
    std::vector<std::string> identities = {};  // grants of identities (I-8)
    std::function<void()> after_publish = {};  // what it throws takes the entry back
    std::vector<std::string> observers = {};  // who may look at it
  };

  // Claims the name and publishes its entry; `before_publish(won)` runs in between.
  // NameTakenError, LeaseLostError, ConfigurationError: then there is no entry of it.
  using BeforePublish = std::function<void(const Won&)>;
  static std::unique_ptr<Registration> make(Registry& registry, const Settings& settings,
                                            const BeforePublish& before_publish);

  Registration(Registry& registry, wire::Entry entry, Claimant claimant);

  bool is_over() const;  // the lease ran out, noticed or not

  // LeaseLostError once the lease ran out; called before every write of an envelope, so it is quick.
  void check_held();
  // The same after a write: its receiver may have given it up.
  void check_still_held();

  // Renews the lease: one write in place, none once it was removed. LeaseLostError when the name is another's;
  // std::system_error to try again.
  void heartbeat();
  std::uint64_t claims_restored() const { return claims_restored_; }  // how often somebody removed the claim

  // Publishes a change; it is on disk when this returns. StorageError, LeaseLostError: then there is none.
  void update(const std::function<void(wire::Entry&)>& change);

  bool has_new_keys();  // since the entry was written: a heartbeat mends that (W-20)
  void remove();  // leaves: removes the entry if it is still this one, releases the claim
  // Leaves as one whose name will not come back: the entry stays, stale for everybody, until it is swept.
  void expire();
  void replaced(const std::string& why);  // it was seen elsewhere that the name is another's: the lease counts as lost
  void close();  // the name is another's: nothing is written any more, or removed
  wire::Entry entry();  // as last published
  std::uint32_t generation() const { return generation_; }

 private:
  static std::unique_ptr<Registration> publish(Registry& registry, const Settings& settings,
                                               const BeforePublish& before_publish);
  void publish();
  void write(const std::function<void(wire::Entry&)>& change) SPEED_REQUIRES(lock_);
  std::string encoded(const wire::Entry& entry) SPEED_REQUIRES(lock_);
  void install(const std::string& data) SPEED_REQUIRES(lock_);
  bool is_own(const std::string& path) const SPEED_REQUIRES(lock_);
  void check_claim() SPEED_REQUIRES(lock_);
  void restore_claim() SPEED_REQUIRES(lock_);
  void check_lease(std::int64_t now) SPEED_REQUIRES(lock_);
  [[noreturn]] void lose(const std::string& why) SPEED_REQUIRES(lock_);

  Registry& registry_;
  Claims claims_;
  Claimant claimant_;
  std::atomic<std::uint64_t> claims_restored_ = 0;
  std::string path_;
  std::uint32_t generation_;
  Mutex lock_;
  wire::Entry entry_ SPEED_GUARDED_BY(lock_);
  std::uint64_t key_changes_ SPEED_GUARDED_BY(lock_) = 0;  // of the ring when the entry was written
  core::OwnLease lease_ SPEED_GUARDED_BY(lock_);
  std::string replaced_ SPEED_GUARDED_BY(lock_);  // why the lease is lost, if that was seen elsewhere
  std::atomic<std::int64_t> expires_ms_;
  Fd fd_ SPEED_GUARDED_BY(lock_);
  std::size_t capacity_ SPEED_GUARDED_BY(lock_) = 0;
};

}  // namespace speed::fs
