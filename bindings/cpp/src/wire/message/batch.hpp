// Many payloads in one message (M-30).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "wire/value/buffer.hpp"

namespace speed::wire {

inline constexpr std::string_view batch_type = "application/x-speed-batch";
inline constexpr std::size_t max_batch_payloads = 65536;

// Payloads on their way into one message, each as it would travel alone.
class Batch {
 public:
  Batch();
  // BatchError for one too many, or one that is too long; UnserialisableError for a value outside the type table.
  void add(const Value& payload);
  ByteView view() const { return bytes_.view(); }
  Buffer take() && { return std::move(bytes_); }

 private:
  std::uint32_t count_ = 0;
  Buffer bytes_;
};

// One batch for each topic, in the order of their first payloads. As of `add`; InvalidNameError for what is no topic.
std::vector<std::pair<std::string, Batch>> batches_of(const std::vector<std::pair<std::string, Value>>& payloads);

// One payload as it lies in a batch.
struct BatchPart {
  std::string_view content_type;
  std::string_view type_url;  // of a protobuf message
  ByteView data;
};

// BatchError if number, lengths and end do not agree.
std::vector<BatchPart> split_batch(ByteView batch);

// The values; likewise, and WireError for a payload that is not of its type.
std::vector<Value> decode_batch(ByteView batch);

}  // namespace speed::wire
