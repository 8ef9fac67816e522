// Batches: columns among the arguments of a call (C-6, C-7).
#include <algorithm>
#include <map>
#include <stdexcept>

#include "core/fault.hpp"
#include "speed/service.hpp"
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
  int behind = 0;
  for (const auto& row : rows) behind = std::max(behind, row ? wire::digits_behind(*row) : 0);
  const bool is_usual = std::ranges::all_of(rows, [](const auto& row) { return fits(row, usual_scale); });
  return is_usual ? usual_scale : std::min(behind, wire::max_precision);
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

bool is_there(const Value& result) { return !result.is_nil(); }

// That of the first value; nulls alone are float64.
Kind kind_of(const std::vector<Value>& results) {
  const auto first = std::ranges::find_if(results, is_there);
  if (first == results.end() || first->get_if<double>() != nullptr) return Kind::float64;
  if (first->get_if<bool>() != nullptr) return Kind::boolean;
  if (first->get_if<std::int64_t>() != nullptr || first->get_if<std::uint64_t>() != nullptr) return Kind::int64;
  if (first->get_if<std::string>() != nullptr) return Kind::utf8;
  if (first->get_if<Bytes>() != nullptr) return Kind::binary;
  if (first->get_if<Instant>() != nullptr) return Kind::timestamp;
  misfit(static_cast<std::size_t>(first - results.begin()),
         ": a value is " + std::string(first->kind()) + ", of which there is no column");
}

Column column_of(const std::vector<Value>& results, std::optional<Kind> kind) {
  switch (kind ? *kind : kind_of(results)) {
    case Kind::int64: return Column::of(rows_of<std::int64_t>(results));
    case Kind::float64: return Column::of(rows_of<double>(results));
    case Kind::boolean: return Column::of(rows_of<bool>(results));
    case Kind::utf8: return text_column(results);
    case Kind::binary: return bytes_column(results);
    case Kind::timestamp: return instants_column(results);
    case Kind::decimal: return decimals_column(results);
  }
  throw ConfigurationError("there is no such kind of column");
}

// A column for each key that any row has; null where a row has it not.
Map columns_of(const std::vector<Value>& results) {
  const auto rows = rows_of<Map>(results);
  std::map<std::string, std::vector<Value>> cells;
  std::vector<std::string> order;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (const Member& member : rows[row].value_or(Map())) {
      const auto* const name = member.key.get_if<std::string>();
      if (name == nullptr) misfit(row, " has a key that is no text");
      const auto [column, is_new] = cells.try_emplace(*name, rows.size());
      if (is_new) order.push_back(*name);
      column->second[row] = member.value;
    }
  }
  Map columns;
  for (const std::string& name : order) {
    try {
      columns.set(name, column_of(cells[name], std::nullopt));
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
      for (const auto& [name, column] : batch) one.arguments.set(name, cell(column, row));
      results.push_back(answer(service, one, row));
    }
    return answer_of(results, kind);
  };
}

}  // namespace speed
