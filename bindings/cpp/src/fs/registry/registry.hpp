// Reading the registry: entries as they are now, their verdicts, stale ones removed.
// Threads: all methods may be called from any thread; one lock guards what was read before.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/membership.hpp"
#include "fs/process.hpp"
#include "wire/envelope/entry.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::fs {

using EntryPtr = std::shared_ptr<const wire::Entry>;

class Registry {
 public:
  Registry(std::string root, const wire::Keyring& keyring);

  // Makes root and registry directories where they are missing; RootError says what is wrong and what to do.
  void prepare() const;

  // The entry as it is on disk now, live or stale; null if there is no authentic one. Where the system keeps from
  // looking, it is as it was read last.
  EntryPtr read(const std::string& name);

  // Whether there is a file that should be the entry, but is not authentic.
  bool is_unreadable(const std::string& name);
  // Why there is no live node of this name, and what to do. StorageError if the registry is gone.
  std::string absence(const std::string& name);
  void check_there() const;  // StorageError if the registry is gone
  // StorageError if the system keeps from knowing whether there is an entry: then it is not absent.
  void check_readable(const std::string& name) const;

  struct Judged {
    EntryPtr entry;
    core::LeaseVerdict verdict = core::LeaseVerdict::stale;
  };
  Judged judge(const std::string& name);

  // The entry if its node may be alive.
  EntryPtr live(const std::string& name);
  EntryPtr surely_live(const std::string& name);  // looks at its process, however young its heartbeat is
  std::vector<wire::Entry> live_entries();  // sorted by name; StorageError where they cannot be listed
  std::vector<wire::Entry> surely_live_entries();  // likewise, and their processes are looked at

  // The entry of `name` if it was live, online and allowed `sender` at most 1 ms ago. Null says only that
  // somebody must look more closely before refusing.
  EntryPtr granted_lately(const std::string& name, const std::string& sender, std::string_view fingerprint = {});

  bool is_gone(const wire::Entry& entry) const;        // its process
  // Entries of nodes that are gone, never their claims; not those of names that do not come back: all that is
  // left of such a name goes together.
  std::vector<std::string> remove_stale();
  bool remove_stale_entry(const std::string& name);  // the same for one node, whatever it says of its name
  bool is_abandoned(const std::string& name);        // its entry has been stale for a lease
  // Names that have a file where their entry would be; StorageError where they cannot be listed.
  void for_each(const std::function<void(const std::string& name)>& take) const;

  // How long after a change on another host it may be seen here, in ms; whoever registers sets it.
  std::int64_t late_ms = 0;

  const std::string& root() const { return root_; }
  const wire::Keyring& keyring() const { return keyring_; }
  const Identity& observer() const { return observer_; }

 private:
  std::vector<wire::Entry> listed(EntryPtr (Registry::*reader)(const std::string&));

  // What was read under one stamp of an entry file, and since when it is unchanged.
  struct Known {
    std::int64_t inode = 0;
    std::int64_t modified_ns = 0;
    std::int64_t size = 0;
    bool settled = false;  // the stamp was already old when the file was read: no write can hide behind it
    EntryPtr entry;
    std::uint64_t keys = 0;  // changes of the keys when it was read: others may judge otherwise
    std::int64_t since_ms = 0;
    TimePoint fresh_until = {};
    bool gone = false;  // the process was looked for and not found: it never comes back
  };
  std::shared_ptr<const Known> look(const std::string& name) SPEED_EXCLUDES(lock_);
  EntryPtr read_file(const std::string& name) const;
  EntryPtr read_file(const std::string& name, const std::string& path) const;
  EntryPtr try_file(const std::string& name, const std::string& path) const;
  core::LeaseVerdict judge(const Known& known, std::int64_t now) const;
  bool is_over(const Judged& judged) const;
  bool remove(const wire::Entry& entry) const;
  void remember(const std::string& name, std::shared_ptr<const Known> known) SPEED_REQUIRES(lock_);
  void remember_gone(const std::string& name, const wire::Entry& entry) SPEED_EXCLUDES(lock_);
  void forget(const std::string& name) SPEED_REQUIRES(lock_);
  void forget_all_but(const std::unordered_set<std::string>& seen) SPEED_EXCLUDES(lock_);

  std::string root_;
  const wire::Keyring& keyring_;
  Identity observer_;
  Mutex lock_;
  std::unordered_map<std::string, std::shared_ptr<const Known>> known_ SPEED_GUARDED_BY(lock_);
  std::unordered_set<std::string> junk_ SPEED_GUARDED_BY(lock_);  // those known names under which lies no entry
};

}  // namespace speed::fs
