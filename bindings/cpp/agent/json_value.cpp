#include "json_value.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>

#include "wire/envelope/keyring.hpp"
#include "wire/value/bytes.hpp"

#include <sodium.h>

namespace agent {

using speed::Value;

namespace {

constexpr std::int64_t exact_limit = std::int64_t{1} << 53;

speed::Bytes from_base64(const std::string& text) {
  speed::Bytes bytes(text.size());
  std::size_t size = 0;
  if (sodium_base642bin(speed::wire::raw(std::span<std::byte>(bytes)), bytes.size(), text.data(), text.size(), nullptr,
                        &size, nullptr, sodium_base64_VARIANT_ORIGINAL) != 0) {
    throw std::invalid_argument("$bytes is not Base64");
  }
  bytes.resize(size);
  return bytes;
}

Value integer_of(const std::string& digits) {
  if (digits.starts_with('-')) return std::stoll(digits);
  return static_cast<std::uint64_t>(std::stoull(digits));
}

speed::Instant instant_of(const Json& parts) {
  const speed::Instant whole{std::chrono::seconds(parts[0].get<std::int64_t>())};
  return whole + std::chrono::microseconds(parts[1].get<std::int64_t>() / 1000);
}

speed::Map map_of_pairs(const Json& pairs) {
  std::vector<speed::Member> members;
  for (const Json& pair : pairs) members.push_back({value_of(pair[0]), value_of(pair[1])});
  return speed::Map::from_pairs(std::move(members));
}

Json float_of(double number) {
  if (std::isfinite(number)) return number;
  if (std::isnan(number)) return {{"$float", "nan"}};
  return {{"$float", number > 0 ? "inf" : "-inf"}};
}

// Whether a JSON object can say the map: its keys are text, and none looks like a mark.
bool has_plain_keys(const speed::Map& map) {
  return std::all_of(map.begin(), map.end(), [](const speed::Member& member) {
    const auto* key = member.key.get_if<std::string>();
    return key != nullptr && !key->starts_with('$');
  });
}

Json pairs_of(const speed::Map& map) {
  Json pairs = Json::array();
  for (const speed::Member& member : map) pairs.push_back(Json::array({json_of(member.key), json_of(member.value)}));
  return {{"$map", pairs}};
}

// One kind of value at a time.
struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(bool value) const { return value; }
  Json operator()(std::int64_t value) const {
    if (value > exact_limit || value < -exact_limit) return {{"$int", std::to_string(value)}};
    return value;
  }
  Json operator()(std::uint64_t value) const { return {{"$int", std::to_string(value)}}; }
  Json operator()(double value) const { return float_of(value); }
  Json operator()(const std::string& value) const { return value; }
  Json operator()(const speed::Bytes& value) const { return {{"$bytes", speed::wire::to_base64(value)}}; }
  Json operator()(const speed::LentBytes& value) const { return {{"$bytes", speed::wire::to_base64(value.bytes)}}; }
  Json operator()(const speed::Array& items) const {
    Json list = Json::array();
    for (const Value& item : items) list.push_back(json_of(item));
    return list;
  }
  Json operator()(const speed::Map& map) const {
    if (!has_plain_keys(map)) return pairs_of(map);
    Json object = Json::object();
    for (const speed::Member& member : map) object[member.key.as<std::string>()] = json_of(member.value);
    return object;
  }
  Json operator()(speed::Instant instant) const {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(instant);
    const std::chrono::nanoseconds rest = instant - seconds;
    return {{"$timestamp", Json::array({seconds.time_since_epoch().count(), rest.count()})}};
  }
  Json operator()(const speed::Column& column) const { return {{"$column", speed::wire::to_base64(column.body())}}; }
};

}  // namespace

Json json_of(const Value& value) { return std::visit(ToJson{}, value.storage()); }

Json text_or_null(const std::optional<std::string>& text) { return text ? Json(*text) : Json(nullptr); }

Value value_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned()) return json.get<std::uint64_t>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    speed::Array items;
    for (const Json& item : json) items.push_back(value_of(item));
    return items;
  }
  if (!json.is_object()) return {};
  if (json.size() == 1 && json.contains("$bytes")) return from_base64(json["$bytes"].get<std::string>());
  if (json.size() == 1 && json.contains("$float")) return std::stod(json["$float"].get<std::string>());
  if (json.size() == 1 && json.contains("$int")) return integer_of(json["$int"].get<std::string>());
  if (json.size() == 1 && json.contains("$timestamp")) return instant_of(json["$timestamp"]);
  if (json.size() == 1 && json.contains("$column")) {
    return speed::Column::parse(from_base64(json["$column"].get<std::string>()));
  }
  if (json.size() == 1 && json.contains("$map")) return map_of_pairs(json["$map"]);
  return map_of(json);
}

speed::Map map_of(const Json& json) {
  std::vector<speed::Member> members;
  for (const auto& [key, item] : json.items()) members.push_back({key, value_of(item)});
  return speed::Map::from_pairs(std::move(members));
}

}  // namespace agent
