#include "fs/registry/claim.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/texts.hpp"
#include "fs/clock.hpp"
#include "fs/files.hpp"
#include "fs/lane/lane_state.hpp"
#include "fs/registry/entry_file.hpp"
#include "speed/error.hpp"
#include "speed/interruption.hpp"
#include "wire/envelope/cursor.hpp"
#include "wire/envelope/entry.hpp"
#include "wire/names/names.hpp"
#include "wire/value/json.hpp"

namespace speed::fs {

namespace {

using wire::Json;
constexpr std::size_t max_claim_bytes = 4096;

// All claimed generations of a name. Other names are passed by unparsed: there may be thousands.
std::vector<std::uint32_t> generations_of(const std::string& root, const std::string& name) {
  const Fd directory = open_directory(wire::claims_dir(root));
  std::vector<std::uint32_t> generations;
  for_each_name(directory.get(), [&](std::string_view file) {
    if (!file.starts_with(name)) return;
    const auto claim = wire::parse_claim(file);
    if (claim && claim->first == name) generations.push_back(claim->second);
  });
  return generations;
}

// A whole number; the library alone would take fractions and booleans too. Json::exception.
std::int64_t whole(const Json& value) {
  if (!value.is_number_integer()) value.get_ref<const Json::number_integer_t&>();  // throws what it is instead
  return value.get<std::int64_t>();
}

std::optional<std::int64_t> number_in(const Json& values, const char* what) {
  const auto found = values.find(what);
  return found == values.end() || found->is_null() ? std::nullopt : std::optional(whole(*found));
}

Claimant maker_of(const Json& values) {
  Claimant claimant;
  claimant.identity.pid = whole(values.at("pid"));
  claimant.identity.pid_start = whole(values.at("pid_start"));
  values.at("pid_namespace").get_to(claimant.identity.pid_namespace);
  values.at("host").get_to(claimant.identity.host);
  values.at("boot_id").get_to(claimant.identity.boot_id);
  claimant.lease_ms = whole(values.at("lease"));
  claimant.made_ms = number_in(values, "made_monotonic_ms");
  return claimant;
}

bool is_true(const Json& values, const char* what) {
  const auto found = values.find(what);
  return found != values.end() && *found == true;
}

}  // namespace

std::string encode_claim(const Claimant& claimant, const wire::Key& registry_key) {
  const Identity& maker = claimant.identity;
  Json values{{"pid", maker.pid},   {"pid_start", maker.pid_start}, {"pid_namespace", maker.pid_namespace},
              {"host", maker.host}, {"boot_id", maker.boot_id},     {"lease", claimant.lease_ms}};
  if (claimant.made_ms) values["made_monotonic_ms"] = *claimant.made_ms;
  if (claimant.above) values["above"] = *claimant.above;
  if (claimant.ephemeral) values["ephemeral"] = true;
  if (claimant.sweeps) values["sweeps"] = true;
  const std::string line = values.dump(-1, ' ', true, Json::error_handler_t::replace);
  return line + "\n" + wire::entry_mac(registry_key, line) + "\n";
}

std::optional<Claimant> decode_claim(std::string_view text, const std::vector<wire::Key>& registry_keys) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::string_view rest = text.substr(std::min(line.size() + 1, text.size()));
  const std::optional<Json> values = wire::parse_json(line, wire::limits::max_value_depth);
  if (!values || !values->is_object()) return std::nullopt;
  try {
    Claimant claimant = maker_of(*values);
    claimant.sweeps = is_true(*values, "sweeps");
    if (!wire::has_mac(line, rest.substr(0, rest.find('\n')), registry_keys)) return claimant;
    claimant.ephemeral = is_true(*values, "ephemeral");
    if (const auto above = number_in(*values, "above")) claimant.above = static_cast<std::uint32_t>(*above);
    return claimant;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::unordered_map<std::string, std::uint32_t> newest_claims(const std::string& root) {
  std::unordered_map<std::string, std::uint32_t> newest;
  const Fd directory = open_directory(wire::claims_dir(root));
  for_each_name(directory.get(), [&](const char* file) {
    const auto claim = wire::parse_claim(file);
    if (!claim) return;
    std::uint32_t& most = newest[claim->first];
    most = std::max(most, claim->second);
  });
  return newest;
}

std::uint32_t Claims::newest() const {
  const std::vector<std::uint32_t> all = generations_of(root_, name_);
  return all.empty() ? 0 : *std::ranges::max_element(all);
}

bool Claims::take(std::uint32_t generation, const Claimant& claimant) const {
  const std::string path = wire::claim_path(root_, name_, generation);
  Fd fd;
  try {
    fd = open_or_make(AT_FDCWD, path, O_WRONLY | O_EXCL);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::file_exists) return false;
    throw;
  }
  try {
    write_all(fd.get(), wire::view(encode_claim(claimant, keyring_.registry_keys().front())));
    if (claimant.sweeps) return true;
    if (fsync(fd.get()) != 0) throw_errno(path);  // after a power cut no generation may be used again
    for (const std::string& place : {wire::claims_dir(root_), wire::registry_dir(root_), root_}) sync_directory(place);
  } catch (const std::system_error&) {
    release(generation);  // no entry will follow it
    throw;
  }
  return true;
}

std::optional<Claimant> Claims::read(std::uint32_t generation) const {
  try {
    return look(generation);
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

std::optional<Claimant> Claims::newest_claimant() const {
  std::vector<std::uint32_t> generations = generations_of(root_, name_);
  std::ranges::sort(generations, std::ranges::greater());
  for (const std::uint32_t generation : generations) {
    if (std::optional<Claimant> claimant = look(generation)) return claimant;
  }
  return std::nullopt;
}

// Null as well for what was just removed, or is none; std::system_error where the system fails.
std::optional<Claimant> Claims::look(std::uint32_t generation) const {
  const std::string path = wire::claim_path(root_, name_, generation);
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd && is_failure(errno)) throw_errno(path);
  if (!fd) return std::nullopt;
  Bytes data(max_claim_bytes);
  data.resize(read_at(fd.get(), data, 0));
  return decode_claim(wire::text(data), keyring_.registry_keys());
}

bool Claims::is_ephemeral(std::uint32_t generation) const {
  const std::optional<Claimant> claimant = generation > 0 ? read(generation) : std::nullopt;
  return claimant && claimant->ephemeral;
}

bool Claims::may_be_ephemeral(std::uint32_t newest) const {
  if (newest == 0) return false;
  try {
    const std::optional<Claimant> claimant = read(newest);
    return !claimant || claimant->ephemeral;
  } catch (const std::system_error&) {
    return true;
  }
}

void Claims::release(std::uint32_t generation) const noexcept {
  const std::string path = wire::claim_path(root_, name_, generation);
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return;
  // It fails only where a newer claim replaced this one. In the root of a group its members still read it.
  [[maybe_unused]] const int failed = chmod(path.c_str(), status.st_mode & 0440);
}

std::optional<bool> Claims::is_released(std::uint32_t generation) const {
  struct stat status{};
  const std::string path = wire::claim_path(root_, name_, generation);
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) throw_errno(path);
    return std::nullopt;
  }
  return (status.st_mode & S_IWUSR) == 0;
}

bool Claims::exists(std::uint32_t generation) const {
  return access(wire::claim_path(root_, name_, generation).c_str(), F_OK) == 0 || errno != ENOENT;
}

void Claims::remove(std::uint32_t generation) const {
  const std::string path = wire::claim_path(root_, name_, generation);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) throw_errno(path);
}

void Claims::remove_older(std::uint32_t generation) const {
  if (generation <= 1) return;
  try {
    for (const std::uint32_t older : generations_of(root_, name_)) {
      if (older < generation) unlink(wire::claim_path(root_, name_, older).c_str());
    }
  } catch (const std::system_error&) {
    return;  // lower claims mean nothing
  }
}

namespace {

constexpr Duration watch_pause = 50ms;  // another host's heartbeat cannot be waited for in any other way
constexpr Duration sweep_pause = 5ms;  // a sweeper is done within milliseconds, and nothing tells
constexpr std::int64_t unclear_lease_ms = 30'000;  // how long a claim that tells nothing of its maker is respected
// By far longer than sweeping takes: on another host, whoever waits so long takes the name.
constexpr std::int64_t sweeping_lease_ms = 600'000;
constexpr int max_attempts = 64;

class Claiming {
 public:
  Claiming(Registry& registry, const std::string& name, const Waiting& waiting)
      : registry_(registry), name_(name), waiting_(waiting), claims_(registry.root(), name, registry.keyring()) {}

  Won win(const Claimant& claimant) {
    for (int attempt = 0; attempt < max_attempts; ++attempt) {
      const std::uint32_t newest = claims_.newest();
      const std::optional<Claimant> judged = newest > 0 ? claims_.read(newest) : std::nullopt;
      const EntryPtr entry = wait_until_stale();
      if (newest > 0 && (entry == nullptr || entry->generation < newest) && !is_free(newest)) continue;
      const EntryPtr again = registry_.read(name_);
      const bool same = entry == nullptr ? again == nullptr : again != nullptr && *again == *entry;
      if (!same || newest != claims_.newest()) continue;  // a node may have published in between
      if (const std::optional<Won> won = take(newest, judged, claimant, entry)) return *won;
    }
    throw NameTakenError("'" + name_ + "' is being claimed by others again and again: try later");
  }

 private:
  // The highest generation that the name had: somebody may have removed its claims, but not all else that it left.
  std::uint32_t used(std::uint32_t newest, const EntryPtr& entry) const {
    if (newest == 0 && entry == nullptr) return generation_left(registry_.root(), name_, registry_.keyring());
    return entry == nullptr ? newest : std::max(newest, static_cast<std::uint32_t>(entry->generation));
  }

  // The first claim above `newest`, which `judged` made, what else was used, and the floor; null if others were quicker.
  std::optional<Won> take(std::uint32_t newest, const std::optional<Claimant>& judged, Claimant claimant,
                          const EntryPtr& entry) const {
    check_reachable(registry_.root(), name_);
    const std::uint32_t floor = floor_now();
    const std::optional<Claimant> former = claims_.newest_claimant();
    const std::uint32_t before = used(newest, entry);
    const std::uint32_t generation = std::max(before, floor) + 1;
    claimant.made_ms = monotonic_ms();
    claimant.above = former && former->above ? forgotten(newest, *former) : floor;
    if (claimant.sweeps) claimant.ephemeral = former && former->ephemeral;
    if (!claims_.take(generation, claimant)) return std::nullopt;
    // Others may have been quicker, or forgotten the name meanwhile: look again.
    if (is_still(newest, judged) && claims_.newest() == generation && floor_now() == floor)
      return Won{claimant, generation, before};
    claims_.remove(generation);
    return std::nullopt;
  }

  // Whether claim `newest` is the one that was judged: another sweep may have begun under the same number.
  bool is_still(std::uint32_t newest, const std::optional<Claimant>& judged) const {
    return newest == 0 || (claims_.exists(newest) && claims_.read(newest) == judged);
  }

  // Up to which generation nothing of the name is accepted any more. The lane of an ephemeral life may be gone before its
  // name is forgotten: then nobody has yet to begin what it sent.
  std::uint32_t forgotten(std::uint32_t newest, const Claimant& former) const {
    const bool nothing_waits = former.ephemeral && !has_unopened_lanes(registry_.root(), name_, registry_.keyring());
    return nothing_waits ? newest : *former.above;
  }

  std::uint32_t floor_now() const { return floor_of(registry_.root(), name_, registry_.keyring()); }

  // The entry once it is absent (null) or stale; NameTakenError when it is live.
  EntryPtr wait_until_stale() {
    while (true) {
      Registry::Judged judged = registry_.judge(name_);
      if (judged.entry == nullptr || judged.verdict == core::LeaseVerdict::stale || registry_.is_gone(*judged.entry)) {
        return judged.entry;
      }
      EntryPtr holder = judged.verdict == core::LeaseVerdict::live || !waiting_.allowed ? judged.entry : nullptr;
      while (judged.verdict == core::LeaseVerdict::watch && holder == nullptr) {
        std::this_thread::sleep_for(watch_pause);
        look_for_interruption();
        const Registry::Judged again = registry_.judge(name_);
        if (again.entry == nullptr || *again.entry != *judged.entry) holder = again.entry;
        judged.verdict = again.verdict;
      }
      if (holder == nullptr) continue;
      const Identity own = registry_.observer();
      const bool is_own =
          holder->pid == own.pid && holder->pid_start == own.pid_start && holder->boot_id == own.boot_id;
      throw NameTakenError(is_own ? core::texts::name_taken_here(name_)
                                  : core::texts::name_taken(name_, std::to_string(holder->pid), holder->host));
    }
  }

  // Judges a claim without an entry: a starting node's, a dead one's, or one that left in order (R-5, step 2). True once
  // it need not be respected any longer; false where it ended, and another may follow under the same number. One that
  // says nothing may be just being written: it is read again.
  bool is_free(std::uint32_t generation) {
    const std::int64_t began = monotonic_ms();
    bool was_reported = false;
    while (true) {
      const std::optional<Claimant> claimant = claims_.read(generation);
      const std::optional<bool> is_released = claims_.is_released(generation);
      if (!is_released) return false;
      if (*is_released || (claimant && claimant->is_dead(registry_.observer()))) return true;
      if (claimant && claimant->identity.boot_id == registry_.observer().boot_id) {
        const bool waits =
            claimant->sweeps && waiting_.allowed && claimant->holds(registry_.observer(), monotonic_ms());
        waits ? wait_for_sweeper(generation, *claimant) : respect_neighbour(*claimant);
        return !waits;
      }
      if (!waiting_.allowed)
        throw NameTakenError("'" + name_ + "' is claimed by a process that cannot be seen from here");
      const EntryPtr entry = registry_.read(name_);
      if (entry != nullptr && entry->generation >= generation) return true;
      const std::int64_t lease_ms = claimant ? claimant->lease_ms : unclear_lease_ms;
      if (claims_.newest() > generation || monotonic_ms() >= began + lease_ms + registry_.late_ms) return true;
      std::this_thread::sleep_for(watch_pause);
      look_for_interruption();
      if (!std::exchange(was_reported, true) && monotonic_ms() < began + lease_ms)
        report_wait(generation, claimant, lease_ms);
    }
  }

  // Once, and not of a claim that was only being written as it was looked at.
  void report_wait(std::uint32_t generation, const std::optional<Claimant>& claimant, std::int64_t lease_ms) const {
    if (!waiting_.tell) return;
    const std::string maker =
        claimant ? "is of process " + std::to_string(claimant->identity.pid) + " on " + claimant->identity.host
                 : "does not tell its maker";
    waiting_.tell("waits up to " + std::to_string((lease_ms + 999) / 1000) + " s for its name: the claim " +
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
    const std::int64_t now = monotonic_ms();
    if (claimant.sweeps ? !claimant.holds(registry_.observer(), now) : claimant.is_expired(now)) return;
    throw NameTakenError("'" + name_ + "' is being claimed by " + maker + ": try again soon, or choose another name");
  }

  // It is not pushed aside, for it would remove what its successor makes.
  void wait_for_sweeper(std::uint32_t generation, const Claimant& claimant) const {
    const TimePoint until = monotonic_now() + waiting_.sweep_timeout;
    while (claims_.newest() == generation && claimant.holds(registry_.observer(), monotonic_ms())) {
      if (monotonic_now() >= until) {
        throw NameTakenError("process " + std::to_string(claimant.identity.pid) + " is removing what is left of '" +
                             name_ + "': try again later");
      }
      std::this_thread::sleep_for(sweep_pause);
      look_for_interruption();
    }
  }

  Registry& registry_;
  const std::string& name_;
  const Waiting& waiting_;
  Claims claims_;
};

}  // namespace

Won win(Registry& registry, const std::string& name, const Claimant& claimant, const Waiting& waiting) {
  return Claiming(registry, name, waiting).win(claimant);
}

Hold::Hold(Registry& registry, const std::string& name)
    : claims_(registry.root(), name, registry.keyring()),
      won_(win(registry, name, {.identity = registry.observer(), .lease_ms = sweeping_lease_ms, .sweeps = true},
               {.allowed = false})) {}

Hold::~Hold() {
  try {
    claims_.remove(won_.generation);
  } catch (const std::system_error&) {
    claims_.release(won_.generation);  // or nobody could start there while this process lives
  }
}

// --- the floor ---

namespace {

wire::Floors read_floors(const std::string& root, const std::vector<wire::Key>& registry_keys) {
  Bytes data;
  try {
    const Fd directory = open_directory(wire::claims_dir(root));
    data = read_small(directory.get(), wire::floor_name, owners_of(directory.get()), wire::floor_bytes + 1);
  } catch (const std::system_error& error) {
    if (error.code().value() == ENOENT) return {};
    throw;
  }
  return wire::decode_floors(data, registry_keys);
}

// The lock is held.
void write_floors(const std::string& root, const wire::Floors& floors, const wire::Key& registry_key) {
  const Fd directory = open_directory(wire::claims_dir(root));
  replace_file(directory.get(), wire::floor_name, wire::encode_floors(floors, registry_key), true);
}

std::size_t bucket_of(const std::string& name) { return std::to_integer<std::size_t>(wire::node_id(name)[0]); }

}  // namespace

std::uint32_t floor_of(const std::string& root, const std::string& name, const wire::Keyring& keyring) {
  return read_floors(root, keyring.registry_keys())[bucket_of(name)];
}

std::uint32_t forgotten_up_to(const std::string& root, const std::string& name, const wire::Keyring& keyring) {
  std::optional<Claimant> claimant;
  try {
    claimant = Claims(root, name, keyring).newest_claimant();
  } catch (const std::system_error& error) {
    if (error.code().value() == ENOENT) return 0;  // nobody ever registered here
    throw;
  }
  return claimant && claimant->above ? *claimant->above : floor_of(root, name, keyring);
}

void raise_floor(const std::string& root, const std::string& name, std::uint32_t generation,
                 const wire::Keyring& keyring, Duration lock_timeout) {
  const std::string path = wire::floor_lock_path(root);
  const std::optional<Lock> lock = Lock::take(path, lock_timeout);
  if (!lock) throw StorageError(path + " is held by another process: nothing was forgotten");
  wire::Floors floors = read_floors(root, keyring.registry_keys());
  std::uint32_t& floor = floors[bucket_of(name)];
  if (floor >= generation) return;
  floor = generation;
  write_floors(root, floors, keyring.registry_keys().front());
}

void seal_floor_anew(const std::string& root, const wire::Keyring& keyring) {
  try {
    read_floors(root, {keyring.registry_keys().front()});
  } catch (const WireError&) {
    if (const std::optional<Lock> lock = Lock::take(wire::floor_lock_path(root), floor_lock_timeout)) {
      write_floors(root, read_floors(root, keyring.registry_keys()), keyring.registry_keys().front());
    }
  }
}

}  // namespace speed::fs
