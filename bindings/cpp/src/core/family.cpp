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

}  // namespace

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
