// From an opened envelope to the part that handles it: one table over the nine types (W-4, S-11).
// Messages, events and requests are finished by the worker that handled them, or here when they are refused; all other
// types are done when they are read.
// Threads: for the holder of the reader's role.
#pragma once

#include <array>

#include "engine/call/calls.hpp"
#include "engine/deliver/delivery.hpp"
#include "engine/deliver/segments.hpp"
#include "engine/serve/introspection.hpp"
#include "engine/serve/serving.hpp"
#include "wire/time.hpp"

namespace speed::engine {

class Dispatch {
 public:
  // The parts that envelopes go to; they outlive this object.
  struct Parts {
    Context& context;
    Links& links;
    Calls& calls;
    Serving& serving;
    Delivery& delivery;
    Introspection& introspection;
    Workers& workers;
    Answers& answers;
    DeadLetters& dead;
  };

  // `left(name)` hears of leave notices.
  Dispatch(const Parts& parts, std::function<void(const std::string&)> left);

  // Whether a lane of `source` is to be read: it has a grant, or owes this node an answer (L-21).
  bool may_read(const std::string& source) const;

  // Handles one authentic envelope; WireError for a payload that breaks a rule.
  void dispatch(const LanePtr& lane, const fs::Received& received);

  void close() { segments_->close(); }

  // The lane of a node was read to its end: if it is gone, ends its requests; settles the calls to an earlier life of it
  // of those that were entered before.
  void departed(const std::string& name, std::uint64_t entered);
  bool has_older_calls(const std::string& name, std::uint32_t generation) const {
    return to_.calls.has_older(name, generation);
  }
  std::uint64_t calls_entered() const { return to_.calls.entered(); }
  void expire(TimePoint now);
  TimePoint next_deadline() const;  // of the next thing that `expire` has to do

 private:
  using Handler = void (Dispatch::*)(const LanePtr&, const fs::Received&);
  static const std::array<Handler, 10> handlers;  // by type

  void message(const LanePtr& lane, const fs::Received& received);
  void request(const LanePtr& lane, const fs::Received& received);
  void response(const LanePtr& lane, const fs::Received& received);
  void discovery(const LanePtr& lane, const fs::Received& received);
  void answer(const std::string& source, std::uint64_t sequence, const Map& question, const std::optional<Map>& result);
  void heartbeat(const LanePtr& lane, const fs::Received& received);
  void error(const LanePtr& lane, const fs::Received& received);
  void ack(const LanePtr& lane, const fs::Received& received);
  void stream(const LanePtr& lane, const fs::Received& received);
  bool is_look(const LanePtr& lane, const fs::Received& received) const;
  void count(const LanePtr& lane, const fs::Received& received);
  bool is_known(const LanePtr& lane, const fs::Received& received);
  void unauthorised(const LanePtr& lane, const fs::Received& received);
  void handle(const LanePtr& lane, const fs::Received& received);
  Arrival made(const LanePtr& lane, const fs::Received& received, const LargePtr& large);
  bool is_alive(Message::State& message);
  void refuse(const std::string& source, std::uint64_t sequence, std::string_view code, const std::string& text);
  void reply(const std::string& source, std::uint64_t sequence, wire::EnvelopeType type, ByteView payload);

  Parts to_;
  std::function<void(const std::string&)> left_;
  const std::shared_ptr<Segments> segments_;
};

}  // namespace speed::engine
