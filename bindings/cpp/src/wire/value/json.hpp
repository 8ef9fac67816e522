// Strict JSON: the library alone takes a byte order mark, any depth, and a NUL for the end.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace speed::wire {

using Json = nlohmann::ordered_json;

// Null when the text is no JSON or nested deeper than `most` lists and objects; no deeper one is ever built.
std::optional<Json> parse_json(std::string_view text, std::size_t most);

}  // namespace speed::wire
