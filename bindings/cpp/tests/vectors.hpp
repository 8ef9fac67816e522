// Reads registry_spec/: what every implementation must accept, and what it must refuse.
#pragma once

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "wire/envelope/keyring.hpp"
#include "wire/time.hpp"

namespace speed::test {

using Json = nlohmann::ordered_json;

inline Json spec_file(const std::string& path) {
  std::ifstream file(std::string(SPEED_SPEC) + "/" + path);
  return Json::parse(file);
}

inline Json vectors(const std::string& stem) { return spec_file("vectors/" + stem + ".json"); }

// One list of cases, by value: a loop over a part of a temporary would outlive it. An absent list is a mistake.
inline Json cases(const std::string& stem, const std::string& list) { return vectors(stem).at(list); }
inline Json cases(const std::string& stem, const std::string& part, const std::string& list) {
  return vectors(stem).at(part).at(list);
}

// Each case says which mistake it catches.
inline std::string what(const Json& item) { return item.value("name", "") + ": " + item.value("bug", ""); }

inline Bytes bytes_of(const Json& hex) { return wire::from_hex(hex.get<std::string>()).value(); }

// An instant of a clock that began at 0, in seconds as vectors have it.
inline TimePoint instant(double seconds) { return TimePoint(saturated(Seconds(seconds))); }

inline std::uint64_t number_of(const Json& hex16) { return std::stoull(hex16.get<std::string>(), nullptr, 16); }

template <std::size_t N>
wire::Block<N> block_of(const Json& hex) {
  const Bytes bytes = bytes_of(hex);
  wire::Block<N> block;
  std::copy_n(bytes.begin(), N, block.begin());
  return block;
}

inline std::vector<wire::Key> keys_of(const Json& list) {
  std::vector<wire::Key> keys;
  for (const Json& hex : list) keys.push_back(block_of<32>(hex));
  return keys;
}

// The value that a vector writes as tagged JSON.
inline Value value_of(const Json& tagged) {
  if (tagged.is_null()) return {};
  if (tagged.is_boolean()) return tagged.get<bool>();
  if (tagged.is_string()) return tagged.get<std::string>();
  if (tagged.is_array()) {
    Array items;
    for (const Json& item : tagged) items.push_back(value_of(item));
    return items;
  }
  const std::string kind = tagged.begin().key();
  const Json& content = tagged.begin().value();
  if (kind == "int") {
    const auto digits = content.get<std::string>();
    return digits[0] == '-' ? Value(std::stoll(digits)) : Value(static_cast<std::uint64_t>(std::stoull(digits)));
  }
  if (kind == "float") {
    const std::uint64_t bits = wire::load<std::uint64_t>(bytes_of(content).data());
    double number = 0;
    std::memcpy(&number, &bits, sizeof number);
    return number;
  }
  if (kind == "bytes") return bytes_of(content);
  if (kind == "decimal" || kind == "date" || kind == "time" || kind == "local") return content.get<std::string>();
  if (kind == "duration") return std::stoll(content.get<std::string>());
  if (kind == "timestamp") {
    const std::int64_t seconds = std::stoll(content[0].get<std::string>());
    return Instant(std::chrono::seconds(seconds)) + std::chrono::microseconds(content[1].get<std::int64_t>() / 1000);
  }
  Map map;
  for (const Json& pair : content) map.set(value_of(pair[0]), value_of(pair[1]));
  return map;
}

inline Json noted(const Column& column, std::size_t row);

inline Json noted_items(const Column& column, Column::Range range) {
  Json items = Json::array();
  for (std::size_t item = range.begin; item < range.end; ++item) items.push_back(noted(column, item));
  return items;
}

inline Json noted_entries(const Column& column, std::size_t row) {
  Json entries = Json::array();
  if (column.kind() == Column::Kind::structure) {
    for (const std::string& name : column.names()) entries.push_back({name, noted(column.field(name), row)});
    return {{"map", entries}};
  }
  const Json keys = noted_items(column.children()[0], column.range(row));
  const Json values = noted_items(column.children()[1], column.range(row));
  for (std::size_t entry = 0; entry < keys.size(); ++entry) entries.push_back({keys[entry], values[entry]});
  return {{"map", entries}};
}

// The row of a column as a vector writes it.
inline Json noted(const Column& column, std::size_t row) {
  using Kind = Column::Kind;
  using std::chrono::microseconds;
  const auto text = [](const Value& value) { return value.as<std::string>(); };
  if (column.is_null(row)) return nullptr;
  switch (column.kind()) {
    case Kind::int64: return {{"int", std::to_string(column.int64()[row])}};
    case Kind::months: return {{"int", std::to_string(column.int32()[row])}};
    case Kind::float64: {
      std::array<std::byte, 8> bytes{};
      wire::store(bytes.data(), std::bit_cast<std::uint64_t>(column.float64()[row]));
      return {{"float", wire::to_hex(bytes)}};
    }
    case Kind::boolean: return column.boolean(row);
    case Kind::utf8: return column.text(row);
    case Kind::binary: return {{"bytes", wire::to_hex(wire::view(column.text(row)))}};
    case Kind::decimal: return {{"decimal", column.decimal_text(row)}};
    case Kind::timestamp: {
      const microseconds moment(column.int64()[row]);
      const auto whole = std::chrono::floor<std::chrono::seconds>(moment);
      const std::int64_t nanoseconds = (moment - whole).count() * 1000;
      return {{"timestamp", Json::array({std::to_string(whole.count()), nanoseconds})}};
    }
    case Kind::date: {
      const std::chrono::sys_days day{std::chrono::days(column.int32()[row])};
      return {{"date", text(std::chrono::year_month_day(day))}};
    }
    case Kind::time: return {{"time", text(std::chrono::hh_mm_ss(microseconds(column.int64()[row])))}};
    case Kind::local_timestamp:
      return {{"local", text(std::chrono::local_time<microseconds>(microseconds(column.int64()[row])))}};
    case Kind::duration: return {{"duration", std::to_string(column.int64()[row])}};
    case Kind::list: return noted_items(column.children()[0], column.range(row));
    case Kind::structure:
    case Kind::map: return noted_entries(column, row);
  }
  return "?";
}

}  // namespace speed::test
