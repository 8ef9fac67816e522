// Values as JSON lines: bytes, non-finite floats and large integers are objects with one marked key.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "speed/value.hpp"

namespace agent {

using Json = nlohmann::ordered_json;

speed::Value value_of(const Json& json);
Json json_of(const speed::Value& value);
Json text_or_null(const std::optional<std::string>& text);
speed::Map map_of(const Json& json);

}  // namespace agent
