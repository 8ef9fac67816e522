// Who may look at a node without a grant: its root's owner says so.
// Threads: all methods of Observers may be called from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "speed/access_policy.hpp"
#include "wire/mutex.hpp"

namespace speed::core {

// The names and families in the text of an observers file, sorted; ConfigurationError says what is wrong.
std::vector<std::string> parse_observers(std::string_view text);

class Observers {
 public:
  std::vector<std::string> names() const;
  void replace(std::vector<std::string> names);

  bool cover(std::string_view name) const;  // even where a denial excepts it
  // Whether `name` may look at a node of that policy, whatever it is granted.
  bool include(std::string_view name, const AccessPolicy& policy) const;
  // What an entry has to publish of the denials of that policy: what they except from grants and from these.
  std::vector<std::string> denials(const AccessPolicy& policy) const;

 private:
  mutable Mutex lock_;
  std::vector<std::string> names_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::core
