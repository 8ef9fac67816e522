// What the metadata of a message must look like: one check for writer and reader (M-5, M-6, M-8, M-9).
#pragma once

#include <cstdint>
#include <string_view>

namespace speed::wire {

struct Metadata {
  std::string_view message_id;
  std::string_view topic;
  std::string_view name_space;
  std::int64_t published_at_ms = 0;
  std::int64_t priority = 0;
  std::int64_t ttl_seconds = 0;
  int content_type = 0;
  std::string_view content_type_custom;
  int content_encoding = 0;
  std::string_view content_encoding_custom;
};

// WireError BAD_MESSAGE names the field.
void check_metadata(const Metadata& metadata);

}  // namespace speed::wire
