#include "speed/value.hpp"

#include <algorithm>
#include <unordered_map>

#include "speed/conversion.hpp"
#include "speed/error.hpp"
#include "wire/value/bytes.hpp"

namespace speed {

namespace {

constexpr std::array<std::string_view, 12> kinds{"nil",   "boolean", "integer", "integer", "float",  "text",
                                                 "bytes", "array",   "map",     "instant", "column", "bytes"};

// Above this many members equal keys are found by hash: a peer must not make reading quadratic.
constexpr std::size_t few = 16;

std::string hash_text(const Value& key) {
  if (const auto* text = key.get_if<std::string>()) return "t" + *text;
  if (const auto* number = key.get_if<std::int64_t>()) return "i" + std::to_string(*number);
  if (const auto* number = key.get_if<std::uint64_t>()) return "i" + std::to_string(*number);
  return "?";
}

std::vector<Member> unique_by_hash(std::vector<Member> pairs) {
  std::unordered_map<std::string, std::size_t> places;
  std::vector<Member> members;
  for (Member& pair : pairs) {
    const auto [place, is_new] = places.try_emplace(hash_text(pair.key), members.size());
    if (is_new) {
      members.push_back(std::move(pair));
    } else {
      members[place->second].value = std::move(pair.value);
    }
  }
  return members;
}

bool has_equal_keys(const std::vector<Member>& pairs) {
  for (auto one = pairs.begin(); one != pairs.end(); ++one) {
    const bool repeats = std::any_of(pairs.begin(), one, [&](const Member& other) { return other.key == one->key; });
    if (repeats) return true;
  }
  return false;
}

template <class T>
const T& expect(const Value& value, std::string_view wanted) {
  if (const T* content = value.get_if<T>()) return *content;
  detail::refuse_kind(value, wanted);
}

}  // namespace

namespace detail {

void refuse_kind(const Value& value, std::string_view wanted) {
  throw ConversionError("a value is " + std::string(value.kind()) + ", not " + std::string(wanted));
}

void refuse_integer(bool is_signed, int bits) {
  throw ConversionError("a value is an integer beyond " + std::to_string(bits) + " bits " +
                        (is_signed ? "with a sign" : "without a sign"));
}

void refuse_inexact(std::string_view why) { throw ConversionError("a value is " + std::string(why)); }

}  // namespace detail

Map::Map() = default;
Map::Map(const Map&) = default;
Map::Map(Map&&) noexcept = default;
Map& Map::operator=(const Map&) = default;
Map& Map::operator=(Map&&) noexcept = default;
Map::~Map() = default;

Map::Map(std::initializer_list<Member> members) : Map(from_pairs(members)) {}

void Map::set(Value key, Value value) {
  const auto found = std::ranges::find(members_, key, &Member::key);
  if (found == members_.end()) {
    members_.push_back({std::move(key), std::move(value)});
  } else {
    found->value = std::move(value);
  }
}

const Value* Map::find(std::string_view key) const {
  for (const Member& member : members_) {
    const auto* text = member.key.get_if<std::string>();
    if (text != nullptr && *text == key) return &member.value;
  }
  return nullptr;
}

const Value& Map::at(std::string_view key) const {
  if (const Value* const value = find(key)) return *value;
  throw ConversionError("a map has no member '" + std::string(key) + "'");
}

std::size_t Map::size() const noexcept { return members_.size(); }
const Member* Map::begin() const noexcept { return members_.data(); }
const Member* Map::end() const noexcept { return members_.data() + members_.size(); }

Map Map::from_pairs(std::vector<Member> pairs) {
  Map map;
  if (pairs.size() > few) {
    map.members_ = unique_by_hash(std::move(pairs));
    return map;
  }
  if (!has_equal_keys(pairs)) {
    map.members_ = std::move(pairs);
    return map;
  }
  for (Member& pair : pairs) map.set(std::move(pair.key), std::move(pair.value));
  return map;
}

bool operator==(const Map& one, const Map& other) { return one.members_ == other.members_; }

const Value& Value::at(std::string_view key) const { return expect<Map>(*this, "map").at(key); }

const Value& Value::at(std::size_t place) const {
  const Array& items = expect<Array>(*this, "array");
  if (place < items.size()) return items[place];
  throw ConversionError("an array of " + std::to_string(items.size()) + " has no item " + std::to_string(place));
}

const Array& Value::items() const& { return expect<Array>(*this, "array"); }
const Map& Value::members() const& { return expect<Map>(*this, "map"); }

std::size_t Value::size() const {
  const Array* const array = get_if<Array>();
  return array != nullptr ? array->size() : expect<Map>(*this, "array or map").size();
}

bool Value::contains(std::string_view key) const { return members().contains(key); }

bool operator==(const LentBytes& one, const LentBytes& other) { return std::ranges::equal(one.bytes, other.bytes); }

std::string_view Value::kind() const noexcept { return kinds[storage_.index()]; }

template <>
bool Value::as<bool>() const {
  return expect<bool>(*this, "boolean");
}

template <>
std::int64_t Value::as<std::int64_t>() const {
  return expect<std::int64_t>(*this, "an integer of 63 bits");
}

template <>
std::uint64_t Value::as<std::uint64_t>() const {
  if (const auto* large = get_if<std::uint64_t>()) return *large;
  const std::int64_t number = expect<std::int64_t>(*this, "integer");
  if (number < 0) throw ConversionError("a value is negative, not a count");
  return static_cast<std::uint64_t>(number);
}

template <>
std::string Value::as<std::string>() const {
  return expect<std::string>(*this, "text");
}

template <>
Bytes Value::as<Bytes>() const {
  if (const auto* lent = get_if<LentBytes>()) return {lent->bytes.begin(), lent->bytes.end()};
  return expect<Bytes>(*this, "bytes");
}

template <>
ByteView Value::as<ByteView>() const {
  if (const auto* lent = get_if<LentBytes>()) return lent->bytes;
  return expect<Bytes>(*this, "bytes");
}

template <>
Array Value::as<Array>() const {
  return expect<Array>(*this, "array");
}

template <>
Map Value::as<Map>() const {
  return expect<Map>(*this, "map");
}

template <>
Instant Value::as<Instant>() const {
  return expect<Instant>(*this, "instant");
}

template <>
Column Value::as<Column>() const {
  return expect<Column>(*this, "column");
}

}  // namespace speed
