#include "fs/registry/registration.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "fs/clock.hpp"
#include "fs/registry/entry_file.hpp"
#include "speed/error.hpp"
#include "wire/names/names.hpp"

namespace speed::fs {

namespace {

wire::Entry first_entry(const Registration::Settings& settings, const Won& won) {
  const Identity& me = won.claimant.identity;
  wire::Entry entry;
  entry.name = settings.name;
  entry.generation = won.generation;
  entry.pid = me.pid;
  entry.pid_start = me.pid_start;
  entry.pid_namespace = me.pid_namespace;
  entry.host = me.host;
  entry.boot_id = me.boot_id;
  entry.startup_timestamp = entry.last_heartbeat = unix_ms();
  entry.heartbeat_monotonic_ms = monotonic_ms();
  entry.lease = settings.lease_ms;
  entry.heartbeat_interval = settings.heartbeat_ms;
  entry.fabrics = settings.fabrics;
  entry.language = settings.language;
  entry.version = SPEED_VERSION;
  entry.features = settings.features;
  entry.allow = settings.allow;
  entry.observers = settings.observers;
  entry.ephemeral = settings.ephemeral;
  entry.identity = settings.identity;
  entry.identities = settings.identities;
  if (settings.starting) entry.status = "starting";
  return entry;
}

}  // namespace

std::unique_ptr<Registration> Registration::make(Registry& registry, const Settings& settings,
                                                 const BeforePublish& before_publish) {
  core::check_lease(settings.lease_ms, settings.heartbeat_ms, registry.late_ms);
  try {
    return publish(registry, settings, before_publish);
  } catch (const WireError& error) {
    throw RegistrationError("cannot register '" + settings.name +
                            "': " + wire::child_path(wire::claims_dir(registry.root()), wire::floor_name) + ": " +
                            error.what() +
                            ": use the key of this root, or restore that file from a backup of the root");
  } catch (const std::system_error& error) {
    throw StorageError("cannot register '" + settings.name + "': " + error.code().message() +
                       ": make room in the root, or choose another");
  }
}

std::unique_ptr<Registration> Registration::publish(Registry& registry, const Settings& settings,
                                                    const BeforePublish& before_publish) {
  const Claimant claimant{
      .identity = registry.observer(), .lease_ms = settings.lease_ms, .ephemeral = settings.ephemeral};
  const Won won = win(registry, settings.name, claimant, {.tell = settings.tell});
  const Claims claims(registry.root(), settings.name, registry.keyring());
  std::unique_ptr<Registration> registration;
  try {
    before_publish(won);
    registration = std::make_unique<Registration>(registry, first_entry(settings, won), won.claimant);
    registration->publish();
    if (settings.after_publish) settings.after_publish();
    if (won.claimant.is_expired(monotonic_ms())) {
      throw LeaseLostError("registering '" + settings.name + "' took longer than its lease: try again");
    }
  } catch (...) {
    if (registration != nullptr) registration->remove();  // which may be published already
    claims.release(won.generation);                       // or this process would keep the name from itself
    throw;
  }
  claims.remove_older(won.generation);
  return registration;
}

Registration::Registration(Registry& registry, wire::Entry entry, Claimant claimant)
    : registry_(registry),
      claims_(registry.root(), entry.name, registry.keyring()),
      claimant_(std::move(claimant)),
      path_(wire::entry_path(registry.root(), entry.name)),
      generation_(static_cast<std::uint32_t>(entry.generation)),
      entry_(std::move(entry)),
      lease_(entry_.lease, entry_.heartbeat_monotonic_ms),
      expires_ms_(lease_.expires_ms()) {}

void Registration::publish() {
  const MutexLock guard(lock_);
  check_claim();
  install(encoded(entry_));
  check_claim();
}

bool Registration::is_over() const { return monotonic_ms() > expires_ms_.load(std::memory_order_relaxed); }

void Registration::check_held() {
  if (!is_over()) return;
  const MutexLock guard(lock_);
  check_lease(monotonic_ms());
}

void Registration::check_still_held() {
  if (!is_over()) return;
  const MutexLock guard(lock_);
  lose(
      "its lease ran out while it wrote, and what it wrote may not have been delivered: ask the receiver before "
      "you send it again");
}

void Registration::heartbeat() {
  const MutexLock guard(lock_);
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
  try {
    restore_claim();
  } catch (const std::system_error&) {
    // The next one tries again.
  }
}

// Makes the own claim again if somebody removed it: a later life would begin with a generation that was used.
void Registration::restore_claim() {
  if (claims_.exists(generation_)) return;
  make_directory(wire::claims_dir(registry_.root()));
  check_claim();
  if (claims_.take(generation_, claimant_)) ++claims_restored_;
}

void Registration::update(const std::function<void(wire::Entry&)>& change) {
  const MutexLock guard(lock_);
  if (!fd_) return;
  try {
    write(change);
  } catch (const std::system_error& error) {
    registry_.check_there();
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
  struct stat at_path{};
  return lstat(path.c_str(), &at_path) == 0 && at_path.st_ino == status_of(fd_.get()).st_ino;
}

void Registration::check_claim() {
  const std::uint32_t newest = claims_.newest();
  if (newest > generation_) lose("generation " + std::to_string(newest) + " was claimed");
}

void Registration::check_lease(std::int64_t now) {
  if (!replaced_.empty()) lose(replaced_);
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
  const MutexLock guard(lock_);
  return key_changes_ != registry_.keyring().changes();
}

// Writes the entry beside and renames it into place.
void Registration::install(const std::string& data) {
  const std::string token = entry_.name + "-" + std::to_string(getpid()) + "-" + std::to_string(generation_);
  const std::string temporary = wire::child_path(wire::registry_dir(registry_.root()), wire::temporary_name(token));
  try {
    Fd fd = open_or_make(AT_FDCWD, temporary, O_RDWR | O_TRUNC);
    write_all(fd.get(), wire::view(data));
    put_in_place(AT_FDCWD, temporary, path_);
    fd_ = std::move(fd);
    capacity_ = data.size();
  } catch (const std::system_error& error) {
    unlink(temporary.c_str());
    throw StorageError("cannot publish the entry of '" + entry_.name + "': " + error.code().message() +
                       ": make room in the root, or choose another");
  }
}

void Registration::remove() {
  const MutexLock guard(lock_);
  if (!fd_) return;
  try {
    if (is_own(path_)) restore_claim();  // else the whole root may be gone
  } catch (const std::exception&) {
    // A later life finds its number by what else is left.
  }
  try {
    remove_entry_file(registry_.root(), entry_.name,
                      [this](const std::string& path) SPEED_REQUIRES(lock_) { return is_own(path); });
  } catch (const std::system_error&) {
    // The entry stays without its node, hence stale after a lease.
  }
  claims_.release(generation_);
  fd_.close();
}

void Registration::expire() {
  try {
    update([](wire::Entry& entry) {
      entry.status = "leaving";
      entry.lease = entry.heartbeat_interval = 1;
      entry.heartbeat_monotonic_ms = 0;
    });
  } catch (const Error&) {
    // The entry is stale after a lease.
  }
  claims_.release(generation_);
  close();
}

void Registration::replaced(const std::string& why) {
  const MutexLock guard(lock_);
  lease_.lose();
  expires_ms_ = INT64_MIN;
  replaced_ = why;
}

void Registration::close() {
  const MutexLock guard(lock_);
  fd_.close();
}

wire::Entry Registration::entry() {
  const MutexLock guard(lock_);
  return entry_;
}

}  // namespace speed::fs
