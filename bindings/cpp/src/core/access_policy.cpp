#include "speed/access_policy.hpp"

#include <algorithm>

#include "wire/mutex.hpp"
#include "wire/names/names.hpp"

namespace speed {

namespace {

// What a grant of an identity is about; any other rule as it is.
std::string_view node_of(std::string_view rule) { return rule.substr(0, rule.find('@')); }

// Whether every name that `rule` covers is covered by `pattern` too.
bool covers(std::string_view pattern, std::string_view rule) {
  rule = node_of(rule);
  return pattern == rule || (pattern.ends_with(".*") && rule.starts_with(pattern.substr(0, pattern.size() - 1)));
}

bool is_of_identity(std::string_view rule) { return rule.find('@') != std::string_view::npos; }

bool has_identities(const AccessPolicy::Rules& rules, const std::string& name) {
  const auto next = rules.lower_bound(name + "@");
  return next != rules.end() && next->first.starts_with(name + "@");
}

}  // namespace

struct SPEED_LOCAL AccessPolicy::State {
  Mutex lock;
  Rules rules SPEED_GUARDED_BY(lock);
};

AccessPolicy::AccessPolicy() : state_(std::make_unique<State>()) {}
AccessPolicy::AccessPolicy(const Names& patterns) : AccessPolicy() { allow(patterns); }
AccessPolicy::~AccessPolicy() = default;

// A grant of an identity is a rule beside that of its node.
void AccessPolicy::allow(const Names& patterns) {
  for (const std::string& pattern : patterns) {
    if (wire::names_identity(pattern)) wire::check_node_name(node_of(pattern));
    else wire::check_grant(pattern);
  }
  const MutexLock guard(state_->lock);
  for (const std::string& pattern : patterns) {
    state_->rules[pattern] = true;
    state_->rules[std::string(node_of(pattern))] = true;
  }
}

void AccessPolicy::deny(const Names& patterns) {
  for (const std::string& pattern : patterns) wire::check_grant(pattern);
  const MutexLock guard(state_->lock);
  for (const std::string& pattern : patterns) {
    std::erase_if(state_->rules, [&](const auto& rule) { return covers(pattern, rule.first); });
    state_->rules[pattern] = false;
  }
}

bool AccessPolicy::allows(std::string_view name) const {
  const MutexLock guard(state_->lock);
  if (const auto exact = state_->rules.find(name); exact != state_->rules.end()) return exact->second;
  // "etl.eu.1" is looked up as "etl.eu.*", then "etl.*": the longest family decides first.
  for (std::size_t dot = name.rfind('.'); dot != std::string_view::npos && dot > 0; dot = name.rfind('.', dot - 1)) {
    const auto family = state_->rules.find(std::string(name.substr(0, dot)) + ".*");
    if (family != state_->rules.end()) return family->second;
  }
  return false;
}

bool AccessPolicy::publishes(std::string_view name) const {
  const MutexLock guard(state_->lock);
  return std::ranges::any_of(state_->rules,
                             [&](const auto& rule) { return rule.second && wire::matches(rule.first, name); });
}

std::vector<std::string> AccessPolicy::allowed() const {
  const MutexLock guard(state_->lock);
  std::vector<std::string> patterns;
  for (const auto& [pattern, granted] : state_->rules) {
    if (granted && !is_of_identity(pattern) && !has_identities(state_->rules, pattern)) patterns.push_back(pattern);
  }
  return patterns;
}

std::vector<std::string> AccessPolicy::identities() const {
  const MutexLock guard(state_->lock);
  std::vector<std::string> patterns;
  for (const auto& [pattern, granted] : state_->rules) {
    if (is_of_identity(pattern)) patterns.push_back(pattern);
  }
  return patterns;
}

std::vector<std::string> AccessPolicy::fingerprints(std::string_view name) const {
  const std::string front = std::string(name) + "@";
  const MutexLock guard(state_->lock);
  std::vector<std::string> found;
  for (auto rule = state_->rules.lower_bound(front); rule != state_->rules.end(); ++rule) {
    if (!rule->first.starts_with(front)) break;
    found.push_back(rule->first.substr(front.size()));
  }
  return found;
}

std::vector<std::string> AccessPolicy::denied() const {
  const std::vector<std::string> grants = allowed();
  const MutexLock guard(state_->lock);
  std::vector<std::string> patterns;
  for (const auto& [pattern, granted] : state_->rules) {
    const bool is_excepted =
        std::ranges::any_of(grants, [&, &rule = pattern](const auto& grant) { return covers(grant, rule); });
    if (!granted && is_excepted) patterns.push_back(pattern);
  }
  return patterns;
}

AccessPolicy::Rules AccessPolicy::rules() const {
  const MutexLock guard(state_->lock);
  return state_->rules;
}

void AccessPolicy::restore(Rules rules) {
  const MutexLock guard(state_->lock);
  state_->rules = std::move(rules);
}

}  // namespace speed
