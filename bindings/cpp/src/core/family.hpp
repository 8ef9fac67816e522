// Which member of a family is called, when another one is, and what is repeated (S-40, S-41). Decides only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "speed/error.hpp"
#include "speed/value.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::core {

// One process of a node.
struct FamilyMember {
  std::string name;
  std::int64_t generation = 0;
  auto operator<=>(const FamilyMember&) const = default;
};

using CallsByMember = std::map<std::string, std::size_t, std::less<>>;

// The one of `able`, which is not empty, with the fewest calls `under_way`, of equals the next one by name behind `last`;
// with a key always the same.
std::string chosen(const std::vector<std::string>& able, const CallsByMember& under_way, const std::string& last,
                   const std::optional<std::string>& key);

// The services of one member, as it describes them: maps.
struct Described {
  std::string member;
  Array services;
};

// What differs between the services of members; empty where nothing does.
std::string difference(const std::vector<Described>& described);

// Whether another member may be asked: this one began nothing, and another may take it.
bool passes_on(std::string_view code, std::optional<Execution> execution);
// Whether another attempt may be made, and may succeed.
bool may_repeat(std::string_view code, std::optional<Execution> execution, bool idempotent);

// The pause when so many attempts were made, before it is varied.
Duration backoff(Duration first, unsigned made);

// What calls of one target have earned (as gRFC A6 has it).
// Threads: all methods may be called from any thread.
class RetryBudget {
 public:
  static constexpr double most = 10;

  void succeeded(double earned);
  bool failed();  // takes one away; whether there is enough left to try again

 private:
  Mutex lock_;
  double tokens_ SPEED_GUARDED_BY(lock_) = most;
};

}  // namespace speed::core
