// Payloads of ACK, HEARTBEAT, DISCOVERY and ERROR envelopes: small msgpack maps (S-11, S-12).
#pragma once

#include "wire/value_codec.hpp"

namespace speed::wire {

// Checks `requestId` and `sequence` where present; WireError BAD_PAYLOAD.
Map decode_control(ByteView payload);

Bytes encode_ack(std::uint64_t sequence);
std::uint64_t decode_ack(ByteView payload);  // WireError BAD_PAYLOAD
Bytes encode_refusal(std::string_view code, std::string_view message, std::uint64_t sequence);

// The text under `key`, empty when it is absent or no text.
std::string text_of(const Map& members, std::string_view key);

}  // namespace speed::wire
