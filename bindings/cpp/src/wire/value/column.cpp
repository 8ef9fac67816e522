// Sizes of the parts of a column (C-2, C-4).
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include "speed/column.hpp"
#include "speed/error.hpp"
#include "wire/value/bytes.hpp"
#include "wire/value/decimal.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::wire {

inline constexpr std::size_t column_header_bytes = 8;

constexpr std::size_t filled(std::size_t size) { return (size + 7) / 8 * 8; }
constexpr std::size_t bit_bytes(std::size_t rows) { return (rows + 7) / 8; }

}  // namespace speed::wire

namespace speed {

static_assert(std::endian::native == std::endian::little, "columns are used where they lie");

namespace {

using Kind = Column::Kind;

using wire::column_header_bytes;
using wire::filled;

constexpr std::size_t decimal_bytes = 16;
constexpr std::array<std::string_view, 8> names{"",     "int64",  "float64",   "bool",
                                                "utf8", "binary", "timestamp", "decimal"};

constexpr bool has_offsets(Kind kind) { return kind == Kind::utf8 || kind == Kind::binary; }

constexpr std::size_t data_bytes(Kind kind, std::size_t rows) {
  if (kind == Kind::boolean) return wire::bit_bytes(rows);
  return rows * (kind == Kind::decimal ? decimal_bytes : 8);
}

[[noreturn]] void refuse(const char* why) { throw WireError("BAD_PAYLOAD", std::string("a column ") + why); }

std::uint8_t byte_at(ByteView body, std::size_t at) { return std::to_integer<std::uint8_t>(body[at]); }

std::uint32_t rows_of(ByteView body) {
  std::uint32_t rows = 0;
  std::memcpy(&rows, body.data() + 4, sizeof rows);
  return rows;
}

// The parts of a body one after the other, each checked to be there and to be filled with zeros.
class Parts {
 public:
  explicit Parts(ByteView body) : rest_(body.subspan(column_header_bytes)) {}

  ByteView take(std::uint64_t size) {
    if (size > rest_.size() || filled(size) > rest_.size()) refuse("is shorter than its rows");
    const ByteView part = rest_.first(size);
    const ByteView filling = rest_.subspan(size, filled(size) - size);
    if (std::ranges::any_of(filling, [](std::byte byte) { return byte != std::byte{0}; })) {
      refuse("has bytes between its parts");
    }
    rest_ = rest_.subspan(filled(size));
    return part;
  }

  void take_bits(std::uint32_t rows) {
    const ByteView bits = take(wire::bit_bytes(rows));
    if (rows % 8 != 0 && (std::to_integer<unsigned>(bits.back()) >> rows % 8) != 0) {
      refuse("has bits behind its last row");
    }
  }

  void end() const {
    if (!rest_.empty()) refuse("is longer than its rows");
  }

 private:
  ByteView rest_;
};

bool is_inside_character(std::byte byte) { return (byte & std::byte{0xc0}) == std::byte{0x80}; }

void check_text(std::span<const std::uint32_t> offsets, ByteView data) {
  if (!wire::is_utf8(wire::text(data))) refuse("has text that is not UTF-8");
  for (const std::uint32_t at : offsets) {
    if (at < data.size() && is_inside_character(data[at])) refuse("has an offset inside a character");
  }
}

void check_strings(Parts& parts, Kind kind, std::uint32_t rows) {
  const ByteView bytes = parts.take((std::uint64_t{rows} + 1) * sizeof(std::uint32_t));
  std::vector<std::uint32_t> offsets(std::size_t{rows} + 1);  // what was received need not be aligned
  std::memcpy(offsets.data(), bytes.data(), bytes.size());
  if (offsets.front() != 0 || !std::ranges::is_sorted(offsets)) refuse("has offsets out of order");
  const ByteView data = parts.take(offsets.back());
  if (kind == Kind::utf8) check_text(offsets, data);
}

void check_header(ByteView body) {
  if (body.size() < column_header_bytes) refuse("is shorter than its header");
  const int number = byte_at(body, 0), precision = byte_at(body, 2), scale = byte_at(body, 3);
  const bool is_decimal = number == static_cast<int>(Kind::decimal);
  const bool is_scaled = is_decimal ? precision >= 1 && precision <= wire::max_precision && scale <= precision
                                    : precision == 0 && scale == 0;
  if (number < 1 || number > static_cast<int>(Kind::decimal) || byte_at(body, 1) > 1 || !is_scaled) {
    refuse("is of an unknown kind");
  }
}

void check(ByteView body) {
  check_header(body);
  const auto kind = static_cast<Kind>(byte_at(body, 0));
  const std::uint32_t rows = rows_of(body);
  Parts parts(body);
  if (byte_at(body, 1) != 0) parts.take_bits(rows);
  if (has_offsets(kind)) {
    check_strings(parts, kind, rows);
  } else if (kind == Kind::boolean) {
    parts.take_bits(rows);
  } else {
    parts.take(data_bytes(kind, rows));
  }
  parts.end();
}

}  // namespace

Column::Column(Body body)
    : body_(std::make_shared<const Body>(std::move(body))),
      kind_(static_cast<Kind>(byte_at(*body_, 0))),
      precision_(byte_at(*body_, 2)),
      scale_(byte_at(*body_, 3)),
      has_validity_(byte_at(*body_, 1) != 0),
      rows_(rows_of(*body_)) {}

Column Column::parse(ByteView body) {
  check(body);
  return Column(Body(body.begin(), body.end()));
}

std::string_view Column::kind_name() const noexcept { return names[static_cast<std::size_t>(kind_)]; }

bool Column::has_nulls() const noexcept {
  for (std::size_t row = 0; has_validity_ && row < rows_; ++row) {
    if (is_null(row)) return true;
  }
  return false;
}

bool Column::is_null(std::size_t row) const noexcept {
  return has_validity_ && (std::to_integer<unsigned>(validity()[row / 8]) >> row % 8 & 1U) == 0;
}

std::span<const std::int64_t> Column::int64() const {
  if (kind_ != Kind::timestamp) expect(Kind::int64, "int64 or timestamp");
  return {reinterpret_cast<const std::int64_t*>(data()), rows_};
}

std::span<const double> Column::float64() const {
  expect(Kind::float64, "float64");
  return {reinterpret_cast<const double*>(data()), rows_};
}

bool Column::boolean(std::size_t row) const {
  expect(Kind::boolean, "bool");
  return (std::to_integer<unsigned>(data()[row / 8]) >> row % 8 & 1U) != 0;
}

std::string_view Column::text(std::size_t row) const {
  if (kind_ != Kind::binary) expect(Kind::utf8, "utf8 or binary");
  const std::uint32_t start = offsets()[row];
  return {reinterpret_cast<const char*>(data()) + start, offsets()[row + 1] - start};
}

std::span<const std::byte, 16> Column::decimal(std::size_t row) const {
  expect(Kind::decimal, "decimal");
  return std::span<const std::byte, 16>(data() + row * decimal_bytes, decimal_bytes);
}

std::string Column::decimal_text(std::size_t row) const {
  wire::Int128 unscaled = 0;
  std::memcpy(&unscaled, decimal(row).data(), sizeof unscaled);
  return wire::decimal_text(unscaled, scale_);
}

const std::byte* Column::validity() const noexcept { return body_->data() + column_header_bytes; }

const std::uint32_t* Column::offsets() const noexcept {
  const std::size_t before = has_validity_ ? filled(wire::bit_bytes(rows_)) : 0;
  return reinterpret_cast<const std::uint32_t*>(validity() + before);
}

const std::byte* Column::data() const noexcept {
  const auto* const first = reinterpret_cast<const std::byte*>(offsets());
  return has_offsets(kind_) ? first + filled((std::size_t{rows_} + 1) * sizeof(std::uint32_t)) : first;
}

void Column::expect(Kind kind, std::string_view wanted) const {
  if (kind_ == kind) return;
  throw WrongKindError("a column is of " + std::string(kind_name()) + ", not " + std::string(wanted), body_->data());
}

// Columns made of rows.

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
