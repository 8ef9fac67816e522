#include "core/observers.hpp"

#include <algorithm>

#include "speed/error.hpp"
#include "wire/limits.hpp"
#include "wire/names/names.hpp"

namespace speed::core {

namespace {

constexpr std::string_view margins = " \t\r";

std::string_view without_margins(std::string_view line) {
  const std::size_t first = line.find_first_not_of(margins);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(margins) - first + 1);
}

// Whether every name that `rule` covers is covered by `pattern` too.
bool covers(std::string_view pattern, std::string_view rule) {
  return pattern == rule || (wire::is_family(pattern) && rule.starts_with(pattern.substr(0, pattern.size() - 1)));
}

bool any_covers(const std::vector<std::string>& patterns, std::string_view name) {
  return std::ranges::any_of(patterns, [&](const std::string& one) { return wire::matches(one, name); });
}

// Whether the rules have a denial of that name, or a grant of one of its identities, which decides alone (I-8).
bool has_own_say(const AccessPolicy::Rules& rules, std::string_view name) {
  const std::string identities = std::string(name) + "@";
  return std::ranges::any_of(rules, [&](const auto& rule) {
    return rule.first.starts_with(identities) || (!rule.second && wire::matches(rule.first, name));
  });
}

}  // namespace

std::vector<std::string> parse_observers(std::string_view text) {
  using wire::limits::max_observers;
  using wire::limits::max_observers_bytes;
  if (text.size() > max_observers_bytes) {
    throw ConfigurationError("more than " + std::to_string(max_observers_bytes) +
                             " bytes: name families such as 'cli.*'");
  }
  std::vector<std::string> found;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::string_view pattern = without_margins(line.substr(0, line.find('#')));
    if (pattern.empty()) continue;
    if (!wire::is_grant(pattern)) {
      throw ConfigurationError("line " + std::to_string(number) +
                               " is neither a node name nor a family such as 'cli.*'");
    }
    found.emplace_back(pattern);
  }
  if (found.size() > max_observers) {
    throw ConfigurationError("more than " + std::to_string(max_observers) + " names: name families such as 'cli.*'");
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::vector<std::string> Observers::names() const {
  const MutexLock guard(lock_);
  return names_;
}

void Observers::replace(std::vector<std::string> names) {
  const MutexLock guard(lock_);
  names_ = std::move(names);
}

bool Observers::cover(std::string_view name) const {
  const MutexLock guard(lock_);
  return any_covers(names_, name);
}

bool Observers::include(std::string_view name, const AccessPolicy& policy) const {
  return cover(name) && !has_own_say(policy.rules(), name);
}

std::vector<std::string> Observers::denials(const AccessPolicy& policy) const {
  std::vector<std::string> found = policy.denied();
  const std::vector<std::string> observers = names();
  for (const auto& [denial, is_grant] : policy.rules()) {
    const auto meets = [&, &one = denial](const std::string& name) { return covers(name, one) || covers(one, name); };
    if (!is_grant && std::ranges::any_of(observers, meets)) found.push_back(denial);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace speed::core
