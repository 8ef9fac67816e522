// Who holds a name: the verdict over another node's entry, and the owner's own lease.
// All times are ms; monotonic ones are comparable only between processes that share a boot id.
// Threads: not thread-safe; the registration's lock guards an OwnLease.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "wire/envelope/entry.hpp"

namespace speed::core {

enum class LeaseVerdict {
  live,
  stale,
  watch,  // undecidable by clock or process: stale once it stayed unchanged for a whole lease
};

// The part of an entry that says until when it holds.
struct Tenure {
  std::string boot_id;
  std::int64_t lease = 0;
  std::int64_t heartbeat_monotonic_ms = 0;
};

// `monotonic_ms` must have been read before the tenure was read from disk. `process_alive` is null where the process
// cannot be seen from here; `unchanged_ms` is how long the observer itself has seen exactly this tenure.
//
//   boot   process  heartbeat age      verdict
//   same   gone     any                stale
//   same   any      more than a lease  stale
//   same   any      0 to a lease       live
//   same   any      in the future      watch, stale after an unchanged lease
//   other  unknown  not comparable     watch, stale after an unchanged lease
LeaseVerdict judge(const Tenure& tenure, const std::string& observer_boot_id, std::int64_t monotonic_ms,
                   std::optional<bool> process_alive, std::int64_t unchanged_ms);

// ConfigurationError unless the lease exceeds three heartbeats.
// `late_ms`: how long after a heartbeat another host may see it; it comes on top.
void check_lease(std::int64_t lease_ms, std::int64_t heartbeat_ms, std::int64_t late_ms = 0);

// The owner stops at the very moment from which others may reclaim; a lost lease stays lost.
class OwnLease {
 public:
  OwnLease(std::int64_t lease_ms, std::int64_t renewed_ms) : lease_ms_(lease_ms), renewed_ms_(renewed_ms) {}

  bool is_lost(std::int64_t monotonic_ms) {
    if (monotonic_ms > expires_ms()) lost_ = true;
    return lost_;
  }
  void renew(std::int64_t written_ms) { renewed_ms_ = written_ms > renewed_ms_ ? written_ms : renewed_ms_; }
  void lose() { lost_ = true; }
  std::int64_t expires_ms() const { return renewed_ms_ + lease_ms_; }

 private:
  std::int64_t lease_ms_;
  std::int64_t renewed_ms_;
  bool lost_ = false;
};

// Joins and departures as differences between two readings of the registry.
// Threads: not thread-safe; the registry thread owns it.

struct RegistryChange {
  enum class Kind { left, joined } kind;
  wire::Entry entry;  // of a node that left: the last one seen
};

class RegistryView {
 public:
  // Takes a new reading; departures come first.
  std::vector<RegistryChange> update(const std::vector<wire::Entry>& live) {
    std::map<std::string, wire::Entry> after;
    for (const wire::Entry& entry : live) {
      if (entry.status != "starting") after.emplace(entry.name, entry);  // it joins when it is online
    }
    std::vector<RegistryChange> changes;
    for (const auto& [name, entry] : entries_) {
      if (!holds(after, entry)) changes.push_back({RegistryChange::Kind::left, entry});
    }
    for (const auto& [name, entry] : after) {
      if (!holds(entries_, entry)) changes.push_back({RegistryChange::Kind::joined, entry});
    }
    entries_ = std::move(after);
    return changes;
  }

 private:
  static bool holds(const std::map<std::string, wire::Entry>& entries, const wire::Entry& entry) {
    const auto found = entries.find(entry.name);
    return found != entries.end() && found->second.generation == entry.generation;
  }

  std::map<std::string, wire::Entry> entries_;
};

}  // namespace speed::core
