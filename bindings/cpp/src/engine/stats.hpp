// Counters of one node, as DISCOVERY STATS reports them (S-14).
// Threads: all methods may be called from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/counters.hpp"
#include "speed/value.hpp"
#include "wire/mutex.hpp"
#include "wire/time.hpp"

namespace speed::engine {

// What one service did since it was registered.
struct ServiceStats {
  std::int64_t requests = 0;
  std::int64_t errors = 0;
  std::string last_error;
  Duration processing = {};

  Map as_map() const {
    const double average = requests == 0 ? 0.0 : in_seconds(processing) / static_cast<double>(requests);
    return {{"numRequests", requests},
            {"numErrors", errors},
            {"lastError", last_error},
            {"processingSeconds", in_seconds(processing)},
            {"averageSeconds", average}};
  }
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

  // One request that began and was answered; `error` is its code, empty on success.
  void served(const std::string& service, Duration span, const std::string& error) {
    const MutexLock guard(lock_);
    ServiceStats& stats = services_[service];
    ++stats.requests;
    stats.processing += span;
    if (error.empty()) return;
    ++stats.errors;
    stats.last_error = error;
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
};

}  // namespace speed::engine
