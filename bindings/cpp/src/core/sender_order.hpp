// Serial queues, one per sender: items of one sender run one after another, senders side by side (S-5).
// Threads: not thread-safe; the caller's lock covers every method.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <unordered_map>

namespace speed::core {

template <class Item>
class SenderOrder {
 public:
  // The item itself: run it now and call `done` afterwards. Null: it waits, and `done` will hand it out.
  std::optional<Item> push(const std::string& sender, Item item) {
    const auto [place, is_new] = waiting_.try_emplace(sender);
    if (is_new) return item;
    place->second.push_back(std::move(item));
    return std::nullopt;
  }

  // The running item of `sender` ended: the next one to run, null when none waits.
  std::optional<Item> done(const std::string& sender) {
    const auto place = waiting_.find(sender);
    if (place == waiting_.end()) return std::nullopt;
    if (place->second.empty()) {
      waiting_.erase(place);
      return std::nullopt;
    }
    Item item = std::move(place->second.front());
    place->second.pop_front();
    return item;
  }

 private:
  // A sender is present exactly while one of its items runs; the list holds those behind it.
  std::unordered_map<std::string, std::list<Item>> waiting_;
};

}  // namespace speed::core
