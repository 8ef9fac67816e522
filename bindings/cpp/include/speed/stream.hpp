// Streams: services that give many items or take many, and how far a call is.
// Threads: one thread at a time reads a stream or writes to it; all else may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "speed/export.hpp"
#include "speed/seconds.hpp"
#include "speed/value.hpp"

namespace speed {

// How far a call is, as its service says. `done` and `total` are of one unit.
struct StreamProgress {
  double done = 0;
  std::optional<double> total = {};  // absent: the service does not know
  std::string note = {};
  bool whole_done = false, whole_total = false;  // they travel as integers
};

// What travels beside a call: how many items, and bytes of them, the caller takes at first, and what it sends and wants.
struct StreamOffer {
  std::uint64_t items = 0;
  std::uint64_t bytes = 0;
  bool sends = false;
  bool progress = false;

  bool wants_items() const noexcept { return items > 0 && bytes > 0; }
  bool wants_stream() const noexcept { return wants_items() || sends; }
};

// One stream at one of its two nodes, below the values: for runtimes of other languages. Programs use what is above it.
class SPEED_EXPORT StreamChannel {
 public:
  enum class Found : std::uint8_t { nothing, progress, items, last, over };
  struct Taken {
    Found found = Found::nothing;
    Bytes payload = {};  // of items: their whole envelope
    std::uint64_t items = 0, bytes = 0;
    StreamProgress progress = {};
  };
  enum class Reserved : std::uint8_t { nothing, credit, over };

  virtual ~StreamChannel() = default;
  virtual const std::string& request_id() const noexcept = 0;
  virtual const StreamOffer& offer() const noexcept = 0;
  virtual Taken take(Seconds timeout) = 0;  // what arrived, in order
  virtual void process(std::uint64_t items,
                       std::uint64_t bytes) = 0;  // of what was taken: gives credit when it is time
  virtual void open() = 0;  // the service begins to take items
  // Credit for one item of so many bytes, which counts as sent; for 0 whether any was given yet.
  virtual Reserved reserve(std::uint64_t bytes, Seconds timeout) = 0;
  virtual void write(ByteView payload) = 0;  // an envelope of items; waits for room
  virtual void report(const StreamProgress& progress) = 0;  // never waits, and may be lost
  virtual void close() = 0;  // nobody waits any more
  virtual std::string broken() const = 0;  // what the other side did wrong; empty if nothing
  // Of who called: the result once it is over, or what ended it, which is thrown.
  virtual Value outcome() = 0;
  virtual void withdraw() = 0;
};

}  // namespace speed
