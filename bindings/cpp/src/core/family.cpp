#include "core/family.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "wire/names/names.hpp"

namespace speed::core {

namespace {

using Weight = wire::Block<crypto_hash_sha256_BYTES>;

constexpr Duration most_backoff = 5s;
constexpr int most_doublings = 32;
constexpr std::array transient = {"UNKNOWN_NODE", "NODE_LEFT", "LEAVING", "REPLACED", "NODE_STARTING"};

bool is_transient(std::string_view code) { return std::ranges::find(transient, code) != transient.end(); }

// By rendezvous: when one of n members comes or goes, one key of n moves, to it or from it.
Weight weight_of(std::string_view name, std::string_view key) {
  const unsigned char between = 0;
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  crypto_hash_sha256_update(&state, wire::raw(wire::view(name)), name.size());
  crypto_hash_sha256_update(&state, &between, 1);
  crypto_hash_sha256_update(&state, wire::raw(wire::view(key)), key.size());
  Weight weight;
  crypto_hash_sha256_final(&state, wire::raw(std::span<std::byte>(weight)));
  return weight;
}

using Services = std::map<std::string, const Map*>;

std::string text_of(const Map& service, const char* field) {
  const Value* const value = service.find(field);
  const std::string* const text = value == nullptr ? nullptr : value->get_if<std::string>();
  return text == nullptr ? std::string() : *text;
}

Services by_name(const Array& services) {
  Services found;
  for (const Value& one : services) {
    const Map* const service = one.get_if<Map>();
    if (service != nullptr) found[text_of(*service, "name")] = service;
  }
  return found;
}

std::string service_difference(const Map* one, const Map* other) {
  if (one == nullptr || other == nullptr) return "is a service of one of them alone";
  const std::string version = text_of(*one, "version");
  const std::string theirs = text_of(*other, "version");
  if (version != theirs) return "has version '" + version + "' and '" + theirs + "'";
  return *one == *other ? "" : "is not described alike";
}

std::string difference_of(const Services& known, const Services& theirs) {
  Services all = known;
  all.insert(theirs.begin(), theirs.end());
  const auto in = [](const Services& services, const std::string& name) {
    const auto found = services.find(name);
    return found == services.end() ? nullptr : found->second;
  };
  for (const auto& [name, one] : all) {
    const std::string text = service_difference(in(known, name), in(theirs, name));
    if (!text.empty()) return "'" + name + "' " + text;
  }
  return {};
}

}  // namespace

std::string difference(const std::vector<Described>& described) {
  for (std::size_t other = 1; other < described.size(); ++other) {
    const std::string text = difference_of(by_name(described.front().services), by_name(described[other].services));
    if (!text.empty()) {
      return "'" + described.front().member + "' and '" + described[other].member + "' differ: " + text;
    }
  }
  return {};
}

std::string chosen(const std::vector<std::string>& able, const CallsByMember& under_way, const std::string& last,
                   const std::optional<std::string>& key) {
  if (key) return *std::ranges::max_element(able, {}, [&](const std::string& name) { return weight_of(name, *key); });
  return *std::ranges::min_element(able, {}, [&](const std::string& name) {
    const auto calls = under_way.find(name);
    return std::tuple(calls == under_way.end() ? 0 : calls->second, name <= last, name);
  });
}

bool passes_on(std::string_view code, std::optional<Execution> execution) {
  const bool may_succeed = is_transient(code) || code == "SERVICE_NOT_FOUND" || code == "ACCESS_DENIED";
  return may_succeed && execution == Execution::not_begun;
}

bool may_repeat(std::string_view code, std::optional<Execution> execution, bool idempotent) {
  if (is_transient(code) && execution == Execution::not_begun) return true;
  return idempotent && code != "UNKNOWN_NODE" && code != "NODE_STARTING" && (is_transient(code) || code == "TIMEOUT");
}

Duration backoff(Duration first, unsigned made) {
  const int doublings = static_cast<int>(std::min<unsigned>(std::max(made, 1U) - 1, most_doublings));
  return std::min<Duration>(most_backoff, saturated(Seconds(first) * std::ldexp(1.0, doublings)));
}

void RetryBudget::succeeded(double earned) {
  const MutexLock guard(lock_);
  tokens_ = std::min(most, tokens_ + earned);
}

bool RetryBudget::failed() {
  const MutexLock guard(lock_);
  tokens_ = std::max(0.0, tokens_ - 1);
  return tokens_ > most / 2;
}

}  // namespace speed::core
