// Counters of one node, as DISCOVERY STATS reports them (S-14).
// Threads: all methods may be called from any thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/counters.hpp"
#include "fs/clock.hpp"
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

// What one handler of messages did.
struct HandlerStats {
  std::int64_t handled = 0;
  std::int64_t errors = 0;
  Duration processing = {};
  Times queue_times;
  Times run_times;

  Map as_map() const {
    return {{"numHandled", handled},
            {"numErrors", errors},
            {"processingSeconds", in_seconds(processing)},
            {"queueTimes", queue_times.as_array()},
            {"runTimes", run_times.as_array()}};
  }
};

// What was exchanged with one other node: envelopes, and bytes of their payloads. Threads: any.
struct Traffic {
  std::atomic<std::int64_t> received = 0;
  std::atomic<std::int64_t> received_bytes = 0;
  std::atomic<std::int64_t> sent = 0;
  std::atomic<std::int64_t> sent_bytes = 0;

  void add_received(std::size_t bytes) {
    received.fetch_add(1, std::memory_order_relaxed);
    received_bytes.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }
  void add_sent(std::size_t envelopes, std::size_t bytes) {
    sent.fetch_add(static_cast<std::int64_t>(envelopes), std::memory_order_relaxed);
    sent_bytes.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }
  Map as_map() const {
    return {{"received", received.load()},
            {"receivedBytes", received_bytes.load()},
            {"sent", sent.load()},
            {"sentBytes", sent_bytes.load()}};
  }
};

// What one service did since it was registered.
struct ServiceStats {
  std::int64_t requests = 0;
  std::int64_t errors = 0;
  std::string last_error;
  Duration processing = {};
  std::int64_t timed_out = 0;  // before they began, or later
  std::int64_t timed_out_queued = 0;  // those that never began
  std::int64_t withdrawn = 0;
  std::int64_t refused = 0;  // the service does not allow the caller
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
            {"numTimedOutQueued", timed_out_queued},
            {"numWithdrawn", withdrawn},
            {"numRefused", refused},
            {"queueTimes", queue_times.as_array()},
            {"runTimes", run_times.as_array()}};
  }
};

inline constexpr std::size_t most_names = 64;  // that others choose, or a program without an end
inline constexpr const char* other_names = "*";

// Counts by peer, of at most 64 peers: they choose their names. What comes from others is counted under "*".
class PeerCounts {
 public:
  void add(const std::string& peer) {
    const bool is_known = counts_.contains(peer);
    ++counts_[is_known || counts_.size() < most_names ? peer : other_names];
  }
  Map as_map() const {
    Map counts;
    for (const auto& [peer, number] : counts_) counts.set(peer, number);
    return counts;
  }

 private:
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
  void timed_out(const std::string& service, bool queued) {
    const MutexLock guard(lock_);
    ServiceStats& stats = services_[service];
    ++stats.timed_out;
    if (queued) ++stats.timed_out_queued;
  }

  void withdrawn(const std::string& service) {
    const MutexLock guard(lock_);
    ++services_[service].withdrawn;
  }

  void refused(const std::string& service) {
    const MutexLock guard(lock_);
    ++services_[service].refused;
  }

  // One attempt of a handler; `queued` is how long the first one had waited.
  void handled(std::string_view handler, std::optional<Duration> queued, Duration span, bool failed) {
    const MutexLock guard(lock_);
    HandlerStats& stats = among_few(handlers_, handler);
    ++stats.handled;
    if (failed) ++stats.errors;
    if (queued) stats.queue_times.add(*queued);
    stats.processing += span;
    stats.run_times.add(span);
  }

  // Where to count what is exchanged with a node: as long as these counters are there.
  Traffic& traffic(std::string_view peer) {
    const MutexLock guard(lock_);
    return among_few(traffic_, peer);
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

  Map handlers() const {
    const MutexLock guard(lock_);
    Map rows;
    for (const auto& [handler, stats] : handlers_) rows.set(handler, stats.as_map());
    return rows;
  }

  Map peers() const {
    const MutexLock guard(lock_);
    Map rows;
    for (const auto& [peer, traffic] : traffic_) {
      if (traffic.received + traffic.sent > 0) rows.set(peer, traffic.as_map());
    }
    return rows;
  }

  std::map<std::string, ServiceStats> services() const {
    const MutexLock guard(lock_);
    return services_;
  }

 private:
  template <class Row>
  static Row& among_few(std::map<std::string, Row, std::less<>>& rows, std::string_view name) {
    const auto found = rows.find(name);
    if (found != rows.end()) return found->second;
    return rows.try_emplace(rows.size() < most_names ? std::string(name) : other_names).first->second;
  }

  mutable Mutex lock_;
  std::map<std::string, HandlerStats, std::less<>> handlers_ SPEED_GUARDED_BY(lock_);
  std::map<std::string, Traffic, std::less<>> traffic_ SPEED_GUARDED_BY(lock_);
  std::map<std::string, std::uint64_t, std::less<>> counters_ SPEED_GUARDED_BY(lock_);  // found without making a string
  std::map<std::string, ServiceStats> services_ SPEED_GUARDED_BY(lock_);
  PeerCounts refused_senders_ SPEED_GUARDED_BY(lock_);
  PeerCounts refused_by_ SPEED_GUARDED_BY(lock_);
};

// Counts one attempt of a handler, from its beginning to where this goes; one that throws failed.
class HandlerSpan {
 public:
  static constexpr std::string_view messages = "(messages)";  // no topic is called so
  static constexpr std::string_view batches = "(batches)";

  // `arrived`: when the first attempt began to wait. `handler` outlives this.
  HandlerSpan(Stats& stats, std::string_view handler, std::optional<TimePoint> arrived)
      : stats_(stats), handler_(handler) {
    if (arrived) queued_ = began_ - *arrived;
  }
  HandlerSpan(const HandlerSpan&) = delete;
  HandlerSpan& operator=(const HandlerSpan&) = delete;
  ~HandlerSpan() {
    stats_.handled(handler_, queued_, fs::monotonic_now() - began_, std::uncaught_exceptions() > thrown_);
  }

 private:
  Stats& stats_;
  const std::string_view handler_;
  const int thrown_ = std::uncaught_exceptions();
  const TimePoint began_ = fs::monotonic_now();
  std::optional<Duration> queued_;
};

}  // namespace speed::engine
