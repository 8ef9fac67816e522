// Values that travel in calls and messages: the type table of registry_spec/wire.md.
// Threads: a Value is plain data; share it between threads as you would a std::string.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "speed/column.hpp"
#include "speed/export.hpp"

namespace speed {

inline constexpr std::size_t max_value_depth = 32;  // of arrays and maps within each other

class Value;
struct Member;
template <class T>
struct Conversion;  // conversion.hpp

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;
using Array = std::vector<Value>;
using Instant = std::chrono::sys_time<std::chrono::microseconds>;  // years 1 to 9999, which nanoseconds would not hold

// Bytes that lie elsewhere: a large payload is sent from where it is, and read where it arrived, instead of being copied.
// `owner` keeps them there; without one whoever lends them does, for as long as the value lives. Nobody changes them
// meanwhile. They travel as Bytes do. A program is given some only where it asks for them (ServiceOptions::views,
// CallOptions::views).
struct LentBytes {
  // No aggregate: std::variant would try whether a Map makes one.
  explicit LentBytes(ByteView lent, std::shared_ptr<const void> kept_by = nullptr)
      : bytes(lent), owner(std::move(kept_by)) {}
  ByteView bytes;
  std::shared_ptr<const void> owner;
  friend bool operator==(const LentBytes& one, const LentBytes& other);
};

namespace detail {

// The text or number that a value travels as which the wire has no kind for; UnserialisableError for one beyond the range.
SPEED_EXPORT std::string text_of(std::chrono::year_month_day date);
SPEED_EXPORT std::string text_of(std::chrono::hh_mm_ss<std::chrono::microseconds> time);
SPEED_EXPORT std::string text_of(std::chrono::local_time<std::chrono::microseconds> moment);
SPEED_EXPORT std::int64_t whole_microseconds(long double microseconds);

}  // namespace detail

// Pairs in the order in which they were set; a key is text or an integer and occurs once.
class SPEED_EXPORT Map {
 public:
  Map();
  Map(std::initializer_list<Member> members);  // of equal keys the last one counts
  Map(const Map&);
  Map(Map&&) noexcept;
  Map& operator=(const Map&);
  Map& operator=(Map&&) noexcept;
  ~Map();

  void set(Value key, Value value);  // replaces the value of an equal key
  const Value* find(std::string_view key) const;  // null when absent
  // The value of that key; ConversionError, which names the key, when it is absent.
  const Value& at(std::string_view key) const;
  const Value& operator[](std::string_view key) const { return at(key); }
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }
  const Member* begin() const noexcept;
  const Member* end() const noexcept;

  // Takes pairs as they were read; of equal keys the last value counts. Linear in their number.
  static Map from_pairs(std::vector<Member> pairs);
  friend bool operator==(const Map&, const Map&);

 private:
  std::vector<Member> members_;
};

// One value. Text and bytes are different kinds; so are 1 and 1.0.
//
//     const speed::Value answer = node.call("shop", "orders");
//     for (const speed::Value& row : answer["rows"].items()) sum += row["price"].as<double>();
class SPEED_EXPORT Value {
 public:
  using Storage = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Bytes, Array,
                               Map, Instant, Column, LentBytes>;

  Value() = default;  // nil
  Value(std::nullptr_t) {}
  Value(std::same_as<bool> auto value) : storage_(value) {}
  Value(std::floating_point auto value) : storage_(static_cast<double>(value)) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Value(T value) : storage_(normal(value)) {}
  Value(const char* text) : storage_(std::string(text)) {}
  Value(std::string_view text) : storage_(std::string(text)) {}
  Value(std::string text) : storage_(std::move(text)) {}
  Value(Bytes bytes) : storage_(std::move(bytes)) {}
  Value(LentBytes bytes) : storage_(std::move(bytes)) {}
  Value(Array items) : storage_(std::move(items)) {}
  Value(Map map) : storage_(std::move(map)) {}
  Value(Instant instant) : storage_(instant) {}
  Value(Column column) : storage_(std::move(column)) {}
  // What is finer than microseconds is cut off, towards the past.
  template <class Duration>
    requires(!std::same_as<Duration, std::chrono::microseconds>)
  Value(std::chrono::sys_time<Duration> instant) : storage_(std::chrono::floor<std::chrono::microseconds>(instant)) {}
  // A date, a time of day and a moment without a zone are text of ISO 8601; a duration is an integer of microseconds. What
  // is finer is cut off, towards the past. UnserialisableError beyond the years 1 to 9999, a day, or 64 bits.
  Value(std::chrono::year_month_day date) : storage_(detail::text_of(date)) {}
  template <class Duration>
  Value(std::chrono::hh_mm_ss<Duration> time)
      : storage_(
            detail::text_of(std::chrono::hh_mm_ss(std::chrono::floor<std::chrono::microseconds>(time.to_duration())))) {
  }
  template <class Duration>
  Value(std::chrono::local_time<Duration> moment)
      : storage_(detail::text_of(std::chrono::floor<std::chrono::microseconds>(moment))) {}
  template <class Number, class Period>
  Value(std::chrono::duration<Number, Period> span)
      : storage_(detail::whole_microseconds(std::chrono::duration<long double, std::micro>(span).count())) {}
  // Nil, an array, a map, of whatever makes a Value.
  template <class T>
  Value(const std::optional<T>& value) : Value(value ? Value(*value) : Value()) {}
  template <class T>
    requires(!std::same_as<T, Value> && !std::same_as<T, std::byte>)
  Value(const std::vector<T>& items) : storage_(array_of(items)) {}
  template <class T>
  Value(const std::map<std::string, T>& members) : storage_(map_of(members)) {}

  bool is_nil() const noexcept { return storage_.index() == 0; }
  const Storage& storage() const noexcept { return storage_; }
  Storage& storage() noexcept { return storage_; }

  template <class T>
  const T* get_if() const noexcept {
    return std::get_if<T>(&storage_);
  }
  // The value as a T, exactly: `value.as<int>()`, `value.as<std::vector<std::string>>()`. conversion.hpp lists what T may
  // be; another one does not compile. ConversionError if the value is of another kind, or has no exact T.
  template <class T>
  T as() const {
    return Conversion<T>::from(*this);
  }

  // The member of a map, the item of an array: `answer["tax"].as<double>()`. It lives as long as this value.
  // ConversionError if this is no map or array, or has no such member or item.
  const Value& at(std::string_view key) const;
  const Value& at(std::size_t place) const;
  const Value& operator[](std::string_view key) const { return at(key); }
  const Value& operator[](std::size_t place) const { return at(place); }
  // How many items or members there are, and whether there is one of that name. ConversionError for another kind.
  std::size_t size() const;
  bool contains(std::string_view key) const;
  // The items of an array, the members of a map: `for (const Value& item : answer["rows"].items())`. ConversionError for
  // another kind.
  const Array& items() const&;
  const Map& members() const&;
  const Array& items() const&& = delete;  // they would not live as long as the loop
  const Map& members() const&& = delete;

  std::string_view kind() const noexcept;  // for people: "text", "integer", ...
  friend bool operator==(const Value&, const Value&) = default;

 private:
  template <std::integral T>
  static Storage normal(T value) {
    if constexpr (std::unsigned_integral<T>) {
      if (static_cast<std::uint64_t>(value) > static_cast<std::uint64_t>(INT64_MAX)) {
        return static_cast<std::uint64_t>(value);
      }
    }
    return static_cast<std::int64_t>(value);
  }
  template <class T>
  static Array array_of(const std::vector<T>& items);
  template <class T>
  static Map map_of(const std::map<std::string, T>& members);

  Storage storage_;
};

struct Member {
  Value key;
  Value value;
  friend bool operator==(const Member&, const Member&) = default;
};

template <class T>
Array Value::array_of(const std::vector<T>& items) {
  Array array;
  array.reserve(items.size());
  for (const auto& item : items) array.push_back(Value(static_cast<const T&>(item)));
  return array;
}

template <class T>
Map Value::map_of(const std::map<std::string, T>& members) {
  std::vector<Member> pairs;
  pairs.reserve(members.size());
  for (const auto& [name, value] : members) pairs.push_back({Value(name), Value(value)});
  return Map::from_pairs(std::move(pairs));
}

template <>
bool Value::as<bool>() const;
template <>
std::int64_t Value::as<std::int64_t>() const;
template <>
std::uint64_t Value::as<std::uint64_t>() const;
template <>
std::string Value::as<std::string>() const;
template <>
Bytes Value::as<Bytes>() const;
template <>
ByteView Value::as<ByteView>() const;  // for as long as the value lives
template <>
Array Value::as<Array>() const;
template <>
Map Value::as<Map>() const;
template <>
Instant Value::as<Instant>() const;
template <>
Column Value::as<Column>() const;

}  // namespace speed
