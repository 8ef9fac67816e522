// A node's registry entry: one JSON line, its MAC, padding to a fixed capacity.
#pragma once

#include <string>
#include <vector>

#include "wire/envelope/keyring.hpp"

namespace speed::wire {

// What a node publishes about itself. Times are ms; heartbeat_monotonic_ms compares on one boot only.
struct Entry {
  std::string name;
  std::int64_t generation = 0;
  std::int64_t pid = 0;
  std::int64_t pid_start = 0;
  std::string pid_namespace;
  std::string host;
  std::string boot_id;
  std::int64_t startup_timestamp = 0;
  std::int64_t last_heartbeat = 0;
  std::int64_t heartbeat_monotonic_ms = 0;
  std::int64_t lease = 0;
  std::int64_t heartbeat_interval = 0;
  std::string status = "online";
  std::vector<std::string> fabrics;
  std::vector<std::string> allow;
  std::vector<std::string> deny = {};  // excepted from the grants: what is more specific decides
  std::vector<std::string> subscriptions;
  std::string language = "c++";
  std::string version = "1";
  std::vector<std::string> features = {};  // what it can beyond the first version; older nodes name none
  bool ephemeral = false;                  // the name will not come back
  std::vector<std::string> shared = {};    // subscriptions whose events go to one node of its family each (S-42)
  std::vector<std::string> observers = {};  // who may ask for figures without a grant
  std::string identity = {};                 // its card (I-3), in Base64; empty without an identity
  std::vector<std::string> identities = {};  // grants that are of one identity, `name@fingerprint` (I-8)

  bool operator==(const Entry&) const = default;
};

// Whether the most specific pattern it publishes that covers `name` is a grant. `fingerprint`: of that node's
// identity, empty without one; grants of the name that are of identities decide before all others (I-8).
bool grants(const Entry& entry, std::string_view name, std::string_view fingerprint = {});

// Whether it publishes that `name` may ping it and ask for its figures without a grant.
bool observed_by(const Entry& entry, std::string_view name);

bool has_feature(const Entry& entry, std::string_view feature);

// Line 2 of an entry or claim, under line 1.
std::string entry_mac(const Key& registry_key, std::string_view line);
bool has_mac(std::string_view line, std::string_view mac, const std::vector<Key>& registry_keys);

bool is_capacity(std::int64_t size);  // whether a file of an entry may be that large

// Padded to `capacity`, or to the next power of two that fits; ConfigurationError beyond max_entry_bytes.
// It names the keys that the node accepts where they are given.
std::string encode_entry(const Entry& entry, const Key& registry_key, std::size_t capacity = 0,
                         const std::vector<KeyId>& key_ids = {});

// WireError BAD_ENTRY if no accepted key made it or a field is wrong.
Entry decode_entry(std::string_view data, const std::vector<Key>& registry_keys);

}  // namespace speed::wire
