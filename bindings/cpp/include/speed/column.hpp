// Columns: many values of one kind side by side (registry_spec/columns.md).
// Threads: a Column never changes once it is made; copies share its bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "speed/export.hpp"

namespace speed {

// Rows of one kind, any of which may be null.
//
//     const auto prices = speed::Column::of(std::vector<std::optional<double>>{9.5, std::nullopt});
//     const double first = prices.is_null(0) ? 0 : prices.float64()[0];
class SPEED_EXPORT Column {
 public:
  // Numbers as columns.md gives them. A timestamp is microseconds since 1970 UTC.
  enum class Kind : std::uint8_t { int64 = 1, float64, boolean, utf8, binary, timestamp, decimal };

  // The column in `body`, copied once. WireError BAD_PAYLOAD if it breaks a rule of columns.md.
  static Column parse(std::span<const std::byte> body);

  // Columns of rows, and of rows that may be null.
  static Column of(std::span<const std::int64_t> rows);
  static Column of(std::span<const double> rows);
  static Column of(const std::vector<std::optional<std::int64_t>>& rows);
  static Column of(const std::vector<std::optional<double>>& rows);
  static Column of(const std::vector<std::optional<bool>>& rows);
  static Column of(const std::vector<std::optional<std::string>>& rows);  // UnserialisableError unless UTF-8
  static Column binary(const std::vector<std::optional<std::string>>& rows);
  static Column timestamps(const std::vector<std::optional<std::int64_t>>& microseconds);
  // Decimals as text, `-12.50`: a sign or none, digits, a point and digits or none. UnserialisableError names the row that is
  // none, or has more digits than fit; ConfigurationError unless 0 <= scale <= precision, and 1 <= precision <= 38.
  static Column decimals(const std::vector<std::optional<std::string>>& rows, int precision = 38, int scale = 18);

  Kind kind() const noexcept { return kind_; }
  std::string_view kind_name() const noexcept;  // for people: "int64", "utf8", ...
  std::size_t rows() const noexcept { return rows_; }
  int precision() const noexcept { return precision_; }  // of a decimal, else 0
  int scale() const noexcept { return scale_; }
  bool has_nulls() const noexcept;
  bool is_null(std::size_t row) const noexcept;

  // All rows at once, where they lie; what a null row holds has no meaning. WrongKindError for another kind.
  std::span<const std::int64_t> int64() const;  // also timestamps
  std::span<const double> float64() const;
  // One row, which must be below rows(). WrongKindError for another kind.
  bool boolean(std::size_t row) const;
  std::string_view text(std::size_t row) const;  // utf8 and binary
  std::span<const std::byte, 16> decimal(std::size_t row) const;  // two's complement, little-endian
  std::string decimal_text(std::size_t row) const;  // with as many digits behind the point as the scale: `-12.50`

  std::span<const std::byte> body() const noexcept { return *body_; }
  friend bool operator==(const Column& one, const Column& other) { return *one.body_ == *other.body_; }

 private:
  using Body = std::vector<std::byte>;
  explicit Column(Body body);  // one that keeps the rules

  const std::byte* validity() const noexcept;
  const std::uint32_t* offsets() const noexcept;
  const std::byte* data() const noexcept;
  void expect(Kind kind, std::string_view wanted) const;

  std::shared_ptr<const Body> body_;
  Kind kind_;
  std::uint8_t precision_;
  std::uint8_t scale_;
  bool has_validity_;
  std::uint32_t rows_;
};

}  // namespace speed
