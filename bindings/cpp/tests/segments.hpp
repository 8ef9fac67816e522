// Payloads by the formula of vectors/segments.json, and the segments of the cuts that it names.
#pragma once

#include <map>

#include "speed/segment.hpp"
#include "vectors.hpp"

namespace speed::test {

inline Bytes segmented_payload(const Json& form) {
  Bytes payload;
  const std::size_t size = form.at("bytes");
  const std::size_t zeros_from = form.value("zeros_from", size);
  for (std::uint32_t row = 0; row < form.at("rows"); ++row) {
    for (std::uint32_t column = 0; column < form.at("row_bytes") && payload.size() < size; ++column) {
      std::uint32_t x = row * 2654435761U + column * 40503U + 12345U;
      x ^= x >> 15;
      x *= 2246822519U;
      x ^= x >> 13;
      payload.push_back(payload.size() < zeros_from ? static_cast<std::byte>(x) : std::byte{0});
    }
  }
  return payload;
}

inline std::vector<Bytes> segments_of(ByteView payload, std::size_t segment_size, unsigned parity_count) {
  segment::Shape shape = segment::Splitter(segment_size, 0).shape(payload.size());
  shape.parity_count = parity_count;
  std::vector<Bytes> written;
  segment::cut(segment::MemorySource(payload), shape,
               [&](const segment::Segment& one) { written.push_back(segment::write_segment(one)); });
  return written;
}

// By name, what each cut of the file consists of.
struct Cut {
  Bytes payload;
  std::vector<Bytes> segments;
};

inline std::map<std::string, Cut> cuts() {
  std::map<std::string, Cut> made;
  for (const Json& item : cases("segments", "cut")) {
    Bytes payload = segmented_payload(item.at("payload"));
    std::vector<Bytes> segments = segments_of(payload, item.at("segment_size"), item.at("parity_segment_count"));
    made[item.at("name")] = {std::move(payload), std::move(segments)};
  }
  return made;
}

}  // namespace speed::test
