#include "wire/message/traceparent.hpp"

#include "wire/value/bytes.hpp"

namespace speed::wire {

namespace {

constexpr std::size_t length = 55;  // of version 00: 2 + 1 + 32 + 1 + 16 + 1 + 2

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }
bool is_zero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

}  // namespace

bool are_trace_ids(std::string_view trace_id, std::string_view span_id) {
  return trace_id.size() == 32 && span_id.size() == 16 && is_hex(trace_id) && is_hex(span_id) && !is_zero(trace_id) &&
         !is_zero(span_id);
}

std::string TraceParent::text() const {
  return "00-" + trace_id + "-" + span_id + "-" + to_hex(Block<1>{static_cast<std::byte>(flags)});
}

std::optional<TraceParent> parse_traceparent(std::string_view text) {
  if (text.size() < length) return {};
  const std::string_view version = text.substr(0, 2);
  const std::string_view flags = text.substr(53, 2);
  if (!is_hex(version) || !is_hex(flags) || text[2] != '-' || text[35] != '-' || text[52] != '-') return {};
  if (version == "ff" || (text.size() > length && (version == "00" || text[length] != '-'))) return {};
  const std::string_view trace_id = text.substr(3, 32);
  const std::string_view span_id = text.substr(36, 16);
  if (!are_trace_ids(trace_id, span_id)) return {};
  return TraceParent{std::string(trace_id), std::string(span_id), std::to_integer<unsigned>((*from_hex(flags))[0])};
}

}  // namespace speed::wire
