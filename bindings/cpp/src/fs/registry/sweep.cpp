#include "fs/registry/sweep.hpp"

#include <sys/stat.h>

#include <cmath>
#include <filesystem>

#include "fs/clock.hpp"
#include "fs/files.hpp"
#include "fs/registry/claim.hpp"
#include "speed/error.hpp"

namespace speed::fs {

namespace {

bool may_be_there(const std::string& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

// False if that is for another member of the root's group to do.
bool remove_directory(const std::string& path) {
  try {
    std::filesystem::remove_all(path);
    return true;
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::permission_denied || error.code() == std::errc::operation_not_permitted)
      return false;
    throw;
  }
}

// Since a file was written, by the wall clock: good for a hint only.
Duration untouched_for(const std::string& path) {
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) return {};
  const std::int64_t written_ms = std::int64_t{status.st_mtim.tv_sec} * 1000 + status.st_mtim.tv_nsec / 1'000'000;
  return std::chrono::abs(std::chrono::milliseconds(unix_ms() - written_ms));
}

}  // namespace

bool sweep(Registry& registry, const std::string& name) {
  if (!is_forgettable(registry, name)) {
    const EntryPtr entry = registry.read(name);
    const bool goes_alone = entry != nullptr && !entry->ephemeral && registry.is_abandoned(name);
    return goes_alone && registry.remove_stale_entry(name);
  }
  try {
    return forget(registry, name);
  } catch (const NameTakenError&) {
    return false;  // somebody else sweeps, or starts
  }
}

bool is_forgettable(Registry& registry, const std::string& name) {
  const Claims claims(registry.root(), name, registry.keyring());
  const std::uint32_t newest = claims.newest();
  if (!claims.is_ephemeral(newest)) return false;
  const Registry::Judged judged = registry.judge(name);
  if (judged.entry != nullptr && judged.entry->generation == newest) {
    return judged.verdict == core::LeaseVerdict::stale || registry.is_gone(*judged.entry);
  }
  const std::optional<Claimant> claimant = claims.read(newest);
  return claims.is_released(newest).value_or(true) || (claimant && claimant->is_dead(registry.observer()));
}

bool forget(Registry& registry, const std::string& name) {
  const Hold held(registry, name);
  const Claims claims(registry.root(), name, registry.keyring());
  const std::uint32_t last = held.won().former;
  if (!claims.is_ephemeral(last)) return false;
  if (!remove_directory(wire::node_dir(registry.root(), name)) || has_lanes(registry.root(), name)) return false;
  raise_floor(registry.root(), name, last, registry.keyring());
  registry.remove_stale_entry(name);
  if (may_be_there(wire::entry_path(registry.root(), name))) return false;
  claims.remove_older(held.won().generation);
  return true;
}

bool has_lanes(const std::string& root, const std::string& name) {
  bool found = false;
  const Fd directory = open_directory(root);
  for_each_name(directory.get(), [&](const char* target) {
    found = found || (wire::is_node_name(target) && may_be_there(wire::lane_dir(root, target, name)));
  });
  return found;
}

std::size_t written_within(const Registry& registry, Duration span) {
  std::size_t count = 0;
  registry.for_each([&](const std::string& name) {
    if (untouched_for(wire::entry_path(registry.root(), name)) < span) ++count;
  });
  return count;
}

void Leftovers::begin_round() {
  claims_ = newest_claims(registry_.root());
  entries_.clear();
  registry_.for_each([this](const std::string& name) {
    claims_.erase(name);
    entries_.push_back(name);
  });
  std::erase_if(ordinary_, [this](const auto& one) { return !claims_.contains(one.first); });
}

bool Leftovers::sweep_next() {
  if (!entries_.empty()) {
    const std::string name = std::move(entries_.back());
    entries_.pop_back();
    if (untouched_for(wire::entry_path(registry_.root(), name)) >= untouched_time_) sweep(registry_, name);
    return true;
  }
  if (claims_.empty()) return false;
  const auto [name, newest] = *claims_.begin();
  claims_.erase(claims_.begin());
  const auto known = ordinary_.find(name);
  if (known != ordinary_.end() && known->second == newest) return true;
  if (Claims(registry_.root(), name, registry_.keyring()).is_ephemeral(newest)) {
    sweep(registry_, name);
  } else {
    ordinary_[name] = newest;
  }
  return true;
}

}  // namespace speed::fs
