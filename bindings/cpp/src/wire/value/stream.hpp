// Envelopes of a stream (S-28).
#pragma once

#include <optional>
#include <string>

#include "speed/stream.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::wire {

// One STREAM envelope without its items, which begin at byte `items_at`; one of `number`, credit and progress is meant.
struct StreamPart {
  std::string request_id;
  std::optional<std::uint64_t> number = {};  // how many items went before these
  std::uint64_t items = 0;
  bool last = false;
  std::size_t items_at = 0;
  std::uint64_t credit_items = 0;
  std::uint64_t credit_bytes = 0;
  std::optional<StreamProgress> progress = {};
};

// WireError BAD_PAYLOAD.
StreamPart decode_stream(ByteView payload);
// The items of an envelope whose front was read; WireError BAD_PAYLOAD.
Array decode_items(ByteView payload, const StreamPart& part);

// What stands before so many items, which follow as packed.
void encode_items_front(const std::string& request_id, std::uint64_t number, std::uint32_t items, bool last,
                        Buffer& out);
Bytes encode_credit(const std::string& request_id, std::uint64_t items, std::uint64_t bytes);
Bytes encode_progress(const std::string& request_id, const StreamProgress& progress);

}  // namespace speed::wire
