// Batches: columns among the arguments of a call (C-6, C-7).
#include <algorithm>
#include <map>
#include <stdexcept>

#include "core/fault.hpp"
#include "speed/service.hpp"
#include "wire/limits.hpp"
#include "wire/value/decimal.hpp"
#include "wire/value/spc.hpp"
#include "wire/value/value_codec.hpp"

namespace speed {

namespace {

using Kind = Column::Kind;

constexpr int usual_scale = 18;

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

constexpr std::int64_t first_day = -719'162;  // 0001-01-01
constexpr std::int64_t last_day = 2'932'896;  // 9999-12-31

std::chrono::year_month_day date_of(std::chrono::days day) {
  if (day.count() < first_day || day.count() > last_day) {
    throw UnserialisableError("a date is none of the years 1 to 9999");
  }
  return std::chrono::sys_days(day);
}

Value moment_of(std::chrono::microseconds moment) {
  const auto day = std::chrono::floor<std::chrono::days>(moment);
  date_of(day);
  return std::chrono::local_time<std::chrono::microseconds>(moment);
}

Value cell(const Column& column, std::size_t row);

Array list_of(const Column& items, Column::Range range) {
  Array list;
  for (std::size_t item = range.begin; item < range.end; ++item) list.push_back(cell(items, item));
  return list;
}

Map fields_of(const Column& column, std::size_t row) {
  Map fields;
  for (std::size_t field = 0; field < column.names().size(); ++field) {
    fields.set(column.names()[field], cell(column.children()[field], row));
  }
  return fields;
}

Map entries_of(const Column& column, Column::Range range) {
  std::vector<Member> entries;
  for (std::size_t entry = range.begin; entry < range.end; ++entry) {
    Value key = cell(column.children()[0], entry);
    const bool is_key = key.get_if<std::string>() != nullptr || key.get_if<std::int64_t>() != nullptr;
    if (!is_key) throw UnserialisableError("a map has keys that are neither text nor integers");
    entries.push_back({std::move(key), cell(column.children()[1], entry)});
  }
  Map map = Map::from_pairs(std::move(entries));
  if (map.size() < range.end - range.begin) throw UnserialisableError("a map has a key twice");
  return map;
}

// UnserialisableError for what no value says.
Value cell(const Column& column, std::size_t row) {
  if (column.is_null(row)) return {};
  switch (column.kind()) {
    case Kind::int64: return column.int64()[row];
    case Kind::float64: return column.float64()[row];
    case Kind::boolean: return column.boolean(row);
    case Kind::utf8: return column.text(row);
    case Kind::binary: return bytes_of(column.text(row));
    case Kind::timestamp: return Instant(std::chrono::microseconds(column.int64()[row]));
    case Kind::decimal: return column.decimal_text(row);
    case Kind::date: return date_of(std::chrono::days(column.int32()[row]));
    case Kind::time: return std::chrono::hh_mm_ss(std::chrono::microseconds(column.int64()[row]));
    case Kind::local_timestamp: return moment_of(std::chrono::microseconds(column.int64()[row]));
    case Kind::duration: return column.int64()[row];
    case Kind::months: return column.int32()[row];
    case Kind::list: return list_of(column.children().front(), column.range(row));
    case Kind::structure: return fields_of(column, row);
    case Kind::map: return entries_of(column, column.range(row));
  }
  return {};
}

Map with_row(Map details, std::size_t row) {
  details.set("row", static_cast<std::uint64_t>(row));
  return details;
}

std::string at(std::size_t row) { return "row " + std::to_string(row) + ": "; }

// A result that does not fit into its column.
struct Misfit : std::runtime_error {
  Misfit(std::size_t which, const std::string& why) : std::runtime_error(why), row(which) {}
  std::size_t row;
};

[[noreturn]] void misfit(std::size_t row, const std::string& why) { throw Misfit(row, why); }

[[noreturn]] void fail(const Misfit& one, const std::string& name = {}) {
  throw ExecutionFailedError(at(one.row) + "the result" + name + one.what(), with_row({}, one.row));
}

// Each result as a T, or as nothing; one of another kind is the failure of its row.
template <class T>
std::vector<std::optional<T>> rows_of(const std::vector<Value>& results) {
  std::vector<std::optional<T>> rows;
  rows.reserve(results.size());
  for (const Value& result : results) {
    try {
      rows.push_back(result.as<std::optional<T>>());
    } catch (const ConversionError& error) {
      misfit(rows.size(), std::string(": ") + error.what());
    }
  }
  return rows;
}

std::optional<std::string> raw(const std::optional<Bytes>& bytes) {
  if (!bytes) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

Column bytes_column(const std::vector<Value>& results) {
  std::vector<std::optional<std::string>> rows;
  for (const auto& bytes : rows_of<Bytes>(results)) rows.push_back(raw(bytes));
  return Column::binary(rows);
}

Column text_column(const std::vector<Value>& results) {
  const auto rows = rows_of<std::string>(results);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row] && !wire::is_utf8(*rows[row])) misfit(row, " is text that is not UTF-8");
  }
  return Column::of(rows);
}

// An integer is a decimal as well.
std::optional<std::string> decimal_in(const Value& result) {
  if (result.get_if<std::string>() != nullptr || result.is_nil()) return result.as<std::optional<std::string>>();
  if (result.get_if<std::uint64_t>() != nullptr) return std::to_string(result.as<std::uint64_t>());
  return std::to_string(result.as<std::int64_t>());
}

bool fits(const std::optional<std::string>& row, int scale) {
  return !row || wire::unscaled(*row, wire::max_precision, scale);
}

// The usual scale, unless a row does not fit into it: then as many digits as any row has behind its point.
int scale_of(const std::vector<std::optional<std::string>>& rows) {
  int digits = 0;
  for (const auto& row : rows) digits = std::max(digits, row ? wire::fraction_digits(*row) : 0);
  const bool is_usual = std::ranges::all_of(rows, [](const auto& row) { return fits(row, usual_scale); });
  return is_usual ? usual_scale : std::min(digits, wire::max_precision);
}

Column decimals_column(const std::vector<Value>& results) {
  std::vector<std::optional<std::string>> rows;
  for (const Value& result : results) {
    try {
      rows.push_back(decimal_in(result));
    } catch (const ConversionError& error) {
      misfit(rows.size(), std::string(": ") + error.what());
    }
  }
  const int scale = scale_of(rows);
  const auto other = std::ranges::find_if_not(rows, [scale](const auto& row) { return fits(row, scale); });
  if (other != rows.end()) {
    misfit(static_cast<std::size_t>(other - rows.begin()),
           " does not fit into a column of decimal(38, " + std::to_string(scale) + ")");
  }
  return Column::decimals(rows, wire::max_precision, scale);
}

Column instants_column(const std::vector<Value>& results) {
  std::vector<std::optional<std::int64_t>> rows;
  for (const auto& instant : rows_of<Instant>(results)) {
    rows.push_back(instant ? std::optional(instant->time_since_epoch().count()) : std::nullopt);
  }
  return Column::timestamps(rows);
}

// Of a kind whose rows the wire has as text or integers: T is what they are, `number` what the column holds of one.
template <class T>
Column times_column(Kind kind, const std::vector<Value>& results, std::int64_t (*number)(const T&)) {
  std::vector<std::optional<std::int64_t>> rows;
  for (const auto& row : rows_of<T>(results)) rows.push_back(row ? std::optional(number(*row)) : std::nullopt);
  return Column::times(kind, rows);
}

std::int64_t days_of(const std::chrono::year_month_day& date) {
  return std::chrono::sys_days(date).time_since_epoch().count();
}

std::int64_t microseconds_of(const std::chrono::hh_mm_ss<std::chrono::microseconds>& time) {
  return time.to_duration().count();
}

std::int64_t moment_number(const std::chrono::local_time<std::chrono::microseconds>& moment) {
  return moment.time_since_epoch().count();
}

std::int64_t months_of(const std::int32_t& months) { return months; }
std::int64_t span_number(const std::int64_t& microseconds) { return microseconds; }

bool is_there(const Value& result) { return !result.is_nil(); }

bool is_number(const Value& value) {
  return value.get_if<std::int64_t>() != nullptr || value.get_if<std::uint64_t>() != nullptr ||
         value.get_if<double>() != nullptr;
}

bool is_of_one_kind(const Value& one, const Value& other) {
  return one.storage().index() == other.storage().index() || (is_number(one) && is_number(other));
}

// Whether maps are those of a column of maps, and not structs (C-8).
bool is_map(const std::vector<Value>& results) {
  const Value* first = nullptr;
  bool is_uniform = true;
  for (const Value& result : results) {
    const auto* const map = result.get_if<Map>();
    for (std::size_t at = 0; map != nullptr && at < map->size(); ++at) {
      const auto& [key, value] = *(map->begin() + at);
      if (key.get_if<std::string>() == nullptr) return true;
      if (value.is_nil()) continue;
      if (first == nullptr) first = &value;
      const bool holds_others = value.get_if<Array>() != nullptr || value.get_if<Map>() != nullptr;
      is_uniform = is_uniform && !holds_others && is_of_one_kind(*first, value);
    }
  }
  return is_uniform;
}

// That of the first value; nulls alone are float64.
Kind kind_of(const std::vector<Value>& results) {
  const auto first = std::ranges::find_if(results, is_there);
  if (first == results.end() || first->get_if<double>() != nullptr) return Kind::float64;
  if (first->get_if<bool>() != nullptr) return Kind::boolean;
  if (first->get_if<std::int64_t>() != nullptr || first->get_if<std::uint64_t>() != nullptr) return Kind::int64;
  if (first->get_if<std::string>() != nullptr) return Kind::utf8;
  if (first->get_if<Bytes>() != nullptr) return Kind::binary;
  if (first->get_if<Instant>() != nullptr) return Kind::timestamp;
  if (first->get_if<Array>() != nullptr) return Kind::list;
  if (first->get_if<Map>() != nullptr) return is_map(results) ? Kind::map : Kind::structure;
  misfit(static_cast<std::size_t>(first - results.begin()),
         ": a value is " + std::string(first->kind()) + ", of which there is no column");
}

// The values of each key that any row has, in the order in which they are met; nil where a row has it not.
std::vector<std::pair<std::string, std::vector<Value>>> cells_of(const std::vector<Value>& results) {
  const auto rows = rows_of<Map>(results);
  std::map<std::string, std::size_t> places;
  std::vector<std::pair<std::string, std::vector<Value>>> cells;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (const Member& member : rows[row].value_or(Map())) {
      const auto* const name = member.key.get_if<std::string>();
      if (name == nullptr) misfit(row, " has a key that is no text");
      const auto [place, is_new] = places.try_emplace(*name, cells.size());
      if (is_new) cells.emplace_back(*name, std::vector<Value>(rows.size()));
      cells[place->second].second[row] = member.value;
    }
  }
  return cells;
}

Column column_of(const std::vector<Value>& results, std::optional<Kind> kind, std::size_t depth = 1);

// The lengths of what each row holds; what is neither is the failure of its row.
template <class T>
std::vector<std::optional<std::size_t>> lengths_of(const std::vector<Value>& results) {
  std::vector<std::optional<std::size_t>> lengths;
  for (const Value& result : results) {
    const auto* const held = result.get_if<T>();
    if (held == nullptr && !result.is_nil()) {
      misfit(lengths.size(), ": a value is " + std::string(result.kind()) + " among others");
    }
    lengths.push_back(held == nullptr ? std::nullopt : std::optional(held->size()));
  }
  return lengths;
}

// The column of what rows of such lengths hold; what does not fit in it is the failure of its row.
Column held_column(const std::vector<std::optional<std::size_t>>& lengths, const std::vector<Value>& held,
                   std::optional<Kind> kind, std::size_t depth) {
  try {
    return column_of(held, kind, depth + 1);
  } catch (const Misfit& one) {
    std::size_t row = 0;
    for (std::size_t end = lengths[0].value_or(0); end <= one.row; end += lengths[row].value_or(0)) ++row;
    misfit(row, std::string(" holds one where") + one.what());
  }
}

Column lists_column(const std::vector<Value>& results, std::size_t depth) {
  const auto lengths = lengths_of<Array>(results);
  std::vector<Value> items;
  for (const Value& result : results) {
    if (const auto* const list = result.get_if<Array>()) items.insert(items.end(), list->begin(), list->end());
  }
  return Column::lists(lengths, held_column(lengths, items, std::nullopt, depth));
}

Column maps_column(const std::vector<Value>& results, std::size_t depth) {
  const auto lengths = lengths_of<Map>(results);
  std::vector<Value> keys;
  std::vector<Value> values;
  for (const Value& result : results) {
    const auto* const map = result.get_if<Map>();
    for (std::size_t at = 0; map != nullptr && at < map->size(); ++at) {
      keys.push_back((map->begin() + at)->key);
      values.push_back((map->begin() + at)->value);
    }
  }
  const auto is_float = [](const Value& value) { return value.get_if<double>() != nullptr; };
  const bool are_floats = std::ranges::any_of(values, is_float) && std::ranges::all_of(values, [](const Value& value) {
                            return value.is_nil() || is_number(value);
                          });
  const auto kind = are_floats ? std::optional(Kind::float64) : std::nullopt;
  const Column names = held_column(lengths, keys, std::nullopt, depth);
  return Column::maps(lengths, names, held_column(lengths, values, kind, depth));
}

Column structs_column(const std::vector<Value>& results, std::size_t depth) {
  std::vector<bool> present;
  for (const auto& length : lengths_of<Map>(results)) present.push_back(length.has_value());
  std::vector<std::pair<std::string, Column>> fields;
  for (auto& [name, cells] : cells_of(results)) fields.emplace_back(name, column_of(cells, std::nullopt, depth + 1));
  if (fields.empty()) misfit(0, " is a struct without fields");
  return Column::structs(fields, present);
}

Column column_of(const std::vector<Value>& results, std::optional<Kind> kind, std::size_t depth) {
  if (depth > wire::limits::max_column_depth) misfit(0, " is nested too deep");
  switch (kind ? *kind : kind_of(results)) {
    case Kind::int64: return Column::of(rows_of<std::int64_t>(results));
    case Kind::float64: return Column::of(rows_of<double>(results));
    case Kind::boolean: return Column::of(rows_of<bool>(results));
    case Kind::utf8: return text_column(results);
    case Kind::binary: return bytes_column(results);
    case Kind::timestamp: return instants_column(results);
    case Kind::decimal: return decimals_column(results);
    case Kind::date: return times_column(Kind::date, results, days_of);
    case Kind::time: return times_column(Kind::time, results, microseconds_of);
    case Kind::local_timestamp: return times_column(Kind::local_timestamp, results, moment_number);
    case Kind::duration: return times_column(Kind::duration, results, span_number);
    case Kind::months: return times_column(Kind::months, results, months_of);
    case Kind::list: return lists_column(results, depth);
    case Kind::structure: return structs_column(results, depth);
    case Kind::map: return maps_column(results, depth);
  }
  throw ConfigurationError("there is no such kind of column");
}

// A column for each key that any row has.
Map columns_of(const std::vector<Value>& results) {
  Map columns;
  for (const auto& [name, cells] : cells_of(results)) {
    try {
      columns.set(name, column_of(cells, std::nullopt));
    } catch (const Misfit& one) {
      fail(one, " '" + name + "'");
    }
  }
  return columns;
}

Value answer_of(const std::vector<Value>& results, std::optional<Kind> kind) {
  try {
    const auto first = std::ranges::find_if(results, is_there);
    if (first != results.end() && first->get_if<Map>() != nullptr) return columns_of(results);
    return column_of(results, kind);
  } catch (const Misfit& one) {
    fail(one);
  }
}

[[noreturn]] void fail(std::string_view code, const std::string& text, Map details, std::size_t row) {
  details = with_row(std::move(details), row);
  if (code == "INVALID_ARGUMENTS") throw InvalidArgumentsError(at(row) + text, std::move(details));
  if (wire::is_application_code(code) && !wire::is_call_code(code)) {
    throw ApplicationError(std::string(code), at(row) + text, std::move(details));
  }
  const bool is_known = wire::is_call_code(code);
  throw ExecutionFailedError(at(row) + (is_known ? text : wire::refused_code(code)), std::move(details));
}

// The answer to one row; what it throws or answers as an error names the row.
Value answer(const ServiceFunction& service, const Request& request, std::size_t row) {
  Response response;
  try {
    response = service(request);
  } catch (const CallWithdrawnError&) {
    if (request.cancelled()) throw;  // no row is to blame
    fail("EXECUTION_FAILED", "a call that it made was withdrawn", {}, row);
  } catch (const std::exception& error) {
    const core::Fault fault = core::fault_of(error);
    fail(fault.code, error.what(), fault.details, row);
  } catch (...) {
    fail("EXECUTION_FAILED", "the service threw what is no std::exception", {}, row);
  }
  if (!response.ok()) fail(response.error_code, response.error_message, response.details, row);
  return std::move(response.result);
}

// The value of one row; what no value says is refused.
Value argument(const std::string& name, const Column& column, std::size_t row) {
  try {
    return cell(column, row);
  } catch (const UnserialisableError& error) {
    throw InvalidArgumentsError(at(row) + "argument '" + name + "': " + error.what(),
                                with_row({{"argument", name}}, row));
  }
}

}  // namespace

Columns Request::columns() const {
  Columns batch;
  for (const Member& argument : arguments) {
    const auto* const column = argument.value.get_if<Column>();
    if (column == nullptr) continue;
    if (!batch.empty() && batch.front().second.rows() != column->rows()) {
      throw InvalidArgumentsError(service + ": columns of different lengths: " + std::to_string(column->rows()) +
                                  " and " + std::to_string(batch.front().second.rows()) + " rows");
    }
    batch.emplace_back(argument.key.as<std::string>(), *column);
  }
  return batch;
}

ServiceFunction by_row(ServiceFunction row_service, std::optional<Column::Kind> kind) {
  return [service = std::move(row_service), kind](const Request& request) -> Response {
    const Columns batch = request.columns();
    if (batch.empty()) return service(request);
    std::vector<Value> results;
    Request one = request;
    for (std::size_t row = 0; row < batch.front().second.rows(); ++row) {
      for (const auto& [name, column] : batch) one.arguments.set(name, argument(name, column, row));
      results.push_back(answer(service, one, row));
    }
    return answer_of(results, kind);
  };
}

}  // namespace speed
