#include "wire/hosts.hpp"

#include <algorithm>

#include "speed/error.hpp"
#include "wire/harmless.hpp"
#include "wire/names.hpp"

namespace speed::wire {

namespace {

constexpr std::size_t shown_characters = 80;

bool is_letter_or_digit(char one) {
  return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || (one >= '0' && one <= '9');
}

void check_host_name(std::string_view name) {
  if (is_host_name(name)) return;
  throw InvalidNameError("'" + harmless(name, shown_characters) + "' is no name of a host: use 1 to " +
                         std::to_string(max_host_characters) + " letters, digits, - and _");
}

}  // namespace

bool is_host_name(std::string_view name) {
  return !name.empty() && name.size() <= max_host_characters && is_letter_or_digit(name.front()) &&
         std::ranges::all_of(name, [](char one) { return is_letter_or_digit(one) || one == '-' || one == '_'; });
}

void check_remote(std::string_view target) {
  const std::size_t at = target.find('@');
  check_node_name(target.substr(0, at));
  check_host_name(at == std::string_view::npos ? std::string_view() : target.substr(at + 1));
}

std::string local_grant(const std::string& pattern) {
  const std::size_t at = pattern.find('@');
  if (at == std::string::npos) return pattern;
  const std::string node = pattern.substr(0, at);
  const std::string host = pattern.substr(at + 1);
  check_host_name(host);
  if (node != "*") check_grant(node);
  std::string local = "at." + host + "." + node;
  check_grant(local);
  return local;
}

std::vector<std::string> local_grants(const std::vector<std::string>& patterns) {
  std::vector<std::string> local;
  std::ranges::transform(patterns, std::back_inserter(local), local_grant);
  return local;
}

}  // namespace speed::wire
