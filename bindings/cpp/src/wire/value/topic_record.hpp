// A message of a durable topic, as its host keeps and delivers it (D-4).
#pragma once

#include <cstdint>

#include "speed/value.hpp"

namespace speed::wire {

enum class TopicRecordType : std::uint8_t { message, tombstone, dead_letter };

struct TopicRecord {
  TopicRecordType type = TopicRecordType::message;
  std::uint16_t attempts = 0;
  std::uint32_t key_hash = 0;
  std::uint64_t due_ms = 0;
  std::uint64_t sequence = 0;
  Map about;
  ByteView payload;  // into what was read
};

// WireError BAD_JOURNAL, BAD_PAYLOAD.
TopicRecord read_topic_record(ByteView data);

}  // namespace speed::wire
