// What must not overtake the requests of its sender that are still being put together (G-14): withdrawals and questions
// name requests, and are looked at once those before them are known.
// Threads: none of its own; guarded by the lock of its owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "wire/limits.hpp"

namespace speed::core {

class RequestBarrier {
 public:
  using Task = std::function<void()>;
  using Ticket = std::uint64_t;

  // A request of `sender` is put together from now on, until `end` is told of what this returns.
  Ticket begin(const std::string& sender) {
    open_[sender].insert(++last_);
    return last_;
  }

  // Whether `task` waits; if not, it is to be done at once: nothing is before it, or too much waits already.
  bool wait(const std::string& sender, const Task& task) {
    const auto before = open_.find(sender);
    if (before == open_.end()) return false;
    std::vector<Waiting>& waiting = waiting_[sender];
    if (waiting.size() >= wire::limits::max_deferred_controls) return false;
    waiting.push_back({before->second, task});
    return true;
  }

  // A request is known now, or given up; returns what waited for it alone, in its order.
  std::vector<Task> end(const std::string& sender, Ticket ticket) {
    const auto open = open_.find(sender);
    open->second.erase(ticket);
    if (open->second.empty()) open_.erase(open);
    std::vector<Task> due;
    std::vector<Waiting>& waiting = waiting_[sender];
    for (Waiting& one : waiting) {
      one.before.erase(ticket);
      if (one.before.empty()) due.push_back(std::move(one.task));
    }
    std::erase_if(waiting, [](const Waiting& one) { return one.before.empty(); });
    if (waiting.empty()) waiting_.erase(sender);
    return due;
  }

 private:
  struct Waiting {
    std::set<Ticket> before;
    Task task;
  };

  Ticket last_ = 0;
  std::map<std::string, std::set<Ticket>> open_;  // requests that are being put together, by sender
  std::map<std::string, std::vector<Waiting>> waiting_;
};

}  // namespace speed::core
