// Dates, times and durations in the form in which they travel (V-2).
#include <array>
#include <cmath>
#include <cstdio>

#include "speed/conversion.hpp"
#include "speed/error.hpp"

namespace speed::detail {

namespace {

using std::chrono::microseconds;

// Reads a text from its front on; nothing after the first thing that is not as expected.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }

  bool take(char wanted) {
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // Exactly so many digits.
  std::optional<int> number(std::size_t digits) {
    if (count_digits() < digits) return std::nullopt;
    int number = 0;
    for (const char digit : rest_.substr(0, digits)) number = number * 10 + (digit - '0');
    rest_.remove_prefix(digits);
    return number;
  }

  // Up to six digits as millionths.
  std::optional<int> fraction() {
    const std::size_t digits = count_digits();
    if (digits < 1 || digits > 6) return std::nullopt;
    int millionths = *number(digits);
    for (std::size_t place = digits; place < 6; ++place) millionths *= 10;
    return millionths;
  }

 private:
  std::size_t count_digits() const { return std::min(rest_.find_first_not_of("0123456789"), rest_.size()); }

  std::string_view rest_;
};

std::optional<std::chrono::year_month_day> read_date(Reader& text) {
  const auto year = text.number(4);
  if (!year || *year == 0 || !text.take('-')) return std::nullopt;
  const auto month = text.number(2);
  if (!month || !text.take('-')) return std::nullopt;
  const auto day = text.number(2);
  if (!day) return std::nullopt;
  const auto date = std::chrono::year(*year) / *month / *day;
  return date.ok() ? std::optional(date) : std::nullopt;
}

// What stands behind the minute: nothing, a second, or one with a fraction.
std::optional<microseconds> read_second(Reader& text) {
  if (!text.take(':')) return microseconds(0);
  const auto second = text.number(2);
  if (!second || *second > 59) return std::nullopt;
  const auto fraction = text.take('.') ? text.fraction() : std::optional(0);
  if (!fraction) return std::nullopt;
  return std::chrono::seconds(*second) + microseconds(*fraction);
}

std::optional<microseconds> read_time(Reader& text) {
  const auto hour = text.number(2);
  if (!hour || *hour > 23 || !text.take(':')) return std::nullopt;
  const auto minute = text.number(2);
  if (!minute || *minute > 59) return std::nullopt;
  const auto second = read_second(text);
  if (!second) return std::nullopt;
  return std::chrono::hours(*hour) + std::chrono::minutes(*minute) + *second;
}

const std::string& text_in(const Value& value, std::string_view wanted) {
  if (const auto* const text = value.get_if<std::string>()) return *text;
  refuse_kind(value, wanted);
}

std::string printed(const char* form, auto... numbers) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), form, numbers...);
  return text.data();
}

}  // namespace

std::string text_of(std::chrono::year_month_day date) {
  const int year = static_cast<int>(date.year());
  if (!date.ok() || year < 1 || year > 9999) throw UnserialisableError("a date is none of the years 1 to 9999");
  return printed("%04d-%02u-%02u", year, static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

std::string text_of(std::chrono::hh_mm_ss<microseconds> time) {
  if (time.is_negative() || time.hours() >= std::chrono::hours(24))
    throw UnserialisableError("a time of day is beyond a day");
  const auto text = printed("%02ld:%02ld:%02ld", static_cast<long>(time.hours().count()),
                            static_cast<long>(time.minutes().count()), static_cast<long>(time.seconds().count()));
  const auto fraction = static_cast<long>(time.subseconds().count());
  return fraction == 0 ? text : text + printed(".%06ld", fraction);
}

std::string text_of(std::chrono::local_time<microseconds> moment) {
  const auto day = std::chrono::floor<std::chrono::days>(moment);
  return text_of(std::chrono::year_month_day(day)) + "T" + text_of(std::chrono::hh_mm_ss<microseconds>(moment - day));
}

std::int64_t whole_microseconds(long double microseconds) {
  constexpr long double beyond = 9223372036854775808.0L;  // 2^63
  const long double whole = std::floor(microseconds);
  if (!(whole >= -beyond && whole < beyond)) throw UnserialisableError("a duration is beyond 64 bits of microseconds");
  return static_cast<std::int64_t>(whole);
}

std::chrono::year_month_day date_in(const Value& value) {
  Reader text(text_in(value, "a date as text"));
  const auto date = read_date(text);
  if (!date || !text.at_end()) refuse_inexact("text that is no date such as 2026-11-25");
  return *date;
}

microseconds time_in(const Value& value) {
  Reader text(text_in(value, "a time as text"));
  const auto time = read_time(text);
  if (!time || !text.at_end()) refuse_inexact("text that is no time of day such as 23:59:59.000001");
  return *time;
}

std::chrono::local_time<microseconds> moment_in(const Value& value) {
  Reader text(text_in(value, "a date and time as text"));
  const auto date = read_date(text);
  const auto time = date && text.take('T') ? read_time(text) : std::nullopt;
  if (!time || !text.at_end()) refuse_inexact("text that is no date and time such as 2026-11-25T23:59:59");
  return std::chrono::local_days(*date) + *time;
}

}  // namespace speed::detail
