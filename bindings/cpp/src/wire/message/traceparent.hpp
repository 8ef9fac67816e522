// W3C Trace Context: the `traceparent` text, parsed strictly (M-11).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace speed::wire {

struct TraceParent {
  std::string trace_id;
  std::string span_id;
  unsigned flags = 0;

  std::string text() const;
};

// Null for anything that the recommendation calls invalid; later versions are read by their first 55 characters.
std::optional<TraceParent> parse_traceparent(std::string_view text);

// Whether both ids have their form: 32 and 16 lower-case hex digits, not all zero.
bool are_trace_ids(std::string_view trace_id, std::string_view span_id);

}  // namespace speed::wire
