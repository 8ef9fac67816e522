// The parts of a column, and columns in columns (C-2 to C-5, C-9).
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "speed/column.hpp"
#include "speed/error.hpp"
#include "wire/limits.hpp"
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
constexpr std::array<std::string_view, 16> kind_names{
    "",     "int64", "float64",         "bool",     "utf8",   "binary", "timestamp", "decimal",
    "date", "time",  "local_timestamp", "duration", "months", "list",   "struct",    "map"};

constexpr bool has_text(Kind kind) { return kind == Kind::utf8 || kind == Kind::binary; }
constexpr bool has_offsets(Kind kind) { return has_text(kind) || kind == Kind::list || kind == Kind::map; }
constexpr bool is_of_32_bits(Kind kind) { return kind == Kind::date || kind == Kind::months; }

constexpr std::uint64_t data_bytes(Kind kind, std::uint64_t rows) {
  if (kind == Kind::boolean) return wire::bit_bytes(rows);
  return rows * (kind == Kind::decimal ? decimal_bytes : is_of_32_bits(kind) ? 4 : 8);
}

[[noreturn]] void refuse(const char* why) { throw WireError("BAD_PAYLOAD", std::string("a column ") + why); }

std::uint8_t byte_at(ByteView body, std::size_t at) { return std::to_integer<std::uint8_t>(body[at]); }

bool is_inside_character(std::byte byte) { return (byte & std::byte{0xc0}) == std::byte{0x80}; }

void check_text(std::span<const std::uint32_t> offsets, ByteView data) {
  if (!wire::is_utf8(wire::text(data))) refuse("has text that is not UTF-8");
  for (const std::uint32_t at : offsets) {
    if (at < data.size() && is_inside_character(data[at])) refuse("has an offset inside a character");
  }
}

void check_header(ByteView header) {
  const int number = byte_at(header, 0), precision = byte_at(header, 2), scale = byte_at(header, 3);
  const bool is_decimal = number == static_cast<int>(Kind::decimal);
  const bool is_scaled = is_decimal ? precision >= 1 && precision <= wire::max_precision && scale <= precision
                                    : precision == 0 && scale == 0;
  if (number < 1 || number > static_cast<int>(Kind::map) || byte_at(header, 1) > 1 || !is_scaled) {
    refuse("is of an unknown kind");
  }
}

}  // namespace

struct Column::Inner {
  std::vector<Column> children;
  std::vector<std::string> names;
};

// Bodies one after the other, each part checked to be there and to be filled with zeros.
class Column::Reader {
 public:
  Reader(std::shared_ptr<const Body> body, bool is_trusted) : body_(std::move(body)), is_trusted_(is_trusted) {}

  Column whole() {
    Column column = next(1, std::nullopt);
    if (at_ != body_->size()) refuse("is longer than its rows");
    return column;
  }

 private:
  // The body that begins here, of so many rows.
  Column next(std::size_t depth, std::optional<std::uint32_t> rows) {
    const std::size_t start = at_;
    check_header(take(column_header_bytes));
    if (depth > wire::limits::max_column_depth || (depth > 1 && ++inner_ > wire::limits::max_inner_columns)) {
      refuse("is nested too deep, or has too many others in it");
    }
    Column column(body_, start);
    if (rows && *rows != column.rows_) refuse("lies in another one with other rows than that says");
    if (column.has_validity_) take_bits(column.rows_);
    take_parts(column, depth);
    column.size_ = at_ - start;
    return column;
  }

  void take_parts(Column& column, std::size_t depth) {
    if (column.kind_ == Kind::structure) {
      column.inner_ = fields(column.rows_, depth + 1);
    } else if (has_offsets(column.kind_)) {
      const auto offsets = take_offsets(column.rows_);
      if (has_text(column.kind_)) {
        const ByteView data = take(offsets.back());
        if (column.kind_ == Kind::utf8 && !is_trusted_) check_text(offsets, data);
      } else {
        column.inner_ = items(column.kind_, offsets.back(), depth + 1);
      }
    } else if (column.kind_ == Kind::boolean) {
      take_bits(column.rows_);
    } else {
      take(data_bytes(column.kind_, column.rows_));
    }
  }

  std::shared_ptr<const Inner> items(Kind kind, std::uint32_t rows, std::size_t depth) {
    Inner inner;
    inner.children.push_back(next(depth, rows));
    if (kind == Kind::map) {
      if (inner.children.front().has_validity_) refuse("has maps whose keys may be null");
      inner.children.push_back(next(depth, rows));
    }
    return std::make_shared<const Inner>(std::move(inner));
  }

  std::shared_ptr<const Inner> fields(std::uint32_t rows, std::size_t depth) {
    const Column named = next(depth, std::nullopt);
    const bool are_names = named.kind_ == Kind::utf8 && !named.has_validity_;
    if (!are_names || named.rows_ == 0 || named.rows_ > wire::limits::max_inner_columns) {
      refuse("has structs without names of fields, or with too many");
    }
    Inner inner;
    for (std::size_t field = 0; field < named.rows_; ++field) inner.names.emplace_back(named.text(field));
    if (std::set<std::string_view>(inner.names.begin(), inner.names.end()).size() < inner.names.size()) {
      refuse("has structs with a field twice");
    }
    for (std::size_t field = 0; field < named.rows_; ++field) inner.children.push_back(next(depth, rows));
    return std::make_shared<const Inner>(std::move(inner));
  }

  std::span<const std::uint32_t> take_offsets(std::uint32_t rows) {
    const ByteView bytes = take((std::uint64_t{rows} + 1) * sizeof(std::uint32_t));
    const std::span offsets(reinterpret_cast<const std::uint32_t*>(bytes.data()), std::size_t{rows} + 1);
    if (offsets.front() != 0 || !std::ranges::is_sorted(offsets)) refuse("has offsets out of order");
    return offsets;
  }

  void take_bits(std::uint32_t rows) {
    const ByteView bits = take(wire::bit_bytes(rows));
    if (rows % 8 != 0 && (std::to_integer<unsigned>(bits.back()) >> rows % 8) != 0) {
      refuse("has bits behind its last row");
    }
  }

  ByteView take(std::uint64_t size) {
    const ByteView rest = ByteView(*body_).subspan(at_);
    if (size > rest.size() || filled(size) > rest.size()) refuse("is shorter than its rows");
    const ByteView filling = rest.subspan(size, filled(size) - size);
    if (std::ranges::any_of(filling, [](std::byte byte) { return byte != std::byte{0}; })) {
      refuse("has bytes between its parts");
    }
    at_ += filled(size);
    return rest.first(size);
  }

  std::shared_ptr<const Body> body_;
  std::size_t at_ = 0;
  std::size_t inner_ = 0;
  bool is_trusted_;
};

Column::Column(std::shared_ptr<const Body> body, std::size_t at)
    : body_(std::move(body)),
      at_(at),
      kind_(static_cast<Kind>(byte_at(*body_, at))),
      precision_(byte_at(*body_, at + 2)),
      scale_(byte_at(*body_, at + 3)),
      has_validity_(byte_at(*body_, at + 1) != 0),
      rows_(0) {
  std::memcpy(&rows_, body_->data() + at + 4, sizeof rows_);
}

Column Column::parse(ByteView body) {
  return Reader(std::make_shared<const Body>(body.begin(), body.end()), false).whole();
}

Column Column::made(Body body) { return Reader(std::make_shared<const Body>(std::move(body)), true).whole(); }

std::string_view Column::kind_name() const noexcept { return kind_names[static_cast<std::size_t>(kind_)]; }

std::string Column::type_name() const {
  std::string name(kind_name());
  if (kind_ == Kind::decimal) return name + "(" + std::to_string(precision_) + ", " + std::to_string(scale_) + ")";
  for (std::size_t child = 0; child < children().size(); ++child) {
    name += child == 0 ? "<" : ", ";
    if (kind_ == Kind::structure) name += names()[child] + ": ";
    name += children()[child].type_name();
  }
  return children().empty() ? name : name + ">";
}

std::span<const Column> Column::children() const noexcept {
  return inner_ == nullptr ? std::span<const Column>() : inner_->children;
}

std::span<const std::string> Column::names() const noexcept {
  return inner_ == nullptr ? std::span<const std::string>() : inner_->names;
}

const Column& Column::field(std::string_view name) const {
  expect(Kind::structure, "struct");
  const auto found = std::ranges::find(names(), name);
  if (found == names().end()) throw std::out_of_range("a struct has no field '" + std::string(name) + "'");
  return children()[static_cast<std::size_t>(found - names().begin())];
}

Column::Range Column::range(std::size_t row) const {
  if (kind_ != Kind::map) expect(Kind::list, "list or map");
  return {offsets()[row], offsets()[row + 1]};
}

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
  const bool is_time = kind_ == Kind::timestamp || (kind_ >= Kind::time && kind_ <= Kind::duration);
  if (!is_time) expect(Kind::int64, "int64 or a time");
  return {reinterpret_cast<const std::int64_t*>(data()), rows_};
}

std::span<const std::int32_t> Column::int32() const {
  if (kind_ != Kind::months) expect(Kind::date, "date or months");
  return {reinterpret_cast<const std::int32_t*>(data()), rows_};
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

const std::byte* Column::validity() const noexcept { return body_->data() + at_ + column_header_bytes; }

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
  throw WrongKindError("a column is of " + std::string(kind_name()) + ", not " + std::string(wanted), body().data());
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

  void append_body(const Column& column) { body_.insert(body_.end(), column.body().begin(), column.body().end()); }

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

// Where the items of each row end, from 0 on.
std::vector<std::uint32_t> ends(const std::vector<std::optional<std::size_t>>& lengths, std::size_t items) {
  std::vector<std::uint32_t> offsets{0};
  std::size_t end = 0;
  for (const auto& length : lengths) {
    end += std::min(length.value_or(0), items + 1);
    offsets.push_back(static_cast<std::uint32_t>(std::min<std::size_t>(end, UINT32_MAX)));
  }
  if (end == items) return offsets;
  throw ConfigurationError("the lengths of the rows are not those of the items");
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

Column Column::of(std::span<const std::int64_t> rows) { return made(plain(Kind::int64, rows)); }
Column Column::of(std::span<const double> rows) { return made(plain(Kind::float64, rows)); }

Column Column::of(const std::vector<std::optional<std::int64_t>>& rows) { return made(numbers(Kind::int64, rows)); }
Column Column::of(const std::vector<std::optional<double>>& rows) { return made(numbers(Kind::float64, rows)); }

Column Column::of(const std::vector<std::optional<bool>>& rows) {
  Writer writer = begin(Kind::boolean, rows);
  writer.append_bits(rows.size(), [&](std::size_t row) { return rows[row].value_or(false); });
  return made(writer.take());
}

Column Column::of(const std::vector<std::optional<std::string>>& rows) {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (!rows[row] || wire::is_utf8(*rows[row])) continue;
    throw UnserialisableError("row " + std::to_string(row) + " is text that is not UTF-8: use binary");
  }
  return made(strings(Kind::utf8, rows));
}

Column Column::binary(const std::vector<std::optional<std::string>>& rows) { return made(strings(Kind::binary, rows)); }

Column Column::timestamps(const std::vector<std::optional<std::int64_t>>& microseconds) {
  return made(numbers(Kind::timestamp, microseconds));
}

Column Column::times(Kind kind, const std::vector<std::optional<std::int64_t>>& rows) {
  const bool is_time = kind == Kind::timestamp || (kind >= Kind::date && kind <= Kind::months);
  if (!is_time)
    throw ConfigurationError("a column of times is no " + std::string(kind_names[static_cast<std::size_t>(kind)]));
  if (!is_of_32_bits(kind)) return made(numbers(kind, rows));
  std::vector<std::optional<std::int32_t>> narrow;
  for (const auto& row : rows) {
    if (row && !std::in_range<std::int32_t>(*row)) {
      throw UnserialisableError("row " + std::to_string(narrow.size()) + " does not fit into a column of " +
                                std::string(kind_names[static_cast<std::size_t>(kind)]));
    }
    narrow.push_back(row ? std::optional(static_cast<std::int32_t>(*row)) : std::nullopt);
  }
  return made(numbers(kind, narrow));
}

Column Column::lists(const std::vector<std::optional<std::size_t>>& lengths, const Column& items) {
  Writer writer = begin(Kind::list, lengths);
  writer.append(std::span<const std::uint32_t>(ends(lengths, items.rows_)));
  writer.append_body(items);
  return nested(writer.take());
}

Column Column::maps(const std::vector<std::optional<std::size_t>>& lengths, const Column& keys, const Column& values) {
  if (keys.has_validity_ || keys.rows_ != values.rows_) {
    throw ConfigurationError("a column of maps has as many values as keys, and no key is null");
  }
  Writer writer = begin(Kind::map, lengths);
  writer.append(std::span<const std::uint32_t>(ends(lengths, keys.rows_)));
  writer.append_body(keys);
  writer.append_body(values);
  return nested(writer.take());
}

Column Column::structs(const std::vector<std::pair<std::string, Column>>& fields, const std::vector<bool>& present) {
  std::vector<std::optional<std::string>> names;
  for (const auto& [name, field] : fields) {
    if (field.rows_ != fields.front().second.rows_) throw ConfigurationError("fields of structs have different rows");
    if (std::ranges::find(names, std::optional(name)) != names.end()) {
      throw ConfigurationError("structs have the field '" + name + "' twice");
    }
    names.emplace_back(name);
  }
  if (fields.empty()) throw ConfigurationError("structs have at least one field");
  const std::size_t rows = fields.front().second.rows_;
  if (!present.empty() && present.size() != rows) throw ConfigurationError("fields of structs have other rows than it");
  const bool has_nulls = std::ranges::find(present, false) != present.end();
  Writer writer(Kind::structure, rows, has_nulls);
  if (has_nulls) writer.append_bits(rows, [&](std::size_t row) { return static_cast<bool>(present[row]); });
  writer.append_body(of(names));
  for (const auto& [name, field] : fields) writer.append_body(field);
  return nested(writer.take());
}

// Columns in it may be too deep, or too many.
Column Column::nested(Body body) {
  try {
    return made(std::move(body));
  } catch (const WireError& error) {
    throw UnserialisableError(error.what());
  }
}

Column Column::decimals(const std::vector<std::optional<std::string>>& rows, int precision, int scale) {
  check_scale(precision, scale);
  Writer writer = begin(Kind::decimal, rows);
  writer.scale_by(precision, scale);
  std::vector<wire::Int128> numbers(rows.size());
  for (std::size_t row = 0; row < rows.size(); ++row) numbers[row] = unscaled(rows, row, precision, scale);
  writer.append(std::span<const wire::Int128>(numbers));
  return made(writer.take());
}

}  // namespace speed
