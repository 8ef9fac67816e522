#include "wire/value/topic_record.hpp"

#include "speed/error.hpp"
#include "wire/value/bytes.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::wire {

namespace {

constexpr std::size_t head_bytes = 32;
constexpr auto last_type = static_cast<std::uint8_t>(TopicRecordType::dead_letter);

template <std::unsigned_integral T>
T field(ByteView head, std::size_t at) {
  return load<T>(head.data() + at);
}

}  // namespace

TopicRecord read_topic_record(ByteView data) {
  if (data.size() < head_bytes) throw WireError("BAD_JOURNAL", "the head of a message is cut");
  const auto type = field<std::uint8_t>(data, 1);
  const std::size_t about_bytes = field<std::uint32_t>(data, 24);
  const bool is_known = field<std::uint8_t>(data, 0) == 1 && type <= last_type && field<std::uint32_t>(data, 28) == 0;
  if (!is_known || about_bytes > data.size() - head_bytes) {
    throw WireError("BAD_JOURNAL", "no head of a message of version 1");
  }
  return {static_cast<TopicRecordType>(type),
          field<std::uint16_t>(data, 2),
          field<std::uint32_t>(data, 4),
          field<std::uint64_t>(data, 8),
          field<std::uint64_t>(data, 16),
          unpack_map(data.subspan(head_bytes, about_bytes), "what is said of a message"),
          data.subspan(head_bytes + about_bytes)};
}

}  // namespace speed::wire
