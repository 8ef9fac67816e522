#include "wire/message_rules.hpp"

#include "speed/error.hpp"
#include "wire/content.hpp"
#include "wire/names.hpp"

namespace speed::wire {

namespace {

constexpr std::size_t max_id_bytes = 128;
constexpr std::size_t max_namespace_bytes = 128;
constexpr std::int64_t max_priority = 10;

void check(bool good, const char* field, const char* why) {
  if (!good) throw WireError("BAD_MESSAGE", std::string(field) + ": " + why);
}

void check_text(std::string_view text, std::size_t most, const char* field) {
  check(!text.empty(), field, "is required and not empty");
  check(text.size() <= most, field, "is too long");
}

}  // namespace

void check_metadata(const Metadata& metadata) {
  check_text(metadata.message_id, max_id_bytes, "message_id");
  check_text(metadata.topic, limits::max_topic_bytes, "topic");
  check(is_topic(metadata.topic), "topic", "is not dot-separated parts of letters, digits, '_' and '-'");
  check_text(metadata.name_space, max_namespace_bytes, "namespace");
  check(metadata.published_at_ms > 0, "published_at_ms", "is required and greater than zero");
  check(metadata.priority >= 0 && metadata.priority <= max_priority, "priority", "is outside 0..10");
  check(metadata.ttl_seconds >= 0, "ttl_seconds", "is negative");
  check(metadata.content_type != content_type_custom || !metadata.content_type_custom.empty(), "content_type_custom",
        "is required when content_type is CUSTOM");
  check(metadata.content_encoding != content_type_custom || !metadata.content_encoding_custom.empty(),
        "content_encoding_custom", "is required when content_encoding is CUSTOM");
}

}  // namespace speed::wire
