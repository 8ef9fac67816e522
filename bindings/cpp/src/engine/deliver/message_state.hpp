// What a Message shares with the parts that bring and finish it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/deliver/large_payload.hpp"
#include "engine/lane/inbound_lane.hpp"
#include "fs/clock.hpp"
#include "message/guard.hpp"
#include "speed/message.hpp"
#include "wire/message/message.hpp"

namespace speed {

struct SPEED_LOCAL Message::State {
  State(const fs::Received& received, engine::LanePtr from)
      : State(wire::MessageView(fs::kept(received)), nullptr, std::move(from), received.header, received.redelivered) {}
  // A view of all but the payload of a large one.
  State(wire::MessageView seen, engine::LargePtr held, engine::LanePtr from, const wire::Header& header, bool again)
      : view(std::move(seen)),
        large(std::move(held)),
        lane(std::move(from)),
        sequence(header.sequence),
        timestamp_ms(static_cast<std::int64_t>(header.timestamp_ms)),
        is_event(header.type == wire::EnvelopeType::event),
        redelivered(again),
        wants_answer((header.flags & wire::flag_ack_requested) != 0) {}

  const wire::MessageView view;
  const engine::LargePtr large;  // null for what is held in memory
  const engine::LanePtr lane;
  const std::uint64_t sequence;
  const std::int64_t timestamp_ms;
  const bool is_event;
  const bool redelivered;
  const TimePoint arrived = fs::monotonic_now();
  std::string sender_identity = {};  // set before it is handed out
  message::Opened opened = {};       // likewise
  unsigned deliveries = 1;  // how often it was begun, this time included
  std::atomic<bool>
      wants_answer;  // its sender asked for an acknowledgement and has none yet; whoever clears it answers
  std::atomic<bool> finished = false;

  const std::string& source() const { return lane->source(); }
  // WireError if what the payload says cannot be read: it is still encoded or encrypted.
  void check_plain() const {
    if (!opened.plain || opened.is_encoded) view.check_plain();
  }
  // Committed before the next message of its sender begins: one repeat a crash (L-15).
  void done() {
    if (!finished.exchange(true)) lane->finish({&sequence, 1});
  }
};

}  // namespace speed

namespace speed::engine {

// A message on its way from the reader to whoever handles it, and how its sender is told what became of it.

using Arrival = std::shared_ptr<Message::State>;

// The one way between a Message of a program and what it stands for.
struct MessageAccess {
  static Message of(Arrival arrival) { return Message(std::move(arrival)); }
  static const Arrival& arrival(const Message& message) { return message.state_; }
};

// To a sender that wants an answer.
struct Replies {
  std::function<void(const std::string& source, std::uint64_t sequence, bool waiting)> acknowledge;
  std::function<void(const Message::State&, std::string_view code, const std::string& text)> refuse;
};

}  // namespace speed::engine
