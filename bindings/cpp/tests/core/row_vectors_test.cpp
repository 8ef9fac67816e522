// Services of rows answer as published (C-7, C-8).
#include <gtest/gtest.h>

#include "speed/error.hpp"
#include "speed/service.hpp"
#include "vectors.hpp"

namespace speed {
namespace {

using Kind = Column::Kind;
using test::cases;
using test::Json;
using test::value_of;
using test::what;

template <class T>
std::vector<std::optional<T>> rows_of(const Json& rows) {
  std::vector<std::optional<T>> values;
  for (const Json& row : rows) values.push_back(value_of(row).as<std::optional<T>>());
  return values;
}

Column decimals(const Json& item) {
  std::vector<std::optional<std::string>> rows;
  for (const Json& row : item["rows"]) {
    rows.push_back(row.is_null() ? std::nullopt : std::optional(row["decimal"].get<std::string>()));
  }
  return Column::decimals(rows, item["precision"].get<int>(), item["scale"].get<int>());
}

Column binary(const Json& rows) {
  std::vector<std::optional<std::string>> texts;
  for (const auto& row : rows_of<Bytes>(rows)) {
    if (row) {
      texts.emplace_back(std::string(reinterpret_cast<const char*>(row->data()), row->size()));
    } else {
      texts.emplace_back();
    }
  }
  return Column::binary(texts);
}

Column timestamps(const Json& rows) {
  std::vector<std::optional<std::int64_t>> microseconds;
  for (const auto& row : rows_of<Instant>(rows)) {
    microseconds.push_back(row ? std::optional(row->time_since_epoch().count()) : std::nullopt);
  }
  return Column::timestamps(microseconds);
}

Kind kind_of(const std::string& name) {
  const std::map<std::string, Kind> kinds{{"float64", Kind::float64},
                                          {"decimal", Kind::decimal},
                                          {"date", Kind::date},
                                          {"time", Kind::time},
                                          {"local_timestamp", Kind::local_timestamp},
                                          {"duration", Kind::duration},
                                          {"months", Kind::months},
                                          {"list", Kind::list},
                                          {"struct", Kind::structure},
                                          {"map", Kind::map}};
  return kinds.at(name);
}

// The column that rows of these values make.
Column made_by_rows(const Json& item) {
  std::vector<std::int64_t> numbers;
  for (std::size_t row = 0; row < item["rows"].size(); ++row) numbers.push_back(static_cast<std::int64_t>(row));
  Request request;
  request.arguments.set("row", Column::of(numbers));
  const auto row = [&](const Request& one) -> Response {
    return Value(Map{{"made", value_of(item["rows"][one.get<std::size_t>("row")])}});
  };
  const auto alone = [&](const Request& one) -> Response {
    return value_of(item["rows"][one.get<std::size_t>("row")]);
  };
  const Kind kind = kind_of(item["kind"].get<std::string>());
  const bool is_map = kind == Kind::structure || kind == Kind::map;
  return is_map ? by_row(row)(request).result.as<Map>()["made"].as<Column>()
                : by_row(alone, kind)(request).result.as<Column>();
}

// Whether a column has the kind and the rows that are published.
void expect_published(const Column& column, const Json& published, const Json& item) {
  EXPECT_EQ(column.kind_name(), published["kind"].get<std::string>()) << what(item);
  EXPECT_EQ(column.precision(), published["precision"].get<int>()) << what(item);
  EXPECT_EQ(column.scale(), published["scale"].get<int>()) << what(item);
  if (column.kind() == Kind::decimal) {
    EXPECT_EQ(column, decimals(published)) << what(item);
  } else {
    EXPECT_EQ(test::noted_items(column, {0, column.rows()}), published["rows"]) << what(item);
  }
}

Column column_of(const Json& item) {
  const auto kind = item["kind"].get<std::string>();
  const Json& rows = item["rows"];
  if (kind == "int64") return Column::of(rows_of<std::int64_t>(rows));
  if (kind == "float64") return Column::of(rows_of<double>(rows));
  if (kind == "bool") return Column::of(rows_of<bool>(rows));
  if (kind == "utf8") return Column::of(rows_of<std::string>(rows));
  if (kind == "binary") return binary(rows);
  if (kind == "timestamp") return timestamps(rows);
  return kind == "decimal" ? decimals(item) : made_by_rows(item);
}

// What the service does for one row.
Response answer_of(const Request& request, const Json& does) {
  if (!does.is_object()) return value_of(does);
  const std::string act = does.begin().key();
  const Json& content = does.begin().value();
  if (act == "echo") return request.get<Value>(content.get<std::string>());
  if (act == "take") return request.get<std::int64_t>(content.get<std::string>());
  if (act == "raises") throw std::domain_error(content.get<std::string>());
  if (act == "says") return Response::error(content[0].get<std::string>(), content[1].get<std::string>());
  return value_of(does);
}

Response answered(const Json& item) {
  const Json& answers = item["answers"];
  const auto kind =
      item["declares"].is_null() ? std::nullopt : std::optional(kind_of(item["declares"].get<std::string>()));
  const ServiceFunction service = by_row(
      [&](const Request& request) { return answer_of(request, answers[request.get<std::size_t>("row")]); }, kind);
  Request request;
  request.service = "rows";
  std::vector<std::int64_t> numbers;
  for (std::size_t row = 0; row < answers.size(); ++row) numbers.push_back(static_cast<std::int64_t>(row));
  for (const auto& [name, column] : item["arguments"].items()) request.arguments.set(name, column_of(column));
  request.arguments.set("row", Column::of(numbers));
  return service(request);
}

TEST(Rows, answers_become_columns_as_published_c_8) {
  for (const Json& item : cases("rows", "valid")) {
    const Json& expected = item["result"];
    const Response answer = answered(item);
    if (!expected.contains("columns")) {
      expect_published(answer.result.as<Column>(), expected, item);
      continue;
    }
    const auto& columns = answer.result.as<Map>();
    ASSERT_EQ(columns.size(), expected["columns"].size()) << what(item);
    for (std::size_t at = 0; at < columns.size(); ++at) {
      const auto& [name, column] = *(columns.begin() + at);
      EXPECT_EQ(name.as<std::string>(), expected["columns"][at][0].get<std::string>()) << what(item);
      expect_published(column.as<Column>(), expected["columns"][at][1], item);
    }
  }
}

TEST(Rows, the_first_bad_row_ends_a_batch_as_published_c_8) {
  for (const Json& item : cases("rows", "invalid")) {
    const Json& expected = item["error"];
    try {
      answered(item);
      ADD_FAILURE() << what(item);
    } catch (const CallError& error) {
      const std::string text = error.what();
      EXPECT_EQ(error.code(), expected["code"].get<std::string>()) << what(item);
      EXPECT_EQ(error.details().at("row"), Value(expected["row"].get<std::int64_t>())) << what(item);
      EXPECT_TRUE(text.starts_with(expected["begins"].get<std::string>())) << what(item) << ": " << text;
      EXPECT_NE(text.find(expected["names"].get<std::string>()), std::string::npos) << what(item) << ": " << text;
    }
  }
}

}  // namespace
}  // namespace speed
