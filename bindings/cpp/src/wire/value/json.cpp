#include "wire/value/json.hpp"

namespace speed::wire {

namespace {

// Before anything is built: 64 MiB of opening brackets must cost no more than a look at each.
bool is_nested_deeper(std::string_view text, std::size_t most) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') in_string = !in_string;
    if (in_string) {
      if (c == '\\') ++at;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

std::optional<Json> parse_json(std::string_view text, std::size_t most) {
  if (text.starts_with("\xef\xbb\xbf") || text.find('\0') != std::string_view::npos) return {};
  if (is_nested_deeper(text, most)) return {};
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return {};
  return json;
}

}  // namespace speed::wire
