// Counters of one node, as DISCOVERY STATS reports them (S-14).
// Threads: all methods may be called from any thread.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "core/counters.hpp"
#include "speed/value.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

// How long things took, as counts of spans: the first counts those below 64 us, each that follows those of up to twice as
// long, the last whatever is longer.
class Times {
 public:
  static constexpr std::size_t places = 24;
  static constexpr std::size_t shortest_bits = 6;

  static constexpr std::size_t place(Duration span) {
    const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(span).count();
    const auto bits = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(whole < 0 ? 0 : whole)));
    return std::min(bits < shortest_bits ? 0 : bits - shortest_bits, places - 1);
  }
  void add(Duration span) { ++counts_[place(span)]; }
  Array as_array() const { return {counts_.begin(), counts_.end()}; }

 private:
  std::array<std::int64_t, places> counts_{};
};

// What one service did since it was registered.
struct ServiceStats {
  std::int64_t requests = 0;
  std::int64_t errors = 0;
  std::string last_error;
  Duration processing = {};
  std::int64_t timed_out = 0;  // before they began, or later
  Times queue_times;
  Times run_times;

  Map as_map() const {
    const double average = requests == 0 ? 0.0 : in_seconds(processing) / static_cast<double>(requests);
    return {{"numRequests", requests},
            {"numErrors", errors},
            {"lastError", last_error},
            {"processingSeconds", in_seconds(processing)},
            {"averageSeconds", average},
            {"numTimedOut", timed_out},
            {"queueTimes", queue_times.as_array()},
            {"runTimes", run_times.as_array()}};
  }
};

// Counts by peer, of at most 64 peers: they choose their names. What comes from others is counted under "*".
class PeerCounts {
 public:
  void add(const std::string& peer) {
    const bool is_known = counts_.contains(peer);
    ++counts_[is_known || counts_.size() < most ? peer : others];
  }
  Map as_map() const {
    Map counts;
    for (const auto& [peer, number] : counts_) counts.set(peer, number);
    return counts;
  }

 private:
  static constexpr std::size_t most = 64;
  static constexpr const char* others = "*";
  std::map<std::string, std::int64_t> counts_;
};

class Stats {
 public:
  void count(std::string_view name, std::uint64_t amount = 1) {
    const MutexLock guard(lock_);
    const auto found = counters_.find(name);
    if (found != counters_.end()) {
      found->second += amount;
    } else {
      counters_.emplace(name, amount);
    }
  }

  // What broke a rule of the wire, by its code.
  void rejected(std::string_view reason) {
    std::string name = core::counters::rejected("");
    for (const char c : reason) name += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    count(name);
  }

  // One request that waited, began and was answered; `error` is its code, empty on success.
  void served(const std::string& service, Duration queued, Duration span, const std::string& error) {
    const MutexLock guard(lock_);
    ServiceStats& stats = services_[service];
    ++stats.requests;
    stats.queue_times.add(queued);
    stats.run_times.add(span);
    stats.processing += span;
    if (error.empty()) return;
    ++stats.errors;
    stats.last_error = error;
  }

  // The deadline of a request for a service that is registered passed.
  void timed_out(const std::string& service) {
    const MutexLock guard(lock_);
    ++services_[service].timed_out;
  }

  // An envelope was refused for lack of a grant, or the service does not allow its caller.
  void refused_sender(const std::string& sender) {
    const MutexLock guard(lock_);
    refused_senders_.add(sender);
  }

  // Something was not written, since the target does not allow this node.
  void refused_by(const std::string& target) {
    const MutexLock guard(lock_);
    refused_by_.add(target);
  }

  std::pair<Map, Map> refusals() const {
    const MutexLock guard(lock_);
    return {refused_senders_.as_map(), refused_by_.as_map()};
  }

  std::map<std::string, std::uint64_t> counters() const {
    const MutexLock guard(lock_);
    return {counters_.begin(), counters_.end()};
  }

  std::map<std::string, ServiceStats> services() const {
    const MutexLock guard(lock_);
    return services_;
  }

 private:
  mutable Mutex lock_;
  std::map<std::string, std::uint64_t, std::less<>> counters_ SPEED_GUARDED_BY(lock_);  // found without making a string
  std::map<std::string, ServiceStats> services_ SPEED_GUARDED_BY(lock_);
  PeerCounts refused_senders_ SPEED_GUARDED_BY(lock_);
  PeerCounts refused_by_ SPEED_GUARDED_BY(lock_);
};

}  // namespace speed::engine
