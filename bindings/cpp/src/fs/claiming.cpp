#include "fs/claiming.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "fs/clock.hpp"
#include "fs/entry_file.hpp"
#include "fs/fence.hpp"
#include "fs/floor.hpp"
#include "speed/error.hpp"
#include "speed/interruption.hpp"
#include "wire/names.hpp"

namespace speed::fs {

namespace {

constexpr std::chrono::milliseconds watch_pause{50};  // another host's heartbeat cannot be waited for in any other way
constexpr std::chrono::milliseconds sweep_pause{5};   // a sweeper is done within milliseconds, and nothing tells
constexpr std::int64_t unclear_lease_ms = 30'000;     // how long a claim that tells nothing of its maker is respected
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
    const std::optional<Claimant> former = claims_.newest_told();
    const std::uint32_t before = used(newest, entry);
    const std::uint32_t generation = std::max(before, floor) + 1;
    claimant.made_ms = monotonic_ms();
    claimant.above = former && former->above ? forgotten(newest, *former) : floor;
    if (claimant.sweeps) claimant.ephemeral = former && former->ephemeral;
    if (!claims_.take(generation, claimant)) return std::nullopt;
    // Others may have been quicker, or forgotten the name meanwhile: look again.
    if (is_still(newest, judged) && claims_.newest() == generation && floor_now() == floor) return Won{claimant, generation, before};
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
      throw NameTakenError("'" + name_ + "' is held by process " + std::to_string(holder->pid) + " on " +
                           holder->host + " (generation " + std::to_string(holder->generation) +
                           "): choose another name, or stop that node");
    }
  }

  // Judges a claim without an entry: a starting node's, a dead one's, or one that left in order (R-5, step 2). True once
  // it need not be respected any longer; false where it ended, and another may follow under the same number. One that
  // says nothing may be just being written: it is read again.
  bool is_free(std::uint32_t generation) {
    const std::int64_t began = monotonic_ms();
    bool has_told = false;
    while (true) {
      const std::optional<Claimant> claimant = claims_.read(generation);
      const std::optional<bool> is_released = claims_.is_released(generation);
      if (!is_released) return false;
      if (*is_released || (claimant && claimant->is_dead(registry_.observer()))) return true;
      if (claimant && claimant->identity.boot_id == registry_.observer().boot_id) {
        const bool waits = claimant->sweeps && waiting_.allowed && claimant->holds(registry_.observer(), monotonic_ms());
        waits ? wait_for_sweeper(generation, *claimant) : respect_neighbour(*claimant);
        return !waits;
      }
      if (!waiting_.allowed) throw NameTakenError("'" + name_ + "' is claimed by a process that cannot be seen from here");
      const EntryPtr entry = registry_.read(name_);
      if (entry != nullptr && entry->generation >= generation) return true;
      const std::int64_t lease_ms = claimant ? claimant->lease_ms : unclear_lease_ms;
      if (claims_.newest() > generation || monotonic_ms() >= began + lease_ms + registry_.late_ms) return true;
      std::this_thread::sleep_for(watch_pause);
      look_for_interruption();
      if (!std::exchange(has_told, true) && monotonic_ms() < began + lease_ms) tell_of_wait(generation, claimant, lease_ms);
    }
  }

  // Once, and not of a claim that was only being written as it was looked at.
  void tell_of_wait(std::uint32_t generation, const std::optional<Claimant>& claimant, std::int64_t lease_ms) const {
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
    const double until = monotonic_seconds() + waiting_.sweep_seconds;
    while (claims_.newest() == generation && claimant.holds(registry_.observer(), monotonic_ms())) {
      if (monotonic_seconds() >= until) {
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

}  // namespace speed::fs
