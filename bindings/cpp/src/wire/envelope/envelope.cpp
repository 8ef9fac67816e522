#include "wire/envelope/envelope.hpp"

#include <algorithm>

namespace speed::wire {

namespace {

// Which flags each type may carry (W-6): REPLY, which passes without a grant, only on what answers.
constexpr std::array<std::uint16_t, 10> flags_of_type{0, 11, 10, 14, 11, 4, 4, 4, 4, 4};

constexpr std::array<std::string_view, 15> codes{"",          "TRUNCATED",         "BAD_VERSION",  "BAD_TYPE",
                                                 "BAD_FLAGS", "BAD_HEADER_LENGTH", "BAD_RESERVED", "BAD_SEQUENCE",
                                                 "TOO_LARGE", "WRONG_SOURCE",      "WRONG_TARGET", "UNKNOWN_KEY",
                                                 "BAD_TAG",   "BAD_SLOT",          "BAD_IDENTITY"};

template <std::size_t N>
void put(std::byte* to, const Block<N>& block) {
  std::copy(block.begin(), block.end(), to);
}

template <std::size_t N>
void take(const std::byte* from, Block<N>& block) {
  std::copy_n(from, N, block.begin());
}

}  // namespace

std::string_view code_of(Refusal refusal) { return codes[static_cast<std::size_t>(refusal)]; }

void write_headers(const Header& header, std::span<std::byte, limits::aad_bytes> to) {
  std::byte* const at = to.data();
  store(at, limits::protocol_version);
  store(at + 1, static_cast<std::uint8_t>(header.type));
  store(at + 2, header.flags);
  store(at + 4, std::uint32_t{limits::header_bytes});
  store(at + 8, header.sequence);
  store(at + 16, header.timestamp_ms);
  store(at + 24, header.payload_bytes);
  put(at + 32, header.source);
  put(at + 48, header.target);
  put(at + 64, header.key_id);
  store(at + 72, std::uint32_t{0});
  put(at + 76, header.nonce);
}

Refusal read_headers(ByteView from, Header& header) {
  if (from.size() < limits::aad_bytes) return Refusal::truncated;
  const std::byte* const at = from.data();
  if (load<std::uint8_t>(at) != limits::protocol_version) return Refusal::bad_version;
  const auto type = load<std::uint8_t>(at + 1);
  if (type < 1 || type > 9) return Refusal::bad_type;
  header.type = static_cast<EnvelopeType>(type);
  header.flags = load<std::uint16_t>(at + 2);
  if ((header.flags & ~flags_of_type[type]) != 0) return Refusal::bad_flags;
  if (load<std::uint32_t>(at + 4) != limits::header_bytes) return Refusal::bad_header_length;
  if (load<std::uint32_t>(at + 72) != 0) return Refusal::bad_reserved;
  header.sequence = load<std::uint64_t>(at + 8);
  if (generation_of(header.sequence) == 0 || counter_of(header.sequence) == 0) return Refusal::bad_sequence;
  header.timestamp_ms = load<std::uint64_t>(at + 16);
  header.payload_bytes = load<std::uint64_t>(at + 24);
  if (header.payload_bytes > limits::max_payload_bytes) return Refusal::too_large;
  take(at + 32, header.source);
  take(at + 48, header.target);
  take(at + 64, header.key_id);
  take(at + 76, header.nonce);
  return Refusal::ok;
}

}  // namespace speed::wire
