// Which of many may hold files open: whoever was used longest ago goes to rest first (L-26).
// Threads: not thread-safe.
#pragma once

#include <functional>
#include <list>
#include <unordered_map>
#include <vector>

namespace speed::core {

template <class Key, class Hash = std::hash<Key>>
class LeastRecentlyUsed {
 public:
  bool contains(const Key& key) const { return places_.contains(key); }

  // `key` is used now. Returns those that were used longest ago, to be put to rest so that at most `most` are left.
  std::vector<Key> use(const Key& key, std::size_t most) {
    const auto found = places_.find(key);
    if (found != places_.end()) {
      keys_.splice(keys_.end(), keys_, found->second);
      return {};
    }
    places_.emplace(key, keys_.insert(keys_.end(), key));
    std::vector<Key> resting;
    for (; keys_.size() > most; rest(resting.back())) resting.push_back(keys_.front());
    return resting;
  }

  // `key` holds nothing open any more.
  void rest(const Key& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return;
    keys_.erase(found->second);
    places_.erase(found);
  }

  std::vector<Key> keys() const { return {keys_.begin(), keys_.end()}; }

 private:
  std::list<Key> keys_;  // in the order of their last use
  std::unordered_map<Key, typename std::list<Key>::iterator, Hash> places_;
};

}  // namespace speed::core
