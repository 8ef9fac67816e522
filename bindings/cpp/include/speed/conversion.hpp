// What a Value may be taken as, by `Value::as<T>` and `Request::get<T>`. T is one of
//   bool, std::string, Bytes, Array, Map, Instant, Column     the value as it is
//   ByteView                       the bytes of the value, not copied: for as long as the value lives
//   integers of 8 to 64 bits       from an integer in their range
//   double, float, long double     from a float, or from an integer that they hold exactly; a float that is not exactly a
//                                  `float` is rounded to the nearest, and refused beyond its range
//   std::chrono::sys_time<...>     from an instant: system_clock::time_point, sys_seconds, sys_days; one with a fraction
//                                  that T has no place for is refused, as is one beyond its range
//   std::chrono::year_month_day, hh_mm_ss<...>, local_time<...>      from their text in ISO 8601: 2026-11-25,
//                                  23:59:59.000001, 2026-11-25T23:59:59; of a fraction as above
//   std::chrono::duration<...>     from an integer of microseconds; of a fraction as above
//   std::optional<T>               nothing from nil
//   std::vector<T>                 from an array
//   std::map<std::string, T>, std::unordered_map<std::string, T>      from a map with text keys
// A decimal, a UUID and the name of an enumerator are text: take a std::string.
// Errors: ConversionError says what the value is instead, and names the item or member; never its content.
#pragma once

#include <bit>
#include <chrono>
#include <cmath>
#include <concepts>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "speed/error.hpp"
#include "speed/export.hpp"
#include "speed/value.hpp"

namespace speed {

// A number, not a character: a `char` says neither which of the two it means nor its range.
template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> && !std::same_as<T, wchar_t> &&
                  !std::same_as<T, char8_t> && !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

namespace detail {

[[noreturn]] SPEED_EXPORT void refuse_kind(const Value& value, std::string_view wanted);
[[noreturn]] SPEED_EXPORT void refuse_integer(bool is_signed, int bits);
[[noreturn]] SPEED_EXPORT void refuse_inexact(std::string_view why);

inline std::uint64_t magnitude(std::int64_t number) {
  return number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
}

// Whether a floating-point type with so many binary digits holds that integer exactly.
constexpr bool is_exact(std::uint64_t magnitude, int digits) {
  return magnitude == 0 || static_cast<int>(std::bit_width(magnitude)) - std::countr_zero(magnitude) <= digits;
}

// What `read` makes of one part of a value; an error says which part it is.
template <class Read>
auto part(std::string_view what, const std::string& name, Read read) {
  try {
    return read();
  } catch (const ConversionError& error) {
    throw ConversionError(std::string(what) + " " + name + ": " + error.what());
  }
}

}  // namespace detail

template <class T>
struct Conversion {
  static_assert(
      sizeof(T) == 0,
      "speed: no Value is taken as this type. Take bool, an integer, a floating-point type, std::string, Bytes, "
      "ByteView, Array, Map, Column, a time, date or duration of std::chrono, std::optional, std::vector or std::map "
      "of "
      "these; for a decimal, a UUID or an enum std::string");
};

template <>
struct Conversion<Value> {
  static Value from(const Value& value) { return value; }
};

template <Integer T>
struct Conversion<T> {
  static T from(const Value& value) {
    const auto* const number = value.get_if<std::int64_t>();
    const auto* const large = value.get_if<std::uint64_t>();
    if (number != nullptr && std::in_range<T>(*number)) return static_cast<T>(*number);
    if (large != nullptr && std::in_range<T>(*large)) return static_cast<T>(*large);
    if (number == nullptr && large == nullptr) detail::refuse_kind(value, "integer");
    detail::refuse_integer(std::signed_integral<T>, sizeof(T) * 8);
  }
};

template <std::floating_point T>
struct Conversion<T> {
  static T from(const Value& value) {
    if (const auto* const number = value.get_if<std::int64_t>()) return exact(*number, detail::magnitude(*number));
    if (const auto* const number = value.get_if<std::uint64_t>()) return exact(*number, *number);
    const auto* const number = value.get_if<double>();
    if (number == nullptr) detail::refuse_kind(value, "float");
    if constexpr (sizeof(T) < sizeof(double)) {
      if (std::isfinite(*number) && std::abs(*number) > static_cast<double>(std::numeric_limits<T>::max())) {
        detail::refuse_inexact("a float beyond the range of single precision");
      }
    }
    return static_cast<T>(*number);
  }

 private:
  template <class Number>
  static T exact(Number number, std::uint64_t magnitude) {
    if (!detail::is_exact(magnitude, std::numeric_limits<T>::digits)) {
      detail::refuse_inexact("an integer that no float holds exactly");
    }
    return static_cast<T>(number);
  }
};

template <class Duration>
struct Conversion<std::chrono::sys_time<Duration>> {
  using Time = std::chrono::sys_time<Duration>;
  static Time from(const Value& value) {
    const auto* const instant = value.get_if<Instant>();
    if (instant == nullptr) detail::refuse_kind(value, "instant");
    if constexpr (std::ratio_less_v<typename Duration::period, std::micro>) {
      // Compared as microseconds, where nothing overflows.
      if (*instant > std::chrono::floor<std::chrono::microseconds>(Time::max()) ||
          *instant < std::chrono::ceil<std::chrono::microseconds>(Time::min())) {
        detail::refuse_inexact("an instant beyond the years that the type holds");
      }
    }
    const Time time = std::chrono::floor<Duration>(*instant);
    if (std::chrono::floor<std::chrono::microseconds>(time) != *instant) {
      detail::refuse_inexact("an instant with a fraction that the type has no place for");
    }
    return time;
  }
};

namespace detail {

// Of text in ISO 8601, ConversionError for another.
SPEED_EXPORT std::chrono::year_month_day date_in(const Value& value);
SPEED_EXPORT std::chrono::microseconds time_in(const Value& value);  // since midnight
SPEED_EXPORT std::chrono::local_time<std::chrono::microseconds> moment_in(const Value& value);

// So many microseconds as a T, exactly.
template <class T>
T span_of(std::chrono::microseconds whole) {
  if constexpr (std::chrono::treat_as_floating_point_v<typename T::rep>) {
    return std::chrono::duration_cast<T>(whole);
  } else {
    using Wide = std::chrono::duration<long double, typename T::period>;
    constexpr auto most = static_cast<long double>(std::numeric_limits<typename T::rep>::max());
    const auto wanted = Wide(whole).count();
    if (wanted > most || wanted < static_cast<long double>(std::numeric_limits<typename T::rep>::min())) {
      refuse_inexact("a span of time beyond the range of the type");
    }
    const T span = std::chrono::duration_cast<T>(whole);
    if (std::chrono::floor<std::chrono::microseconds>(span) != whole) {
      refuse_inexact("a span of time with a fraction that the type has no place for");
    }
    return span;
  }
}

}  // namespace detail

template <>
struct Conversion<std::chrono::year_month_day> {
  static std::chrono::year_month_day from(const Value& value) { return detail::date_in(value); }
};

template <class Duration>
struct Conversion<std::chrono::hh_mm_ss<Duration>> {
  static std::chrono::hh_mm_ss<Duration> from(const Value& value) {
    return std::chrono::hh_mm_ss<Duration>(detail::span_of<Duration>(detail::time_in(value)));
  }
};

template <class Duration>
struct Conversion<std::chrono::local_time<Duration>> {
  static std::chrono::local_time<Duration> from(const Value& value) {
    return std::chrono::local_time<Duration>(detail::span_of<Duration>(detail::moment_in(value).time_since_epoch()));
  }
};

template <class Number, class Period>
struct Conversion<std::chrono::duration<Number, Period>> {
  static std::chrono::duration<Number, Period> from(const Value& value) {
    return detail::span_of<std::chrono::duration<Number, Period>>(std::chrono::microseconds(value.as<std::int64_t>()));
  }
};

template <class T>
struct Conversion<std::optional<T>> {
  static std::optional<T> from(const Value& value) {
    return value.is_nil() ? std::nullopt : std::optional<T>(value.as<T>());
  }
};

template <class T>
struct Conversion<std::vector<T>> {
  static std::vector<T> from(const Value& value) {
    const auto* const array = value.get_if<Array>();
    if (array == nullptr) detail::refuse_kind(value, "array");
    std::vector<T> items;
    items.reserve(array->size());
    for (const Value& item : *array) {
      items.push_back(detail::part("item", std::to_string(items.size()), [&] { return item.as<T>(); }));
    }
    return items;
  }
};

namespace detail {

template <class Members>
Members members_of(const Value& value) {
  const auto* const map = value.get_if<Map>();
  if (map == nullptr) refuse_kind(value, "map");
  Members members;
  for (const Member& member : *map) {
    const auto* const name = member.key.get_if<std::string>();
    if (name == nullptr) refuse_inexact("a map with a key that is no text");
    members.emplace(
        *name, part("member", "'" + *name + "'", [&] { return member.value.as<typename Members::mapped_type>(); }));
  }
  return members;
}

}  // namespace detail

template <class T>
struct Conversion<std::map<std::string, T>> {
  static std::map<std::string, T> from(const Value& value) {
    return detail::members_of<std::map<std::string, T>>(value);
  }
};

template <class T>
struct Conversion<std::unordered_map<std::string, T>> {
  static std::unordered_map<std::string, T> from(const Value& value) {
    return detail::members_of<std::unordered_map<std::string, T>>(value);
  }
};

}  // namespace speed
