// Payloads of ACK, HEARTBEAT, DISCOVERY and ERROR envelopes: small msgpack maps (S-11, S-12).
#pragma once

#include <string>
#include <vector>

#include "wire/envelope/envelope.hpp"
#include "wire/limits.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::wire {

// Checks `requestId` and `sequence` where present; WireError BAD_PAYLOAD. One above `most_bytes` is refused unread: it
// is decoded by the thread that everybody waits for.
Map decode_control(ByteView payload, std::size_t most_bytes = limits::max_control_bytes);

Bytes encode_ack(std::uint64_t sequence, bool waiting = false);  // `waiting`: for the program to take it
struct Ack {
  std::uint64_t sequence = 0;
  bool waiting = false;
};
Ack decode_ack(ByteView payload);  // WireError BAD_PAYLOAD
Bytes encode_refusal(std::string_view code, std::string_view message, std::uint64_t sequence);

// The request ids that are withdrawn (S-15); WireError BAD_PAYLOAD.
std::vector<std::string> request_ids(const Map& members);

// Whether a question is one that an observer may ask without a grant: a ping, or for figures.
bool is_look(EnvelopeType type, const Map& question);

// Checks what a node answered to a question of S-12; WireError BAD_PAYLOAD names what is odd.
Map checked_answer(std::string_view operation, Value answer);

// The text under `key`, empty when it is absent or no text.
std::string text_of(const Map& members, std::string_view key);

}  // namespace speed::wire
