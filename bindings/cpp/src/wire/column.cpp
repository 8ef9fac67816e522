#include "speed/column.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "speed/error.hpp"
#include "wire/bytes.hpp"
#include "wire/column_layout.hpp"
#include "wire/decimal.hpp"
#include "wire/value_codec.hpp"

namespace speed {

static_assert(std::endian::native == std::endian::little, "columns are used where they lie");

namespace {

using Kind = Column::Kind;

using wire::column_header_bytes;
using wire::filled;

constexpr std::size_t decimal_bytes = 16;
constexpr std::array<std::string_view, 8> names{"", "int64", "float64", "bool", "utf8", "binary", "timestamp", "decimal"};

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

}  // namespace speed
