#include "fs/registry/registry.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "fs/clock.hpp"
#include "fs/files.hpp"
#include "fs/registry/entry_file.hpp"
#include "fs/registry/root.hpp"
#include "speed/error.hpp"

namespace speed::fs {

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t racy_ns = 20'000'000;  // a file read so soon after its change may have changed again unseen
constexpr Duration fresh_time = 1ms;  // how long what was seen counts as what is: a burst of sends looks once
constexpr int torn_reads = 3;

std::string utc(std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

bool is_absence(int error) { return error == ENOENT || error == ENOTDIR; }

}  // namespace

Registry::Registry(std::string root, const wire::Keyring& keyring)
    : root_(std::move(root)), keyring_(keyring), observer_(own_identity()) {}

void Registry::prepare() const { prepare_root(root_); }

EntryPtr Registry::read(const std::string& name) {
  const auto known = look(name);
  return known == nullptr ? nullptr : known->entry;
}

bool Registry::is_unreadable(const std::string& name) {
  const auto known = look(name);
  return known != nullptr && known->entry == nullptr;
}

void Registry::check_there() const {
  if (const std::string gone = registry_gone(root_); !gone.empty()) throw StorageError(gone);
}

void Registry::check_readable(const std::string& name) const {
  try {
    check_reachable(root_, name);
  } catch (const std::system_error& error) {
    throw StorageError(
        "the entry of '" + name + "' in " + root_ + " cannot be read: " + error.code().message() +
        "; nothing was sent, free what this process holds open or raise its limits, or see `speed root doctor`");
  }
}

std::string Registry::absence(const std::string& name) {
  check_there();
  check_readable(name);
  if (is_unreadable(name)) {
    return "the entry of '" + name + "' is not authentic: use the key of " + root_ + ", or see `speed root doctor`";
  }
  if (const EntryPtr entry = read(name)) {
    return "no live node named '" + name + "' in " + root_ + ": the entry of process " + std::to_string(entry->pid) +
           " on " + entry->host + " is stale, its last heartbeat was at " + utc(entry->last_heartbeat) +
           ": start it, or see `speed nodes`";
  }
  return "no live node named '" + name + "' in " + root_ + ": start it, or see `speed nodes`";
}

std::shared_ptr<const Registry::Known> Registry::look(const std::string& name) {
  struct stat status{};
  const bool there = lstat(wire::entry_path(root_, name).c_str(), &status) == 0;
  const bool failed = !there && !is_absence(errno);
  const MutexLock guard(lock_);
  const auto found = known_.find(name);
  std::shared_ptr<const Known> known = found == known_.end() ? nullptr : found->second;
  if (failed) return known;  // it counts as it was read last
  if (!there || !wire::is_capacity(status.st_size)) {
    forget(name);
    return there ? std::make_shared<Known>() : nullptr;  // what is none its size tells: nothing to remember
  }
  auto fresh = std::make_shared<Known>();
  fresh->inode = static_cast<std::int64_t>(status.st_ino);
  fresh->modified_ns = status.st_mtim.tv_sec * second_ns + status.st_mtim.tv_nsec;
  fresh->size = status.st_size;
  fresh->keys = keyring_.changes();
  const bool same = known != nullptr && known->settled && known->keys == fresh->keys && known->inode == fresh->inode &&
                    known->modified_ns == fresh->modified_ns && known->size == fresh->size;
  if (same) return known;
  fresh->settled = unix_ms() * 1'000'000 - fresh->modified_ns > racy_ns;
  try {
    fresh->entry = read_file(name);
  } catch (const std::system_error& error) {
    if (is_absence(error.code().value())) {
      forget(name);
      return nullptr;
    }
    if (known != nullptr) return known;
    fresh->settled = false;  // the same file may be readable the next time
  }
  const bool unchanged =
      known != nullptr && known->entry != nullptr && fresh->entry != nullptr && *known->entry == *fresh->entry;
  fresh->since_ms = unchanged ? known->since_ms : monotonic_ms();
  fresh->gone = unchanged && known->gone;
  remember(name, fresh);
  return fresh;
}

// Entries, and of what is none so much that most registries are read once only.
void Registry::remember(const std::string& name, std::shared_ptr<const Known> known) {
  if (known->entry != nullptr) {
    junk_.erase(name);
  } else if (!junk_.contains(name)) {
    if (junk_.size() >= wire::limits::max_remembered_junk) {
      known_.erase(name);
      return;
    }
    junk_.insert(name);
  }
  known_[name] = std::move(known);
}

void Registry::forget(const std::string& name) {
  known_.erase(name);
  junk_.erase(name);
}

// Files that are gone need no memory.
void Registry::forget_all_but(const std::unordered_set<std::string>& seen) {
  const MutexLock guard(lock_);
  std::erase_if(known_, [&](const auto& one) { return !seen.contains(one.first); });
  std::erase_if(junk_, [&](const std::string& name) { return !seen.contains(name); });
}

EntryPtr Registry::read_file(const std::string& name) const { return read_file(name, wire::entry_path(root_, name)); }

// New keys are looked for where the present ones do not fit.
EntryPtr Registry::read_file(const std::string& name, const std::string& path) const {
  const std::uint64_t keys = keyring_.changes();
  EntryPtr entry = try_file(name, path);
  if (entry != nullptr) return entry;
  keyring_.look();
  return keyring_.changes() == keys ? nullptr : try_file(name, path);
}

EntryPtr Registry::try_file(const std::string& name, const std::string& path) const {
  for (int tries = 0; tries < torn_reads; ++tries) {
    try {
      auto entry = std::make_shared<wire::Entry>(wire::decode_entry(read_entry_file(path), keyring_.registry_keys()));
      return entry->name == name ? entry : nullptr;
    } catch (const WireError&) {
      continue;  // a heartbeat may be half written: look again
    }
  }
  return nullptr;
}

Registry::Judged Registry::judge(const std::string& name) {
  const std::int64_t now = monotonic_ms();
  const auto known = look(name);
  if (known == nullptr || known->entry == nullptr) return {};
  return {known->entry, judge(*known, now)};
}

core::LeaseVerdict Registry::judge(const Known& known, std::int64_t now) const {
  if (known.gone) return core::LeaseVerdict::stale;
  const wire::Entry& entry = *known.entry;
  const core::Tenure tenure{entry.boot_id, entry.lease, entry.heartbeat_monotonic_ms};
  const core::LeaseVerdict fresh = core::judge(tenure, observer_.boot_id, now, std::nullopt, now - known.since_ms);
  // A heartbeat that is not even due proves life without a look at the process.
  const bool proven = now - entry.heartbeat_monotonic_ms < entry.heartbeat_interval;
  if (fresh != core::LeaseVerdict::live || proven) return fresh;
  const Identity process{entry.pid, entry.pid_start, entry.pid_namespace, entry.host, entry.boot_id};
  return core::judge(tenure, observer_.boot_id, now, process_alive(process, observer_), now - known.since_ms);
}

EntryPtr Registry::live(const std::string& name) {
  Judged judged = judge(name);
  return judged.verdict == core::LeaseVerdict::stale ? nullptr : std::move(judged.entry);
}

EntryPtr Registry::surely_live(const std::string& name) {
  EntryPtr entry = live(name);
  if (entry == nullptr || !is_gone(*entry)) return entry;
  remember_gone(name, *entry);
  return nullptr;
}

void Registry::remember_gone(const std::string& name, const wire::Entry& entry) {
  const MutexLock guard(lock_);
  const auto found = known_.find(name);
  if (found == known_.end() || found->second->entry == nullptr || *found->second->entry != entry) return;
  auto known = std::make_shared<Known>(*found->second);
  known->gone = true;
  known->fresh_until = {};
  found->second = std::move(known);
}

std::vector<wire::Entry> Registry::live_entries() { return listed(&Registry::live); }

std::vector<wire::Entry> Registry::surely_live_entries() { return listed(&Registry::surely_live); }

std::vector<wire::Entry> Registry::listed(EntryPtr (Registry::*reader)(const std::string&)) {
  std::vector<wire::Entry> entries;
  std::unordered_set<std::string> seen;
  for_each([&](const std::string& name) {
    if (const EntryPtr entry = (this->*reader)(name)) entries.push_back(*entry);
    const MutexLock guard(lock_);
    if (known_.contains(name)) seen.insert(name);
  });
  forget_all_but(seen);
  std::ranges::sort(entries, {}, &wire::Entry::name);
  return entries;
}

EntryPtr Registry::granted_lately(const std::string& name, const std::string& sender, std::string_view fingerprint) {
  const TimePoint now = monotonic_now();
  std::shared_ptr<const Known> known;
  {
    const MutexLock guard(lock_);
    const auto found = known_.find(name);
    if (found != known_.end() && now < found->second->fresh_until) known = found->second;
  }
  if (known == nullptr) {
    if (live(name) == nullptr) return nullptr;
    const MutexLock guard(lock_);
    const auto found = known_.find(name);
    if (found == known_.end()) return nullptr;
    auto fresh = std::make_shared<Known>(*found->second);
    fresh->fresh_until = now + fresh_time;
    found->second = fresh;
    known = fresh;
  }
  if (known->entry == nullptr || known->entry->status != "online" ||
      !wire::grants(*known->entry, sender, fingerprint)) {
    return nullptr;
  }
  return known->entry;
}

bool Registry::is_gone(const wire::Entry& entry) const {
  const Identity process{entry.pid, entry.pid_start, entry.pid_namespace, entry.host, entry.boot_id};
  return process_alive(process, observer_) == false;
}

void Registry::for_each(const std::function<void(const std::string&)>& take) const {
  try {
    const Fd directory = open_directory(wire::registry_dir(root_));
    for_each_name(directory.get(), [&](const char* file) {
      if (const auto name = wire::parse_entry_file(file)) take(*name);
    });
  } catch (const std::system_error& error) {
    check_there();
    throw StorageError("cannot list the registry of " + root_ + ": " + error.code().message() +
                       "; what is there is not known");
  }
}

std::vector<std::string> Registry::remove_stale() {
  std::vector<std::string> removed;
  for_each([&](const std::string& name) {
    const Judged judged = judge(name);
    if (is_over(judged) && !judged.entry->ephemeral && remove(*judged.entry)) removed.push_back(name);
  });
  std::ranges::sort(removed);
  return removed;
}

bool Registry::remove_stale_entry(const std::string& name) {
  const Judged judged = judge(name);
  return is_over(judged) && remove(*judged.entry);
}

bool Registry::is_over(const Judged& judged) const {
  return judged.entry != nullptr && (judged.verdict == core::LeaseVerdict::stale || is_gone(*judged.entry));
}

bool Registry::remove(const wire::Entry& entry) const {
  const auto is_meant = [&](const std::string& path) {
    const EntryPtr again = read_file(entry.name, path);
    return again != nullptr && *again == entry;  // else its owner changed it meanwhile
  };
  try {
    return remove_entry_file(root_, entry.name, is_meant);
  } catch (const std::system_error&) {
    return false;  // removed by another, or it stays and is stale: the next one to look tries again
  }
}

bool Registry::is_abandoned(const std::string& name) {
  const std::int64_t now = monotonic_ms();
  const auto known = look(name);
  if (known == nullptr || known->entry == nullptr || judge(*known, now) != core::LeaseVerdict::stale) return false;
  const wire::Entry& entry = *known->entry;
  const std::int64_t age = now - entry.heartbeat_monotonic_ms;
  const bool is_neighbour = entry.boot_id == observer_.boot_id && age >= 0;
  return (is_neighbour ? age : now - known->since_ms) - entry.lease > entry.lease;
}

}  // namespace speed::fs
