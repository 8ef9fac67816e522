// Batches: columns among the arguments of a call (C-6, C-7).
#include "speed/service.hpp"

namespace speed {

namespace {

using Kind = Column::Kind;

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
    case Kind::decimal: break;
  }
  throw InvalidArgumentsError("a decimal is no value of one row: take the column whole");
}

template <class T>
Column rows_of(const std::vector<Value>& results) {
  std::vector<std::optional<T>> rows;
  rows.reserve(results.size());
  for (const Value& result : results) rows.push_back(result.is_nil() ? std::nullopt : std::optional<T>(result.as<T>()));
  return Column::of(rows);
}

// The kind is that of the first value; nulls alone are float64.
Column column_of(const std::vector<Value>& results) {
  const auto first = std::ranges::find_if(results, [](const Value& result) { return !result.is_nil(); });
  if (first == results.end() || first->get_if<double>() != nullptr) return rows_of<double>(results);
  if (first->get_if<bool>() != nullptr) return rows_of<bool>(results);
  if (first->get_if<std::int64_t>() != nullptr) return rows_of<std::int64_t>(results);
  if (first->get_if<std::string>() != nullptr) return rows_of<std::string>(results);
  throw ExecutionFailedError("rows of " + std::string(first->kind()) + " make no column");
}

Map with_row(Map details, std::size_t row) {
  details.set("row", static_cast<std::uint64_t>(row));
  return details;
}

// The answer to one row; what it throws or answers as an error names the row.
Value answer(const ServiceFunction& service, const Request& request, std::size_t row) {
  const std::string at = "row " + std::to_string(row) + ": ";
  try {
    Response response = service(request);
    if (response.ok()) return std::move(response.result);
    if (response.error_code == "INVALID_ARGUMENTS") throw InvalidArgumentsError(response.error_message, response.details);
    throw ExecutionFailedError(response.error_message, response.details);
  } catch (const InvalidArgumentsError& error) {
    throw InvalidArgumentsError(at + error.what(), with_row(error.details(), row));
  } catch (const CallError& error) {
    throw ExecutionFailedError(at + error.what(), with_row(error.details(), row));
  } catch (const std::exception& error) {
    throw ExecutionFailedError(at + error.what(), with_row({}, row));
  }
}

}  // namespace

Columns Request::columns() const {
  Columns batch;
  for (const Member& argument : arguments) {
    const auto* const column = argument.value.get_if<Column>();
    if (column == nullptr) continue;
    if (!batch.empty() && batch.front().second.rows() != column->rows()) {
      throw InvalidArgumentsError(service + ": columns of different lengths: " + std::to_string(column->rows()) + " and " +
                                  std::to_string(batch.front().second.rows()) + " rows");
    }
    batch.emplace_back(argument.key.as<std::string>(), *column);
  }
  return batch;
}

ServiceFunction by_row(ServiceFunction row_service) {
  return [service = std::move(row_service)](const Request& request) -> Response {
    const Columns batch = request.columns();
    if (batch.empty()) return service(request);
    std::vector<Value> results;
    Request one = request;
    for (std::size_t row = 0; row < batch.front().second.rows(); ++row) {
      for (const auto& [name, column] : batch) one.arguments.set(name, cell(column, row));
      results.push_back(answer(service, one, row));
    }
    return Response(column_of(results));
  };
}

}  // namespace speed
