// Sizes of the parts of a column (C-2, C-4).
#pragma once

#include <cstddef>

namespace speed::wire {

inline constexpr std::size_t column_header_bytes = 8;

constexpr std::size_t filled(std::size_t size) { return (size + 7) / 8 * 8; }
constexpr std::size_t bit_bytes(std::size_t rows) { return (rows + 7) / 8; }

}  // namespace speed::wire
