// Decimals as text and as the integers that a column holds (C-3, V-2).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace speed::wire {

__extension__ using Int128 = __int128;

inline constexpr int max_precision = 38;

// The decimal in `text` times 10^scale; nothing for other text, or digits that do not fit.
std::optional<Int128> unscaled(std::string_view text, int precision, int scale);
// How many digits a text has behind its point, zeros at its end aside.
int fraction_digits(std::string_view text);

std::string decimal_text(Int128 unscaled, int scale);

}  // namespace speed::wire
