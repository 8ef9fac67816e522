// Sweeping: what nodes that are gone left in a root, removed by whoever comes by.
// Threads: the functions may be called from any; Leftovers is for one.
#pragma once

#include "fs/registry/registry.hpp"
#include "wire/time.hpp"

namespace speed::fs {

// Removes an entry that has been stale for a lease, or all of a name that does not come back; whether it was. If it
// cannot be done now, it is done another time, from wherever it ended: std::system_error, StorageError, WireError.
bool sweep(Registry& registry, const std::string& name);

// Whether the last life of a name was ephemeral, and is over.
bool is_forgettable(Registry& registry, const std::string& name);

// Removes all that is left of an ephemeral name; false while an inbox holds a lane of it, or its
// directory or entry cannot be removed here.
// NameTakenError if somebody has the name, or takes it; other errors of `sweep`.
bool forget(Registry& registry, const std::string& name);

// Whether any inbox holds a lane of a name; one that cannot be looked into counts as one that does.
bool has_lanes(const std::string& root, const std::string& name);

// How many entries were written in the last `span`: those of live nodes, and of few others.
std::size_t written_within(const Registry& registry, Duration span);

// All names of a registry that something may be left of, looked at one at a time and again in each round.
class Leftovers {
 public:
  // Entries that were written in the last `untouched_time` are not read: most nodes are alive.
  explicit Leftovers(Registry& registry, Duration untouched_time = {})
      : registry_(registry), untouched_time_(untouched_time) {}

  void begin_round();
  bool sweep_next();  // false at the end of the round; errors of `sweep`

 private:
  using Generations = std::unordered_map<std::string, std::uint32_t>;

  Registry& registry_;
  Duration untouched_time_;
  std::vector<std::string> entries_;  // not looked at yet, as the next
  Generations claims_;                // of names without an entry
  Generations ordinary_;              // those that were looked at, and stay
};

}  // namespace speed::fs
