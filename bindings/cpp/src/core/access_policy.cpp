#include "speed/access_policy.hpp"

#include <algorithm>

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

void AccessPolicy::allow(const Names& patterns) {
  check_all(patterns);
  const std::lock_guard guard(lock_);
  for (const std::string& pattern : patterns) rules_[pattern] = true;
}

void AccessPolicy::deny(const Names& patterns) {
  check_all(patterns);
  const std::lock_guard guard(lock_);
  for (const std::string& pattern : patterns) {
    std::erase_if(rules_, [&](const auto& rule) { return covers(pattern, rule.first); });
    rules_[pattern] = false;
  }
}

bool AccessPolicy::allows(std::string_view name) const {
  const std::lock_guard guard(lock_);
  if (const auto exact = rules_.find(name); exact != rules_.end()) return exact->second;
  // "etl.eu.1" is looked up as "etl.eu.*", then "etl.*": the longest family decides first.
  for (std::size_t dot = name.rfind('.'); dot != std::string_view::npos && dot > 0; dot = name.rfind('.', dot - 1)) {
    const auto family = rules_.find(std::string(name.substr(0, dot)) + ".*");
    if (family != rules_.end()) return family->second;
  }
  return false;
}

bool AccessPolicy::publishes(std::string_view name) const {
  const std::lock_guard guard(lock_);
  return std::ranges::any_of(rules_, [&](const auto& rule) { return rule.second && wire::matches(rule.first, name); });
}

std::vector<std::string> AccessPolicy::allowed() const {
  const std::lock_guard guard(lock_);
  std::vector<std::string> patterns;
  for (const auto& [pattern, granted] : rules_) {
    if (granted) patterns.push_back(pattern);
  }
  return patterns;
}

AccessPolicy::Rules AccessPolicy::rules() const {
  const std::lock_guard guard(lock_);
  return rules_;
}

void AccessPolicy::restore(Rules rules) {
  const std::lock_guard guard(lock_);
  rules_ = std::move(rules);
}

}  // namespace speed
