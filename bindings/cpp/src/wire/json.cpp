#include "wire/json.hpp"

namespace speed::wire {

std::optional<Json> parse_json(std::string_view text, std::size_t most) {
  if (text.starts_with("\xef\xbb\xbf") || text.find('\0') != std::string_view::npos) return {};
  bool is_deep = false;
  const auto look = [&](int depth, Json::parse_event_t event, const Json&) {
    const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    is_deep = is_deep || (opens && static_cast<std::size_t>(depth) >= most);
    return !is_deep;
  };
  Json json = Json::parse(text, look, false);
  if (is_deep || json.is_discarded()) return {};
  return json;
}

}  // namespace speed::wire
