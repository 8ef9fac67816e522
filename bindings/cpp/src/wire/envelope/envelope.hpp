// The envelope's two headers (W-4 to W-8). All integers are big-endian.
//
//  0 version  1 type  2 flags  4 header length = 64  8 sequence  16 timestamp ms  24 payload bytes
// 32 source id  48 target id  |  64 key id  72 zero  76 nonce  |  88 ciphertext ... tag (16)
#pragma once

#include <cstdint>

#include "wire/names/names.hpp"

namespace speed::wire {

enum class EnvelopeType : std::uint8_t {
  message = 1,
  spc_request = 2,
  spc_response = 3,
  event = 4,
  discovery = 5,
  heartbeat = 6,
  error = 7,
  ack = 8,
  stream = 9,
};

inline constexpr std::uint16_t flag_ack_requested = 1;
inline constexpr std::uint16_t flag_segment = 2;
inline constexpr std::uint16_t flag_reply = 4;
inline constexpr std::uint16_t flag_slotted = 8;
inline constexpr std::size_t envelope_overhead = limits::aad_bytes + limits::tag_bytes;

using KeyId = Block<limits::key_id_bytes>;
using Nonce = Block<limits::nonce_bytes>;
using Headers = Block<limits::aad_bytes>;

struct Header {
  EnvelopeType type{};
  std::uint16_t flags = 0;
  std::uint64_t sequence = 0;
  std::uint64_t timestamp_ms = 0;
  std::uint64_t payload_bytes = 0;
  NodeId source{};
  NodeId target{};
  KeyId key_id{};
  Nonce nonce{};
};

constexpr std::uint64_t make_sequence(std::uint32_t generation, std::uint64_t counter) {
  return std::uint64_t{generation} << limits::counter_bits | counter;
}
constexpr std::uint32_t generation_of(std::uint64_t sequence) {
  return static_cast<std::uint32_t>(sequence >> limits::counter_bits);
}
inline constexpr std::uint64_t max_counter = (std::uint64_t{1} << limits::counter_bits) - 1;
constexpr std::uint64_t counter_of(std::uint64_t sequence) { return sequence & max_counter; }

// Why an envelope is refused; `ok` is none.
enum class Refusal : std::uint8_t {
  ok,
  truncated,
  bad_version,
  bad_type,
  bad_flags,
  bad_header_length,
  bad_reserved,
  bad_sequence,
  too_large,
  wrong_source,
  wrong_target,
  unknown_key,
  bad_tag,
  bad_slot,
  bad_identity,
};

// The `wire` code of codes.json, such as "BAD_TAG".
std::string_view code_of(Refusal refusal);

void write_headers(const Header& header, std::span<std::byte, limits::aad_bytes> to);

// Reads and checks both headers (W-5). Nothing is authentic before the tag was verified.
Refusal read_headers(ByteView from, Header& header);

}  // namespace speed::wire
