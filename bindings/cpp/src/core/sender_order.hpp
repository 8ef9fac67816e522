// Serial queues, one per sender: items of one sender run one after another, senders side by side (S-5), the most urgent
// first (M-33).
// Threads: not thread-safe; the caller's lock covers every method.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

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

// Items that may run: the highest priority first, those of one priority as they came.
template <class Item>
class ByPriority {
 public:
  void push(int priority, Item item) {
    heap_.push_back({priority, pushed_++, std::move(item)});
    std::ranges::push_heap(heap_, is_after);
  }

  // Of at least one.
  Item pop() {
    std::ranges::pop_heap(heap_, is_after);
    Item item = std::move(heap_.back().item);
    heap_.pop_back();
    return item;
  }

  bool empty() const { return heap_.empty(); }
  bool has_above(int priority) const { return !heap_.empty() && heap_.front().priority > priority; }

 private:
  struct Place {
    int priority;
    std::uint64_t number;
    Item item;
  };

  static bool is_after(const Place& one, const Place& other) {
    return one.priority == other.priority ? one.number > other.number : one.priority < other.priority;
  }

  std::vector<Place> heap_;
  std::uint64_t pushed_ = 0;
};

// Items that wait to be fetched: in order for each sender, of different senders the highest priority first.
template <class Item>
class SenderHeads {
 public:
  void push(const std::string& sender, int priority, Item item) {
    auto first = behind_.push(sender, {priority, std::move(item)});
    if (first) heads_.push(priority, {sender, std::move(first->second)});
  }

  // Of at least one; its sender's following takes its place.
  Item pop() {
    auto [sender, item] = heads_.pop();
    if (auto next = behind_.done(sender)) heads_.push(next->first, {sender, std::move(next->second)});
    return std::move(item);
  }

  bool empty() const { return heads_.empty(); }

 private:
  ByPriority<std::pair<std::string, Item>> heads_;
  SenderOrder<std::pair<int, Item>> behind_;
};

}  // namespace speed::core
