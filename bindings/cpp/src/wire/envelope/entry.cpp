#include "wire/envelope/entry.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "speed/error.hpp"
#include "wire/envelope/keyring.hpp"
#include "wire/value/json.hpp"

namespace speed::wire {

namespace {

// The fields with their JSON keys: one table for both directions.
template <class AnyEntry, class Visit>
void each_field(AnyEntry& entry, Visit visit) {
  visit("name", entry.name);
  visit("generation", entry.generation);
  visit("pid", entry.pid);
  visit("pidStart", entry.pid_start);
  visit("pidNamespace", entry.pid_namespace);
  visit("host", entry.host);
  visit("bootId", entry.boot_id);
  visit("startupTimestamp", entry.startup_timestamp);
  visit("lastHeartbeat", entry.last_heartbeat);
  visit("heartbeatMonotonicMs", entry.heartbeat_monotonic_ms);
  visit("lease", entry.lease);
  visit("heartbeatInterval", entry.heartbeat_interval);
  visit("status", entry.status);
  visit("fabrics", entry.fabrics);
  visit("allow", entry.allow);
  visit("deny", entry.deny);
  visit("subscriptions", entry.subscriptions);
  visit("language", entry.language);
  visit("version", entry.version);
  visit("features", entry.features);
  visit("ephemeral", entry.ephemeral);
  visit("shared", entry.shared);
  visit("observers", entry.observers);
  visit("identity", entry.identity);
  visit("identities", entry.identities);
}

[[noreturn]] void refuse(const std::string& why) { throw WireError("BAD_ENTRY", why); }

void take(const Json& value, const char* key, std::string& to) {
  if (!value.is_string()) refuse(std::string(key) + " is no text");
  to = value.get<std::string>();
}

void take(const Json& value, const char* key, std::int64_t& to) {
  const bool is_large =
      value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  const bool fits = value.is_number_integer() && !is_large && value.get<std::int64_t>() >= 0;  // -0 is 0
  if (!fits) refuse(std::string(key) + " is no integer from 0 to 2^63-1");
  to = value.get<std::int64_t>();
}

void take(const Json& value, const char* key, bool& to) {
  if (!value.is_boolean()) refuse(std::string(key) + " is neither true nor false");
  to = value.get<bool>();
}

void take(const Json& value, const char* key, std::vector<std::string>& to) {
  if (!value.is_array()) refuse(std::string(key) + " is no list");
  for (const Json& item : value) take(item, key, to.emplace_back());
}

bool may_be_absent(std::string_view key) {
  constexpr std::array<std::string_view, 7> optional{"features", "ephemeral",  "deny",     "shared",
                                                     "identity", "identities", "observers"};
  return std::ranges::find(optional, key) != optional.end();
}

void check_meaning(const Entry& entry, const Json& values) {
  if (!is_node_name(entry.name)) refuse("name is not allowed");
  if (!std::ranges::all_of(entry.allow, is_grant)) refuse("a grant is not allowed");
  if (!std::ranges::all_of(entry.deny, is_grant)) refuse("a denial is not allowed");
  if (!std::ranges::all_of(entry.observers, is_grant)) refuse("an observer is not allowed");
  if (!std::ranges::all_of(entry.subscriptions, is_topic_pattern)) refuse("a subscription is not allowed");
  if (!std::ranges::all_of(entry.shared, is_topic_pattern)) refuse("a shared subscription is not allowed");
  if (entry.generation < 1 || entry.generation > max_generation) refuse("generation is out of range");
  if (entry.status != "starting" && entry.status != "online" && entry.status != "leaving") refuse("status is unknown");
  if (entry.lease == 0 || entry.heartbeat_interval == 0) refuse("lease and heartbeatInterval must be positive");
  const auto id = values.find("nodeId");
  if (id == values.end() || *id != to_hex(node_id(entry.name))) refuse("nodeId is not that of the name");
}

// How closely one of the patterns names `name`: 0 not at all, then by the length of the family, most as a whole.
std::size_t specificity(const std::vector<std::string>& patterns, std::string_view name) {
  std::size_t most = 0;
  for (const std::string& one : patterns) {
    if (matches(one, name)) most = std::max(most, one.size() + (one == name ? 1 : 0));
  }
  return most;
}

Json parse(std::string_view line) {
  std::optional<Json> values = parse_json(line, limits::max_value_depth);
  if (!values || !values->is_object()) refuse("line 1 is no JSON object, or nested too deep");
  return std::move(*values);
}

}  // namespace

bool grants(const Entry& entry, std::string_view name, std::string_view fingerprint) {
  bool is_of_identities = false;
  for (const std::string& one : entry.identities) {
    const std::size_t at = one.rfind('@');
    if (at == std::string::npos || std::string_view(one).substr(0, at) != name) continue;
    is_of_identities = true;
    if (std::string_view(one).substr(at + 1) == fingerprint) return true;
  }
  if (is_of_identities) return false;
  return specificity(entry.allow, name) > specificity(entry.deny, name);
}

bool observed_by(const Entry& entry, std::string_view name) {
  const auto covers = [&](const std::string& one) { return matches(one, name); };
  const auto is_of_it = [&](const std::string& one) { return std::string_view(one).substr(0, one.rfind('@')) == name; };
  return std::ranges::any_of(entry.observers, covers) && std::ranges::none_of(entry.deny, covers) &&
         std::ranges::none_of(entry.identities, is_of_it);
}

bool has_feature(const Entry& entry, std::string_view feature) {
  return std::ranges::find(entry.features, feature) != entry.features.end();
}

std::string entry_mac(const Key& registry_key, std::string_view line) {
  return to_base64(hmac(registry_key, view(line)));
}

bool has_mac(std::string_view line, std::string_view mac, const std::vector<Key>& registry_keys) {
  return std::ranges::any_of(registry_keys,
                             [&](const Key& key) { return same_bytes(view(mac), view(entry_mac(key, line))); });
}

bool is_capacity(std::int64_t size) {
  const auto bytes = static_cast<std::uint64_t>(size);
  return bytes >= limits::min_entry_bytes && bytes <= limits::max_entry_bytes && std::has_single_bit(bytes);
}

std::string encode_entry(const Entry& entry, const Key& registry_key, std::size_t capacity,
                         const std::vector<KeyId>& key_ids) {
  Json values;
  each_field(entry, [&](const char* key, const auto& field) { values[key] = field; });
  if (!entry.ephemeral) values.erase("ephemeral");
  if (entry.deny.empty()) values.erase("deny");
  if (entry.shared.empty()) values.erase("shared");
  if (entry.observers.empty()) values.erase("observers");
  if (entry.identity.empty()) values.erase("identity");
  if (entry.identities.empty()) values.erase("identities");
  values["nodeId"] = to_hex(node_id(entry.name));
  for (const KeyId& id : key_ids) values["keyIds"].push_back(to_hex(id));
  std::string data = values.dump(-1, ' ', true, Json::error_handler_t::replace);
  data += "\n" + entry_mac(registry_key, data) + "\n";
  std::size_t needed = std::max(capacity, limits::min_entry_bytes);
  while (needed < data.size()) needed *= 2;
  if (needed > limits::max_entry_bytes) {
    throw ConfigurationError("the entry of '" + entry.name + "' needs " + std::to_string(data.size()) +
                             " bytes, too many: grant families such as 'etl.*' instead of single names");
  }
  data.resize(needed, ' ');
  return data;
}

Entry decode_entry(std::string_view data, const std::vector<Key>& registry_keys) {
  const std::size_t first = data.find('\n');
  const std::size_t second = first == std::string_view::npos ? first : data.find('\n', first + 1);
  if (second == std::string_view::npos || data.size() > limits::max_entry_bytes) refuse("no two lines, or too large");
  const std::string_view line = data.substr(0, first);
  const std::string_view mac = data.substr(first + 1, second - first - 1);
  if (!has_mac(line, mac, registry_keys)) refuse("the MAC does not fit: torn, foreign, or of another key");
  const Json values = parse(line);
  Entry entry;
  each_field(entry, [&](const char* key, auto& field) {
    const auto value = values.find(key);
    if (value == values.end() && may_be_absent(key)) return;
    if (value == values.end()) refuse(std::string(key) + " is missing");
    take(*value, key, field);
  });
  check_meaning(entry, values);
  return entry;
}

}  // namespace speed::wire
