// Streams: services that give many items or take many, and how far a call is.
// Threads: what is below a stream may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
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

// How a stream is asked for. ConfigurationError for a window that is 0 or above 2^53.
struct StreamOptions {
  std::optional<Seconds> timeout = {};  // the deadline of the whole call, on both sides; without it there is none
  std::optional<Seconds> idle_timeout = Seconds(30);  // how long the next item is waited for
  std::uint64_t window_items = 4096;  // so many may wait to be read, and so many bytes of them; the service waits then
  std::uint64_t window_bytes = 1 << 20;
  bool sends = false;  // this caller sends items: Stream::write
  std::function<void(const StreamProgress&)> on_progress = {};  // on the thread that reads the stream
  std::optional<std::string> traceparent = {};
  std::optional<std::string> key = {};  // of a family, as CallOptions::key
};

// The items of a call, and those that its caller sends. One that is closed or destroyed before its end withdraws the call.
//
//     speed::Stream rows = analytics.stream("billing", "rows", {{"month", "2026-11"}});
//     while (const std::optional<speed::Value> row = rows.next()) use(*row);
//
// Threads: one may read while another one writes; `close` may be called from any.
class SPEED_EXPORT Stream {
 public:
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  // The next item; nothing at the end. Throws what ended the stream, after all items before it, and again each time: the
  // errors of a call, and CallTimeoutError if nothing came within the idle timeout.
  std::optional<Value> next();
  // Sends one more item; waits for room, as long as the service does not read. False: it takes no more, and `next` or
  // `result` says why. UnserialisableError, PayloadTooLargeError; ConfigurationError of a stream without `sends`.
  bool write(const Value& item);
  bool finish();  // that was the last item; false likewise
  // Reads to the end, and returns what the service returned beside its items, which are dropped. Throws as `next` does.
  Value result();
  void close() noexcept;  // the call is withdrawn unless it has ended

 private:
  friend class Node;
  struct State;
  explicit Stream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The stream of a call as its service sees it.
class SPEED_EXPORT ServedStream {
 public:
  // Gives one item; waits until the reader has room for it. CallWithdrawnError once nobody reads any more: the service ends
  // then. UnserialisableError, PayloadTooLargeError.
  void write(const Value& item);
  // The next item of the caller; nothing once it has sent all. CallWithdrawnError likewise.
  std::optional<Value> read();

  struct State;
  explicit ServedStream(State& state) : state_(&state) {}

 private:
  State* state_;
};

}  // namespace speed
