#include "wire/value/decimal.hpp"

#include <algorithm>

namespace speed::wire {

namespace {

__extension__ using Unsigned128 = unsigned __int128;

bool are_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The digits in front of the point and, where there is one, those behind it.
struct Digits {
  std::string_view whole;
  std::string_view fraction;
};

std::optional<Digits> split(std::string_view text) {
  const std::size_t point = text.find('.');
  if (point == std::string_view::npos) return are_digits(text) ? std::optional(Digits{text, {}}) : std::nullopt;
  const Digits digits{text.substr(0, point), text.substr(point + 1)};
  return are_digits(digits.whole) && are_digits(digits.fraction) ? std::optional(digits) : std::nullopt;
}

std::string_view without_trailing_zeros(std::string_view digits) {
  return digits.substr(0, digits.find_last_not_of('0') + 1);
}

}  // namespace

std::optional<Int128> unscaled(std::string_view text, int precision, int scale) {
  const bool is_negative = text.starts_with('-');
  const auto parts = split(text.substr(is_negative ? 1 : 0));
  if (!parts) return std::nullopt;
  const std::string_view fraction = without_trailing_zeros(parts->fraction);
  if (fraction.size() > static_cast<std::size_t>(scale)) return std::nullopt;
  std::string digits = std::string(parts->whole) + std::string(fraction);
  digits.append(static_cast<std::size_t>(scale) - fraction.size(), '0');
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.size() > static_cast<std::size_t>(precision)) return std::nullopt;
  Int128 number = 0;
  for (const char digit : digits) number = number * 10 + (digit - '0');
  return is_negative ? -number : number;
}

int fraction_digits(std::string_view text) {
  const std::size_t point = text.find('.');
  return point == std::string_view::npos ? 0 : static_cast<int>(without_trailing_zeros(text.substr(point + 1)).size());
}

std::string decimal_text(Int128 unscaled, int scale) {
  auto rest = static_cast<Unsigned128>(unscaled);
  if (unscaled < 0) rest = 0 - rest;
  std::string reversed;
  while (rest != 0 || static_cast<int>(reversed.size()) <= scale + (scale > 0 ? 1 : 0)) {
    if (scale > 0 && static_cast<int>(reversed.size()) == scale) reversed += '.';
    reversed += static_cast<char>('0' + static_cast<int>(rest % 10));
    rest /= 10;
  }
  if (unscaled < 0) reversed += '-';
  return {reversed.rbegin(), reversed.rend()};
}

}  // namespace speed::wire
