#include "fs/registration.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

#include "fs/clock.hpp"
#include "fs/entry_file.hpp"
#include "speed/error.hpp"
#include "wire/names.hpp"

namespace speed::fs {

namespace {

constexpr std::chrono::milliseconds watch_pause{50};  // another host's heartbeat cannot be waited for in any other way
constexpr std::int64_t unclear_lease_ms = 30'000;     // how long a claim that tells nothing of its maker is respected
constexpr int max_attempts = 64;

// Winning the next generation of a name (R-5, steps 1 to 3).
class Claiming {
 public:
  Claiming(Registry& registry, const Registration::Wish& wish)
      : registry_(registry), name_(wish.name), tell_(wish.tell), claims_(registry.root(), wish.name) {}

  std::uint32_t win(Claimant& claimant) {
    for (int attempt = 0; attempt < max_attempts; ++attempt) {
      const std::uint32_t newest = claims_.newest();
      const EntryPtr entry = wait_until_stale();
      if (newest > 0 && (entry == nullptr || entry->generation < newest)) respect(newest);
      const EntryPtr again = registry_.read(name_);
      const bool same = entry == nullptr ? again == nullptr : again != nullptr && *again == *entry;
      if (!same || newest != claims_.newest()) continue;  // a node may have published in between
      check_reachable(registry_.root(), name_);
      claimant.made_ms = monotonic_ms();
      if (!claims_.take(newest + 1, claimant)) continue;
      if (claims_.newest() == newest + 1) return newest + 1;
      claims_.release(newest + 1);  // what was seen before was old: look again
    }
    throw NameTakenError("'" + name_ + "' is being claimed by others again and again: try later");
  }

 private:
  // The entry once it is absent (null) or stale; NameTakenError when it is live.
  EntryPtr wait_until_stale() {
    while (true) {
      Registry::Judged judged = registry_.judge(name_);
      if (judged.entry == nullptr || judged.verdict == core::Verdict::stale || registry_.is_gone(*judged.entry)) {
        return judged.entry;
      }
      EntryPtr holder = judged.verdict == core::Verdict::live ? judged.entry : nullptr;
      while (judged.verdict == core::Verdict::watch && holder == nullptr) {
        std::this_thread::sleep_for(watch_pause);
        const Registry::Judged again = registry_.judge(name_);
        if (again.entry == nullptr || *again.entry != *judged.entry) holder = again.entry;
        judged.verdict = again.verdict;
      }
      if (holder == nullptr) continue;
      throw NameTakenError("'" + name_ + "' is held by process " + std::to_string(holder->pid) + " on " +
                           holder->host + " (generation " + std::to_string(holder->generation) +
                           "): choose another name, or stop that node");
    }
  }

  // A claim without an entry: a starting node's, a dead one's, or one that left in order (R-5, step 2). Returns when it
  // need not be respected any longer. One that says nothing may be just being written: it is read again.
  void respect(std::uint32_t generation) {
    const std::int64_t began = monotonic_ms();
    bool has_told = false;
    while (true) {
      if (claims_.is_released(generation)) return;
      const std::optional<Claimant> claimant = claims_.read(generation);
      if (claimant && process_alive(claimant->identity, registry_.observer()) == false) return;
      if (claimant && claimant->identity.boot_id == registry_.observer().boot_id) return respect_neighbour(*claimant);
      const EntryPtr entry = registry_.read(name_);
      if (entry != nullptr && entry->generation >= generation) return;
      const std::int64_t lease_ms = claimant ? claimant->lease_ms : unclear_lease_ms;
      if (claims_.newest() > generation || monotonic_ms() >= began + lease_ms + registry_.late_ms) return;
      std::this_thread::sleep_for(watch_pause);
      if (!std::exchange(has_told, true) && monotonic_ms() < began + lease_ms) tell_of_wait(generation, claimant, lease_ms);
    }
  }

  // Once, and not of a claim that was only being written as it was looked at.
  void tell_of_wait(std::uint32_t generation, const std::optional<Claimant>& claimant, std::int64_t lease_ms) const {
    if (!tell_) return;
    const std::string maker =
        claimant ? "is of process " + std::to_string(claimant->identity.pid) + " on " + claimant->identity.host
                 : "does not tell its maker";
    tell_("waits up to " + std::to_string((lease_ms + 999) / 1000) + " s for its name: the claim " +
          wire::claim_path(registry_.root(), name_, generation) + " " + maker +
          ", which may be starting; if nobody is, `chmod 400` it");
  }

  // The same for a claimant of this boot, which lives.
  void respect_neighbour(const Claimant& claimant) {
    const std::string maker = "process " + std::to_string(claimant.identity.pid) + " on " + claimant.identity.host;
    if (registry_.is_unreadable(name_)) {
      throw NameTakenError("'" + name_ + "' is held by " + maker +
                           ", whose entry this key does not open: use the key of this root");
    }
    if (claimant.is_expired(monotonic_ms())) return;
    throw NameTakenError("'" + name_ + "' is being claimed by " + maker + ": try again soon, or choose another name");
  }

  Registry& registry_;
  const std::string& name_;
  const std::function<void(const std::string&)>& tell_;
  Claims claims_;
};

wire::Entry first_entry(const Registration::Wish& wish, std::uint32_t generation, const Identity& me) {
  wire::Entry entry;
  entry.name = wish.name;
  entry.generation = generation;
  entry.pid = me.pid;
  entry.pid_start = me.pid_start;
  entry.pid_namespace = me.pid_namespace;
  entry.host = me.host;
  entry.boot_id = me.boot_id;
  entry.startup_timestamp = entry.last_heartbeat = unix_ms();
  entry.heartbeat_monotonic_ms = monotonic_ms();
  entry.lease = wish.lease_ms;
  entry.heartbeat_interval = wish.heartbeat_ms;
  entry.fabrics = wish.fabrics;
  entry.language = wish.language;
  entry.features = wish.features;
  entry.allow = wish.allow;
  return entry;
}

}  // namespace

std::unique_ptr<Registration> Registration::make(Registry& registry, const Wish& wish,
                                                 const std::function<void(std::uint32_t)>& before_publish) {
  core::check_lease(wish.lease_ms, wish.heartbeat_ms, registry.late_ms);
  try {
    return win(registry, wish, before_publish);
  } catch (const std::system_error& error) {
    throw RegistrationError("cannot register '" + wish.name + "': " + error.code().message() +
                            ": make room in the root, or choose another");
  }
}

std::unique_ptr<Registration> Registration::win(Registry& registry, const Wish& wish,
                                                const std::function<void(std::uint32_t)>& before_publish) {
  Claimant claimant{registry.observer(), wish.lease_ms, std::nullopt};
  const std::uint32_t generation = Claiming(registry, wish).win(claimant);
  const Claims claims(registry.root(), wish.name);
  std::unique_ptr<Registration> registration;
  try {
    before_publish(generation);
    registration = std::make_unique<Registration>(registry, first_entry(wish, generation, registry.observer()));
    registration->publish();
    if (claimant.is_expired(monotonic_ms())) {
      throw LeaseLostError("registering '" + wish.name + "' took longer than its lease: try again");
    }
  } catch (...) {
    if (registration != nullptr) registration->remove();  // which may be published already
    claims.release(generation);                           // or this process would keep the name from itself
    throw;
  }
  claims.remove_older(generation);
  return registration;
}

Registration::Registration(Registry& registry, wire::Entry entry)
    : registry_(registry),
      claims_(registry.root(), entry.name),
      path_(wire::entry_path(registry.root(), entry.name)),
      generation_(static_cast<std::uint32_t>(entry.generation)),
      entry_(std::move(entry)),
      lease_(entry_.lease, entry_.heartbeat_monotonic_ms),
      expires_ms_(lease_.expires_ms()) {}

void Registration::publish() {
  const std::lock_guard guard(lock_);
  check_claim();
  install(encoded(entry_));
  check_claim();
}

bool Registration::is_over() const { return monotonic_ms() > expires_ms_.load(std::memory_order_relaxed); }

void Registration::check_held() {
  if (!is_over()) return;
  const std::lock_guard guard(lock_);
  check_lease(monotonic_ms());
}

void Registration::heartbeat() {
  const std::lock_guard guard(lock_);
  if (!fd_) return;  // it was removed meanwhile
  const std::int64_t written = monotonic_ms();
  check_lease(written);
  write([&](wire::Entry& entry) {
    entry.last_heartbeat = unix_ms();
    entry.heartbeat_monotonic_ms = written;
  });
  check_lease(monotonic_ms());
  lease_.renew(written);
  expires_ms_ = lease_.expires_ms();
}

void Registration::update(const std::function<void(wire::Entry&)>& change) {
  const std::lock_guard guard(lock_);
  if (!fd_) return;
  try {
    write(change);
  } catch (const std::system_error& error) {
    throw StorageError("cannot update the entry of '" + entry_.name + "': " + error.code().message());
  }
}

void Registration::write(const std::function<void(wire::Entry&)>& change) {
  wire::Entry changed = entry_;
  change(changed);
  const std::string data = encoded(changed);
  if (data.size() == capacity_ && is_own(path_)) {
    write_at_start(fd_.get(), wire::view(data));
  } else {
    check_claim();
    install(data);
  }
  entry_ = std::move(changed);
}

bool Registration::is_own(const std::string& path) const {
  struct stat at_path {};
  return lstat(path.c_str(), &at_path) == 0 && at_path.st_ino == status_of(fd_.get()).st_ino;
}

void Registration::check_claim() {
  const std::uint32_t newest = claims_.newest();
  if (newest > generation_) lose("generation " + std::to_string(newest) + " was claimed");
}

void Registration::check_lease(std::int64_t now) {
  if (lease_.is_lost(now)) lose("its lease ran out before it could be renewed");
}

void Registration::lose(const std::string& why) {
  lease_.lose();
  expires_ms_ = INT64_MIN;
  throw LeaseLostError("'" + entry_.name + "' (generation " + std::to_string(generation_) + ") lost its name: " + why +
                       "; make a new Node");
}

// Under the first key of now.
std::string Registration::encoded(const wire::Entry& entry) {
  key_changes_ = registry_.keyring().changes();
  const auto keys = registry_.keyring().now();
  return wire::encode_entry(entry, keys->registry_keys.front(), capacity_, keys->ids);
}

bool Registration::has_new_keys() {
  const std::lock_guard guard(lock_);
  return key_changes_ != registry_.keyring().changes();
}

// Writes the entry beside and renames it into place.
void Registration::install(const std::string& data) {
  const std::string token = entry_.name + "-" + std::to_string(getpid()) + "-" + std::to_string(generation_);
  const std::string temporary =
      wire::child_path(wire::registry_dir(registry_.root()), wire::temporary_name(token));
  try {
    Fd fd = open_or_make(AT_FDCWD, temporary, O_RDWR | O_TRUNC);
    write_all(fd.get(), wire::view(data));
    put_in_place(AT_FDCWD, temporary, path_);
    fd_ = std::move(fd);
    capacity_ = data.size();
  } catch (const std::system_error& error) {
    unlink(temporary.c_str());
    throw RegistrationError("cannot publish the entry of '" + entry_.name + "': " + error.code().message());
  }
}

void Registration::remove() {
  const std::lock_guard guard(lock_);
  if (!fd_) return;
  try {
    remove_entry_file(registry_.root(), entry_.name, [this](const std::string& path) { return is_own(path); });
  } catch (const std::system_error&) {
    // The entry stays without its node, hence stale after a lease.
  }
  claims_.release(generation_);
  fd_.close();
}

void Registration::close() {
  const std::lock_guard guard(lock_);
  fd_.close();
}

wire::Entry Registration::entry() {
  const std::lock_guard guard(lock_);
  return entry_;
}

}  // namespace speed::fs
