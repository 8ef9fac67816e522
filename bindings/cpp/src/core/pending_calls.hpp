// Calls and acknowledgements that wait for an answer: each is completed exactly once (S-6, S-7).
// Threads: not thread-safe; the lock of the runtime's Calls guards it. Completions run outside of that lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "speed/value.hpp"
#include "wire/envelope/entry.hpp"
#include "wire/time.hpp"
#include "wire/value/buffer.hpp"

namespace speed::core {

// An answer as it came: whoever waits for it decodes it (S-2).
struct Unread {
  std::string source;
  wire::KeptBytes payload;
};

using Outcome = std::variant<Value, std::exception_ptr, Unread>;
using Completion = std::function<void(Outcome)>;

// The bytes of open calls, which may be sent again; bounded.
// Threads: all methods may be called from any thread.
class KeptRequests {
 public:
  explicit KeptRequests(wire::Buffers buffers) : buffers_(std::move(buffers)) {}

  bool take(std::size_t bytes) {
    if (bytes_.fetch_add(bytes) + bytes <= wire::limits::max_kept_request_bytes) return true;
    bytes_ -= bytes;
    return false;
  }
  void give(wire::Buffer buffer) {
    bytes_ -= buffer.capacity();
    buffers_.give(std::move(buffer));
  }
  std::size_t bytes() const { return bytes_; }

 private:
  wire::Buffers buffers_;
  std::atomic<std::size_t> bytes_ = 0;
};

// The request of a call, for who settles it when its server is gone, and may send it again (S-21).
struct SentRequest {
  SentRequest() = default;
  SentRequest(const SentRequest&) = delete;
  SentRequest& operator=(const SentRequest&) = delete;
  ~SentRequest() {
    if (keeper != nullptr) keeper->give(std::move(payload));
  }

  TimePoint until = {};                                // the deadline of its program
  std::uint32_t generation = 0;                    // of the server that it was written to; 0: to none yet
  std::shared_ptr<const wire::Entry> server = {};  // the entry of that generation
  std::vector<std::uint64_t> segments = {};        // sequences, where it went in several envelopes
  std::uint64_t sequence = 0;                      // where it went in one
  std::size_t needed = 1;                          // so many envelopes make it whole
  wire::Buffer payload = {};
  std::shared_ptr<KeptRequests> keeper = {};       // of the payload; null: it is not kept
  enum class State { written, waits, is_being_written } state = State::is_being_written;
  bool may_have_run = false;       // in the generation that it was written to last
  bool server_left = false;        // that generation said so: it begins nothing more
  bool is_withdrawn = false;
  bool is_stream = false;          // and therefore not kept
  bool is_awaited = false;         // of one that waits: its server is starting
  std::optional<TimePoint> since = {};  // it waits for a successor, or for what decides

  std::span<const std::uint64_t> sequences() const {
    return segments.empty() ? std::span(&sequence, 1) : std::span(segments);
  }
};

struct PendingCall {
  std::string target;
  TimePoint deadline = {};
  enum class Kind { call, question, acknowledgement } kind = Kind::call;
  Completion completion;
  std::shared_ptr<SentRequest> request = {};  // of a call
  std::uint64_t number = 0;  // of its entering, from 1; the table gives it
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

  // A call that waits; null if it ended.
  PendingCall* find(const std::string& key) {
    const auto found = calls_.find(key);
    return found == calls_.end() ? nullptr : &found->second;
  }

  // What is known of the deadlines follows.
  void set_deadline(PendingCall& call, TimePoint deadline) {
    call.deadline = deadline;
    earliest_ = std::min(earliest_, deadline);
  }

  template <class Visit>
  void each(Visit visit) {
    for (auto& [key, call] : calls_) visit(key, call);
  }

  template <class Match>
  bool any(Match match) const {
    return std::ranges::any_of(calls_, [&](const auto& row) { return match(row.second); });
  }

  std::optional<PendingCall> take(const std::string& key) {
    const auto found = calls_.find(key);
    if (found == calls_.end()) return std::nullopt;
    PendingCall call = std::move(found->second);
    calls_.erase(found);
    return call;
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

  std::vector<PendingCall> take_late(TimePoint now) {
    if (now < earliest_) return {};
    auto late = take_if([&](const PendingCall& call) { return call.deadline <= now; });
    earliest_ = never;
    for (const auto& [key, call] : calls_) earliest_ = std::min(earliest_, call.deadline);
    return late;
  }

  TimePoint next_deadline() const { return calls_.empty() ? never : earliest_; }  // not after the earliest one
  std::size_t size() const { return calls_.size(); }

  bool waits_for(const std::string& target) const {
    return any([&](const PendingCall& call) { return call.target == target; });
  }

  std::set<std::string> targets() const {
    std::set<std::string> names;
    for (const auto& [key, call] : calls_) names.insert(call.target);
    return names;
  }

 private:
  using Table = std::unordered_map<std::string, PendingCall>;

  Completion take(Table::iterator found) {
    Completion completion = std::move(found->second.completion);
    calls_.erase(found);
    return completion;
  }

  Table calls_;
  TimePoint earliest_ = never;
  std::uint64_t entered_ = 0;
};

}  // namespace speed::core
