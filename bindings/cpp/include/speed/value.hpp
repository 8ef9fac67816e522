// Values that travel in calls and messages: the type table of registry_spec/wire.md.
// Threads: a Value is plain data; share it between threads as you would a std::string.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "speed/column.hpp"

namespace speed {

inline constexpr std::size_t max_value_depth = 32;  // of arrays and maps within each other

class Value;
struct Member;

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;
using Array = std::vector<Value>;
using Instant = std::chrono::sys_time<std::chrono::microseconds>;  // years 1 to 9999, which nanoseconds would not hold

// Pairs in the order in which they were set; a key is text or an integer and occurs once.
class Map {
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
class Value {
 public:
  using Storage = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Bytes, Array, Map,
                               Instant, Column>;

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
  Value(Array items) : storage_(std::move(items)) {}
  Value(Map map) : storage_(std::move(map)) {}
  Value(Instant instant) : storage_(instant) {}
  Value(Column column) : storage_(std::move(column)) {}

  bool is_nil() const noexcept { return storage_.index() == 0; }
  const Storage& storage() const noexcept { return storage_; }
  Storage& storage() noexcept { return storage_; }

  template <class T>
  const T* get_if() const noexcept {
    return std::get_if<T>(&storage_);
  }
  // The value as T (one of Storage, or double from an integer). InvalidArgumentsError if it is of another kind.
  template <class T>
  T as() const;

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

  Storage storage_;
};

struct Member {
  Value key;
  Value value;
  friend bool operator==(const Member&, const Member&) = default;
};

template <>
bool Value::as<bool>() const;
template <>
std::int64_t Value::as<std::int64_t>() const;
template <>
std::uint64_t Value::as<std::uint64_t>() const;
template <>
double Value::as<double>() const;
template <>
std::string Value::as<std::string>() const;
template <>
Bytes Value::as<Bytes>() const;
template <>
Array Value::as<Array>() const;
template <>
Map Value::as<Map>() const;
template <>
Instant Value::as<Instant>() const;
template <>
Column Value::as<Column>() const;

}  // namespace speed
