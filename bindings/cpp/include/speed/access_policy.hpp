// Who may write into a node's inbox: grants and denials, receiver-owned (registry_spec/access.md).
// Threads: all methods may be called from any thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "speed/export.hpp"
#include "speed/names.hpp"

namespace speed {

// Denies everyone at first. A grant is a node name, `name.*` for a family, or `name@fingerprint` for one identity; there
// is none for everyone.
class SPEED_EXPORT AccessPolicy {
 public:
  using Rules = std::map<std::string, bool, std::less<>>;  // pattern -> granted

  AccessPolicy();
  explicit AccessPolicy(const Names& patterns);
  ~AccessPolicy();
  AccessPolicy(const AccessPolicy&) = delete;
  AccessPolicy& operator=(const AccessPolicy&) = delete;

  // InvalidNameError for a pattern that breaks the rule; then nothing changes.
  void allow(const Names& patterns);
  // An exact name stays denied under a granted family.
  void deny(const Names& patterns);

  bool allows(std::string_view name) const;
  bool publishes(std::string_view name) const;  // whether a published grant covers it, even if a denial excepts it
  std::vector<std::string> allowed() const;  // the grants in force but for those of identities, sorted
  std::vector<std::string> identities() const;  // the grants that are of one identity, sorted
  // Of the identities that grants of this name are of; empty where any will do.
  std::vector<std::string> fingerprints(std::string_view name) const;
  std::vector<std::string> denied() const;  // what is excepted from them, sorted

  // All that was said, to go back to it when a change cannot be published.
  Rules rules() const;
  void restore(Rules rules);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace speed
