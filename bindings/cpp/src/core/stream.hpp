// What may be sent on a stream, and what arrives in order: credit, windows and the rate of progress (S-29, S-33, S-32).
// Threads: not thread-safe; the lock of a channel guards them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "wire/limits.hpp"
#include "wire/time.hpp"

namespace speed::core {

// Items, and bytes of their values.
struct Credit {
  std::uint64_t items = 0;
  std::uint64_t bytes = 0;
  bool operator==(const Credit&) const = default;
};

// What the sender of items may send.
class StreamCredit {
 public:
  explicit StreamCredit(Credit granted = {}) : granted_(granted) {}

  // All that was granted; totals only grow, so that a repeated one changes nothing.
  void grant(Credit total) {
    granted_.items = std::max(granted_.items, total.items);
    granted_.bytes = std::max(granted_.bytes, total.bytes);
  }
  // Counts an item as sent; false, and nothing counted, without credit.
  bool send(std::uint64_t bytes) {
    if (sent_.items >= granted_.items || sent_.bytes >= granted_.bytes) return false;
    ++sent_.items;
    sent_.bytes += bytes;
    return true;
  }
  bool has_begun() const { return granted_.items > 0; }

 private:
  Credit granted_;
  Credit sent_;
};

enum class Arrived : std::uint8_t { next, again, out_of_order, beyond_credit };

// What the reader of items has granted, and what it gives when they were processed.
class StreamWindow {
 public:
  // One that is not `open` has granted nothing yet.
  explicit StreamWindow(Credit window, bool open = true) : window_(window), granted_(open ? window : Credit{}) {}

  Credit open() { return granted_ = window_; }  // the first credit

  // Judges an envelope with `items` of `bytes` together, before which `number` went.
  Arrived arrive(std::uint64_t number, std::uint64_t items, std::uint64_t bytes) {
    if (items > 0 && number + items <= arrived_.items) return Arrived::again;
    if (number != arrived_.items) return Arrived::out_of_order;
    const bool is_beyond = arrived_.items + items > granted_.items || arrived_.bytes >= granted_.bytes;
    if (items > 0 && is_beyond) return Arrived::beyond_credit;
    arrived_.items += items;
    arrived_.bytes += bytes;
    return Arrived::next;
  }

  // Counts what was processed; the totals to grant now, if half of the window was.
  std::optional<Credit> process(std::uint64_t items, std::uint64_t bytes) {
    processed_.items += items;
    processed_.bytes += bytes;
    if (is_ample(granted_.items, processed_.items, window_.items) &&
        is_ample(granted_.bytes, processed_.bytes, window_.bytes)) {
      return std::nullopt;
    }
    granted_.items = std::max(granted_.items, processed_.items + window_.items);
    granted_.bytes = std::max(granted_.bytes, processed_.bytes + window_.bytes);
    return granted_;
  }

 private:
  static bool is_ample(std::uint64_t granted, std::uint64_t processed, std::uint64_t window) {
    return granted > processed && (granted - processed) * 2 > window;
  }

  Credit window_;
  Credit granted_;
  Credit arrived_;
  Credit processed_;
};

// Whether a report of progress is written: seldom enough to cost nothing.
class ProgressRate {
 public:
  bool takes(double done, std::optional<double> total, TimePoint now) {
    if (now < next_ && total != done) return false;
    next_ = now + wire::limits::progress;
    return true;
  }

 private:
  TimePoint next_ = {};
};

}  // namespace speed::core
