#include "speed/access_policy.hpp"

#include <algorithm>

#include "wire/mutex.hpp"
#include "wire/names/names.hpp"

namespace speed {

namespace {

void check_all(const Names& patterns) {
  for (const std::string& pattern : patterns) wire::check_grant(pattern);
}

// Whether every name that `rule` covers is covered by `pattern` too.
bool covers(std::string_view pattern, std::string_view rule) {
  return pattern == rule || (pattern.ends_with(".*") && rule.starts_with(pattern.substr(0, pattern.size() - 1)));
}

}  // namespace

struct SPEED_LOCAL AccessPolicy::State {
  Mutex lock;
  Rules rules SPEED_GUARDED_BY(lock);
};

AccessPolicy::AccessPolicy() : state_(std::make_unique<State>()) {}
AccessPolicy::AccessPolicy(const Names& patterns) : AccessPolicy() { allow(patterns); }
AccessPolicy::~AccessPolicy() = default;

void AccessPolicy::allow(const Names& patterns) {
  check_all(patterns);
  const MutexLock guard(state_->lock);
  for (const std::string& pattern : patterns) state_->rules[pattern] = true;
}

void AccessPolicy::deny(const Names& patterns) {
  check_all(patterns);
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
    if (granted) patterns.push_back(pattern);
  }
  return patterns;
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
