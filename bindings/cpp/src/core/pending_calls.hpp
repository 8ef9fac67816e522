// Calls and acknowledgements that wait for an answer: each is completed exactly once (S-6, S-7).
// Threads: not thread-safe; the lock of the runtime's Calls guards it. Completions run outside of that lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "speed/value.hpp"
#include "wire/bytes.hpp"

namespace speed::core {

// An answer as it came: whoever waits for it decodes it (S-2).
struct Unread {
  std::string source;
  wire::KeptBytes payload;
};

using Outcome = std::variant<Value, std::exception_ptr, Unread>;
using Completion = std::function<void(Outcome)>;

struct PendingCall {
  std::string target;
  double deadline = 0;  // monotonic seconds
  enum class Kind { call, question, acknowledgement } kind = Kind::call;
  Completion completion;
  std::uint64_t number = 0;  // of its entering, from 1; the table gives it
  std::uint32_t life = 0;       // the newest generation of the target that has the request; 0 until it is written
  std::uint32_t missed_by = 0;  // the generation that did not know of it when asked
};

class PendingCalls {
 public:
  void add(std::string key, PendingCall call) {
    earliest_ = std::min(earliest_, call.deadline);
    call.number = ++entered_;
    calls_.insert_or_assign(std::move(key), std::move(call));
  }

  // Whoever takes a call completes it. Null unless it waits for an answer of `source` (S-6).
  Completion take(const std::string& key, const std::string& source) {
    const auto found = calls_.find(key);
    if (found == calls_.end() || found->second.target != source) return {};
    return take(found);
  }
  bool holds(const std::string& key) const { return calls_.contains(key); }
  bool forget(const std::string& key) { return calls_.erase(key) != 0; }

  std::uint64_t entered() const { return entered_; }  // the number of the call that came last

  // Takes those to `target` that were entered up to a number: later ones may be for a successor of that node (S-7).
  std::vector<PendingCall> take_to(const std::string& target, std::uint64_t number) {
    return take_if([&](const PendingCall& call) { return call.target == target && call.number <= number; });
  }

  void written(const std::string& key, std::uint32_t generation) {
    if (const auto found = calls_.find(key); found != calls_.end()) found->second.life = generation;
  }

  // Those that were written to an earlier life of `target` (S-21).
  std::vector<std::string> older(const std::string& target, std::uint32_t generation) const {
    std::vector<std::string> keys;
    for (const auto& [key, call] : calls_) {
      if (call.target == target && call.life > 0 && call.life < generation) keys.push_back(key);
    }
    return keys;
  }

  // That life of their target does not know a call. True the second time: before, its answer may have been on its way.
  bool is_gone(const std::string& key, std::uint32_t generation) {
    const auto found = calls_.find(key);
    return found != calls_.end() && std::exchange(found->second.missed_by, generation) == generation;
  }

  // Takes those that match; their caller completes them.
  template <class Match>
  std::vector<PendingCall> take_if(Match match) {
    std::vector<PendingCall> taken;
    for (auto at = calls_.begin(); at != calls_.end();) {
      if (match(at->second)) {
        taken.push_back(std::move(at->second));
        at = calls_.erase(at);
      } else {
        ++at;
      }
    }
    return taken;
  }

  std::vector<PendingCall> take_late(double now) {
    if (now < earliest_) return {};
    auto late = take_if([&](const PendingCall& call) { return call.deadline <= now; });
    earliest_ = never;
    for (const auto& [key, call] : calls_) earliest_ = std::min(earliest_, call.deadline);
    return late;
  }

  double next_deadline() const { return calls_.empty() ? never : earliest_; }  // not after the earliest one
  std::size_t size() const { return calls_.size(); }

  bool waits_for(const std::string& target) const {
    return std::ranges::any_of(calls_, [&](const auto& row) { return row.second.target == target; });
  }

  std::set<std::string> targets() const {
    std::set<std::string> names;
    for (const auto& [key, call] : calls_) names.insert(call.target);
    return names;
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();
  using Table = std::unordered_map<std::string, PendingCall>;

  Completion take(Table::iterator found) {
    Completion completion = std::move(found->second.completion);
    calls_.erase(found);
    return completion;
  }

  Table calls_;
  double earliest_ = never;
  std::uint64_t entered_ = 0;
};

}  // namespace speed::core
