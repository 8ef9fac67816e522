// Columns made of rows.
#include <algorithm>
#include <cstring>

#include "speed/column.hpp"
#include "speed/error.hpp"
#include "wire/column_layout.hpp"
#include "wire/decimal.hpp"
#include "wire/value_codec.hpp"

namespace speed {

namespace {

using Kind = Column::Kind;

// A body under construction.
class Writer {
 public:
  Writer(Kind kind, std::size_t rows, bool has_validity = false) : body_(wire::column_header_bytes) {
    if (rows > UINT32_MAX) throw UnserialisableError("a column has at most 2^32 - 1 rows");
    const auto count = static_cast<std::uint32_t>(rows);
    body_[0] = static_cast<std::byte>(kind);
    body_[1] = static_cast<std::byte>(has_validity);
    std::memcpy(body_.data() + 4, &count, sizeof count);
  }

  template <class T>
  void append(std::span<const T> part) {
    const auto bytes = std::as_bytes(part);
    body_.insert(body_.end(), bytes.begin(), bytes.end());
    body_.insert(body_.end(), wire::filled(bytes.size()) - bytes.size(), std::byte{0});
  }

  template <class Bit>
  void append_bits(std::size_t rows, Bit bit) {
    std::vector<std::uint8_t> bits(wire::bit_bytes(rows));
    for (std::size_t row = 0; row < rows; ++row) {
      bits[row / 8] = static_cast<std::uint8_t>(bits[row / 8] | unsigned{bit(row)} << row % 8);
    }
    append(std::span<const std::uint8_t>(bits));
  }

  void scale_by(int precision, int scale) {
    body_[2] = static_cast<std::byte>(precision);
    body_[3] = static_cast<std::byte>(scale);
  }

  std::vector<std::byte> take() { return std::move(body_); }

 private:
  std::vector<std::byte> body_;
};

// The header, and the validity where a row is null.
template <class T>
Writer begin(Kind kind, const std::vector<std::optional<T>>& rows) {
  const auto is_there = [&](std::size_t row) { return rows[row].has_value(); };
  const bool has_nulls = std::ranges::any_of(rows, [](const auto& row) { return !row.has_value(); });
  Writer writer(kind, rows.size(), has_nulls);
  if (has_nulls) writer.append_bits(rows.size(), is_there);
  return writer;
}

template <class T>
std::vector<std::byte> plain(Kind kind, std::span<const T> rows) {
  Writer writer(kind, rows.size());
  writer.append(rows);
  return writer.take();
}

template <class T>
std::vector<std::byte> numbers(Kind kind, const std::vector<std::optional<T>>& rows) {
  Writer writer = begin(kind, rows);
  std::vector<T> values(rows.size());
  std::ranges::transform(rows, values.begin(), [](const auto& row) { return row.value_or(T{}); });
  writer.append(std::span<const T>(values));
  return writer.take();
}

std::vector<std::byte> strings(Kind kind, const std::vector<std::optional<std::string>>& rows) {
  Writer writer = begin(kind, rows);
  std::vector<std::uint32_t> offsets{0};
  std::string data;
  for (const std::optional<std::string>& row : rows) {
    if (row) data += *row;
    if (data.size() > UINT32_MAX) throw UnserialisableError("a column holds at most 2^32 - 1 bytes of text");
    offsets.push_back(static_cast<std::uint32_t>(data.size()));
  }
  writer.append(std::span<const std::uint32_t>(offsets));
  writer.append(std::span<const char>(data));
  return writer.take();
}

void check_scale(int precision, int scale) {
  if (precision >= 1 && precision <= wire::max_precision && scale >= 0 && scale <= precision) return;
  throw ConfigurationError("there is no decimal(" + std::to_string(precision) + ", " + std::to_string(scale) + ")");
}

// The decimal of one row; 0 for a null.
wire::Int128 unscaled(const std::vector<std::optional<std::string>>& rows, std::size_t row, int precision, int scale) {
  if (!rows[row]) return 0;
  if (const auto number = wire::unscaled(*rows[row], precision, scale)) return *number;
  throw UnserialisableError("row " + std::to_string(row) + " does not fit into a decimal(" + std::to_string(precision) +
                            ", " + std::to_string(scale) + ")");
}

}  // namespace

Column Column::of(std::span<const std::int64_t> rows) { return Column(plain(Kind::int64, rows)); }
Column Column::of(std::span<const double> rows) { return Column(plain(Kind::float64, rows)); }

Column Column::of(const std::vector<std::optional<std::int64_t>>& rows) { return Column(numbers(Kind::int64, rows)); }
Column Column::of(const std::vector<std::optional<double>>& rows) { return Column(numbers(Kind::float64, rows)); }

Column Column::of(const std::vector<std::optional<bool>>& rows) {
  Writer writer = begin(Kind::boolean, rows);
  writer.append_bits(rows.size(), [&](std::size_t row) { return rows[row].value_or(false); });
  return Column(writer.take());
}

Column Column::of(const std::vector<std::optional<std::string>>& rows) {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (!rows[row] || wire::is_utf8(*rows[row])) continue;
    throw UnserialisableError("row " + std::to_string(row) + " is text that is not UTF-8: use binary");
  }
  return Column(strings(Kind::utf8, rows));
}

Column Column::binary(const std::vector<std::optional<std::string>>& rows) {
  return Column(strings(Kind::binary, rows));
}

Column Column::timestamps(const std::vector<std::optional<std::int64_t>>& microseconds) {
  return Column(numbers(Kind::timestamp, microseconds));
}

Column Column::decimals(const std::vector<std::optional<std::string>>& rows, int precision, int scale) {
  check_scale(precision, scale);
  Writer writer = begin(Kind::decimal, rows);
  writer.scale_by(precision, scale);
  std::vector<wire::Int128> numbers(rows.size());
  for (std::size_t row = 0; row < rows.size(); ++row) numbers[row] = unscaled(rows, row, precision, scale);
  writer.append(std::span<const wire::Int128>(numbers));
  return Column(writer.take());
}

}  // namespace speed
