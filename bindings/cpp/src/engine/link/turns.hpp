// Who of each family got the last event that its nodes share (S-42).
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "wire/mutex.hpp"

namespace speed::engine {

// Threads: may be called from any.
class Turns {
 public:
  // Puts those behind the last one first; `able` is sorted by name.
  void order(const std::string& family, std::vector<std::string>& able) const {
    const MutexLock guard(lock_);
    const auto last = last_.find(family);
    if (last == last_.end()) return;
    std::rotate(able.begin(), std::ranges::upper_bound(able, last->second), able.end());
  }

  void took(const std::string& family, const std::string& name) {
    const MutexLock guard(lock_);
    if (last_.size() >= max_families && !last_.contains(family)) last_.clear();  // they begin anew
    last_[family] = name;
  }

 private:
  static constexpr std::size_t max_families = 1024;

  mutable Mutex lock_;
  std::map<std::string, std::string> last_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::engine
