// Columns: many values of one kind side by side (registry_spec/columns.md).
// Threads: a Column never changes once it is made; copies share its bytes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "speed/export.hpp"

namespace speed {

// Rows of one kind, any of which may be null.
//
//     const auto prices = speed::Column::of(std::vector<std::optional<double>>{9.5, std::nullopt});
//     const double first = prices.is_null(0) ? 0 : prices.float64()[0];
class SPEED_EXPORT Column {
 public:
  // Numbers as columns.md gives them. A timestamp is microseconds since 1970 UTC, a local one those where there is no zone,
  // a time those since midnight; a date is days since 1970.
  enum class Kind : std::uint8_t {
    int64 = 1,
    float64,
    boolean,
    utf8,
    binary,
    timestamp,
    decimal,
    date,
    time,
    local_timestamp,
    duration,
    months,
    list,
    structure,
    map
  };
  // The items of a list, or the entries of a map, of one row: from `begin` up to `end`.
  struct Range {
    std::size_t begin;
    std::size_t end;
  };

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
  // Times of `kind`: microseconds of timestamp, time, local_timestamp and duration, days of date, months. UnserialisableError
  // names the row that has more than 32 bits for days and months; ConfigurationError for another kind.
  static Column times(Kind kind, const std::vector<std::optional<std::int64_t>>& rows);
  // Decimals as text, `-12.50`: a sign or none, digits, a point and digits or none. UnserialisableError names the row that is
  // none, or has more digits than fit; ConfigurationError unless 0 <= scale <= precision, and 1 <= precision <= 38.
  static Column decimals(const std::vector<std::optional<std::string>>& rows, int precision = 38, int scale = 18);

  // Lists of so many `items` a row, one after the other; maps of so many entries. A field of structs has a name of its own.
  // ConfigurationError for lengths that are not those of the items, keys with nulls, fields of different rows, none, or two of a
  // name; UnserialisableError for what nests deeper than 32.
  static Column lists(const std::vector<std::optional<std::size_t>>& lengths, const Column& items);
  static Column maps(const std::vector<std::optional<std::size_t>>& lengths, const Column& keys, const Column& values);
  static Column structs(const std::vector<std::pair<std::string, Column>>& fields,
                        const std::vector<bool>& present = {});

  Kind kind() const noexcept { return kind_; }
  std::string_view kind_name() const noexcept;  // for people: "int64", "utf8", ...
  std::string type_name() const;  // with what lies in it: "list<int64>", "struct<a: utf8>", "decimal(9, 2)"
  std::size_t rows() const noexcept { return rows_; }
  int precision() const noexcept { return precision_; }  // of a decimal, else 0
  int scale() const noexcept { return scale_; }
  bool has_nulls() const noexcept;
  bool is_null(std::size_t row) const noexcept;

  // All rows at once, where they lie; what a null row holds has no meaning. WrongKindError for another kind.
  std::span<const std::int64_t> int64() const;  // also timestamp, time, local_timestamp, duration
  std::span<const std::int32_t> int32() const;  // date and months
  std::span<const double> float64() const;
  // One row, which must be below rows(). WrongKindError for another kind.
  bool boolean(std::size_t row) const;
  std::string_view text(std::size_t row) const;  // utf8 and binary
  std::span<const std::byte, 16> decimal(std::size_t row) const;  // two's complement, little-endian
  std::string decimal_text(std::size_t row) const;  // with as many digits behind the point as the scale: `-12.50`
  Range range(std::size_t row) const;  // of a list or map, in its children

  // What lies in it: the items of a list, the keys and values of a map, the fields of a struct; else nothing.
  std::span<const Column> children() const noexcept;
  std::span<const std::string> names() const noexcept;  // of the fields of a struct
  const Column& field(std::string_view name) const;  // of a struct. std::out_of_range if it has none of this name

  std::span<const std::byte> body() const noexcept { return std::span(*body_).subspan(at_, size_); }
  friend bool operator==(const Column& one, const Column& other) {
    return std::ranges::equal(one.body(), other.body());
  }

 private:
  using Body = std::vector<std::byte>;
  class Reader;
  struct Inner;
  Column(std::shared_ptr<const Body> body, std::size_t at);  // its header alone

  static Column made(Body body);  // of one that keeps the rules
  static Column nested(Body body);  // of one that may have too many others in it
  const std::byte* validity() const noexcept;
  const std::uint32_t* offsets() const noexcept;
  const std::byte* data() const noexcept;
  void expect(Kind kind, std::string_view wanted) const;

  std::shared_ptr<const Body> body_;
  std::shared_ptr<const Inner> inner_;
  std::size_t at_;
  std::size_t size_ = 0;
  Kind kind_;
  std::uint8_t precision_;
  std::uint8_t scale_;
  bool has_validity_;
  std::uint32_t rows_;
};

}  // namespace speed
