// Joins and departures as differences between two readings of the registry.
// Threads: not thread-safe; the registry thread owns it.
#pragma once

#include <map>
#include <vector>

#include "wire/entry.hpp"

namespace speed::core {

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
