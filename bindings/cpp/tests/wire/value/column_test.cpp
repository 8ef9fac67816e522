// Columns (C-1 to C-7).
#include <gtest/gtest.h>

#include "speed/error.hpp"
#include "speed/service.hpp"
#include "vectors.hpp"
#include "wire/value/value_codec.hpp"

namespace speed {
namespace {

using test::bytes_of;
using test::cases;
using test::Json;
using test::what;

Column column_of(const Json& item) { return wire::unpack(bytes_of(item["hex"])).as<Column>(); }

// The row as a vector writes it.
Json tagged(const Column& column, std::size_t row) {
  if (column.is_null(row)) return nullptr;
  switch (column.kind()) {
    case Column::Kind::int64: return {{"int", std::to_string(column.int64()[row])}};
    case Column::Kind::float64: {
      std::array<std::byte, 8> bytes{};
      wire::store(bytes.data(), std::bit_cast<std::uint64_t>(column.float64()[row]));
      return {{"float", wire::to_hex(bytes)}};
    }
    case Column::Kind::boolean: return column.boolean(row);
    case Column::Kind::utf8: return column.text(row);
    case Column::Kind::binary: return {{"bytes", wire::to_hex(wire::view(column.text(row)))}};
    default: return "?";
  }
}

bool is_plain(Column::Kind kind) { return kind != Column::Kind::timestamp && kind != Column::Kind::decimal; }

TEST(Columns, are_read_as_published_c_2) {
  for (const char* list : {"valid", "also_read"}) {
    for (const Json& item : cases("columns", list)) {
      const Column column = column_of(item);
      EXPECT_EQ(column.kind_name(), item["kind"].get<std::string>()) << what(item);
      EXPECT_EQ(column.precision(), item["precision"].get<int>()) << what(item);
      EXPECT_EQ(column.scale(), item["scale"].get<int>()) << what(item);
      ASSERT_EQ(column.rows(), item["rows"].size()) << what(item);
      for (std::size_t row = 0; row < column.rows(); ++row) {
        EXPECT_EQ(column.is_null(row), item["rows"][row].is_null()) << what(item);
        if (!is_plain(column.kind())) continue;
        EXPECT_EQ(tagged(column, row), item["rows"][row]) << what(item);
      }
      EXPECT_EQ(wire::to_hex(wire::pack(Value(column))), item["hex"].get<std::string>()) << what(item);
    }
  }
}

TEST(Columns, decimals_are_written_and_read_as_text_c_3) {
  using Rows = std::vector<std::optional<std::string>>;
  const Column column = Column::decimals(Rows{"-12.5", std::nullopt, "0.07", "1000.00", "-0"}, 9, 2);
  EXPECT_EQ(column.decimal_text(0), "-12.50");
  EXPECT_TRUE(column.is_null(1));
  EXPECT_EQ(column.decimal_text(2), "0.07");
  EXPECT_EQ(column.decimal_text(3), "1000.00");
  EXPECT_EQ(column.decimal_text(4), "0.00");
  EXPECT_EQ(Column::decimals(Rows{"7"}, 1, 0).decimal_text(0), "7");
  const std::string widest(38, '9');
  EXPECT_EQ(Column::decimals(Rows{"-" + widest}, 38, 0).decimal_text(0), "-" + widest);
  for (const char* text : {"", "-", "1.", ".5", "+1", "1e3", "0.001", "10000000", "NaN", " 1"}) {
    EXPECT_THROW(Column::decimals(Rows{text}, 9, 2), UnserialisableError) << text;
  }
  EXPECT_THROW(Column::decimals(Rows{}, 39, 0), ConfigurationError);
  EXPECT_THROW(Column::decimals(Rows{}, 2, 3), ConfigurationError);
}

TEST(Columns, published_decimals_are_read_as_they_are_written_c_3) {
  for (const Json& item : cases("columns", "valid")) {
    const Column column = column_of(item);
    for (std::size_t row = 0; column.kind() == Column::Kind::decimal && row < column.rows(); ++row) {
      if (column.is_null(row)) continue;
      EXPECT_EQ(column.decimal_text(row), item["rows"][row]["decimal"].get<std::string>()) << what(item);
    }
  }
}

TEST(Columns, what_is_no_column_is_refused_c_5) {
  for (const Json& item : cases("columns", "invalid")) {
    try {
      wire::unpack(bytes_of(item["hex"]));
      FAIL() << what(item);
    } catch (const WireError& error) {
      EXPECT_EQ(error.reason(), "BAD_PAYLOAD") << what(item);
    }
  }
}

Column published(const std::string& name) {
  for (const Json& item : cases("columns", "valid")) {
    if (item["name"] == name) return column_of(item);
  }
  throw std::runtime_error("no vector is called " + name);
}

TEST(Columns, are_written_as_published_c_2) {
  EXPECT_EQ(Column::of(std::vector<std::int64_t>{0, -1, (1LL << 53) + 1, INT64_MIN, INT64_MAX}), published("int64"));
  EXPECT_EQ(Column::of(std::vector<double>{0.1, -0.0, INFINITY, -1e300}), published("float64"));
  EXPECT_EQ(Column::of(std::vector<std::optional<bool>>{{}, false, true}), published("nulls among bool"));
  EXPECT_EQ(Column::of(std::vector<std::optional<std::string>>{{}, "", "b", {}}), published("nulls among utf8"));
  EXPECT_EQ(Column::binary({std::string("\xff\0", 2), "", "a"}), published("binary"));
  EXPECT_EQ(Column::timestamps({1'700'000'000'123'456}), published("timestamp"));
  EXPECT_EQ(Column::of(std::vector<std::optional<double>>{{}, {}}), published("only nulls"));
  EXPECT_EQ(Column::of(std::vector<std::int64_t>{}), published("no row"));
  EXPECT_EQ(Column::of(std::vector<std::optional<std::string>>{}), published("no row of utf8"));
}

TEST(Columns, a_wide_decimal_is_read_whole_c_3) {
  const Column column = published("decimal");
  EXPECT_EQ(wire::to_hex(column.decimal(1)), "ffffffffffffffffffffffffffffffff");  // -0.01 of scale 2 is -1
}

TEST(Columns, text_that_is_not_utf8_is_no_column_w_17) {
  EXPECT_THROW(Column::of(std::vector<std::optional<std::string>>{"\xff"}), UnserialisableError);
}

TEST(Columns, another_kind_than_asked_for_is_named) {
  try {
    published("int64").float64();
    FAIL();
  } catch (const InvalidArgumentsError& error) {
    EXPECT_STREQ(error.what(), "a column is of int64, not float64");
  }
}

Request batch(Map arguments) {
  Request request;
  request.service = "double";
  request.arguments = std::move(arguments);
  return request;
}

const ServiceFunction twice = by_row([](const Request& request) -> Response {
  if (request.arguments.find("a")->is_nil()) return Value();
  const double a = request.get<double>("a");
  if (a < 0) throw std::runtime_error("negative");
  return Value(2 * a);
});

TEST(Batches, a_service_of_rows_answers_with_a_column_c_6) {
  const Response response = twice(batch({{"a", Column::of(std::vector<std::optional<double>>{1.5, {}})}}));
  EXPECT_EQ(response.result.as<Column>(), Column::of(std::vector<std::optional<double>>{3.0, {}}));
  EXPECT_EQ(twice(batch({{"a", 4.0}})).result.as<double>(), 8.0);
}

TEST(Batches, the_first_bad_row_is_named_c_7) {
  try {
    twice(batch({{"a", Column::of(std::vector<double>{1, -1, -2})}}));
    FAIL();
  } catch (const ExecutionFailedError& error) {
    EXPECT_STREQ(error.what(), "row 1: negative");
    EXPECT_EQ(error.details().find("row")->as<std::int64_t>(), 1);
  }
}

Column answered_column(const ServiceFunction& row, const Column& column) {
  return by_row(row)(batch({{"a", column}})).result.as<Column>();
}

TEST(Batches, the_results_of_rows_may_be_bytes_and_instants_c_6) {
  const Column numbers = Column::of(std::vector<std::optional<std::int64_t>>{-1, {}, 2});
  const auto as_instant = [](const Request& request) -> Response {
    const auto number = request.get<std::optional<std::int64_t>>("a");
    if (!number) return {};
    return Instant(std::chrono::microseconds(*number));
  };
  const auto as_bytes = [](const Request& request) -> Response {
    const auto number = request.get<std::optional<int>>("a");
    if (!number) return {};
    return Bytes{static_cast<std::byte>(*number)};
  };
  EXPECT_EQ(answered_column(as_instant, numbers), Column::timestamps({-1, {}, 2}));
  EXPECT_EQ(answered_column(as_bytes, numbers), Column::binary({std::string("\xff"), {}, std::string("\x02")}));
}

TEST(Batches, maps_as_results_of_rows_make_a_column_for_each_key_c_6) {
  const ServiceFunction split = by_row([](const Request& request) -> Response {
    const auto a = request.get<std::optional<double>>("a");
    if (!a) return {};
    if (*a < 0) return {{"whole", static_cast<int>(*a)}};
    return {{"whole", static_cast<int>(*a)}, {"name", "n"}};
  });
  const Map columns =
      split(batch({{"a", Column::of(std::vector<std::optional<double>>{-1.5, {}, 2.5})}})).result.as<Map>();
  EXPECT_EQ(columns.size(), 2U);
  EXPECT_EQ(columns["whole"].as<Column>(), Column::of(std::vector<std::optional<std::int64_t>>{-1, {}, 2}));
  EXPECT_EQ(columns["name"].as<Column>(), Column::of(std::vector<std::optional<std::string>>{{}, {}, "n"}));
}

// The number of the row that failed, and what was said.
std::pair<std::int64_t, std::string> bad_row(const ServiceFunction& row, const Column& column) {
  try {
    by_row(row)(batch({{"a", column}}));
  } catch (const CallError& error) {
    return {error.details().at("row").as<std::int64_t>(), error.what()};
  }
  return {-1, "no row failed"};
}

TEST(Batches, a_row_that_fails_is_named_whatever_it_threw_c_7) {
  using Said = std::pair<std::int64_t, std::string>;
  const Column column = Column::of(std::vector<std::optional<double>>{1, {}});
  EXPECT_EQ(bad_row([](const Request& request) { return request.get<double>("a"); }, column),
            Said(1, "row 1: double: argument 'a': a value is nil, not float"));
  EXPECT_EQ(bad_row([](const Request& request) { return request.arguments["a"].as<double>(); }, column),
            Said(1, "row 1: a value is nil, not float"));
  EXPECT_EQ(bad_row([](const Request&) -> Response { throw 5; }, column),
            Said(0, "row 0: the service threw what is no std::exception"));
  EXPECT_EQ(
      bad_row(
          [](const Request& request) -> Response { return request.arguments["a"].is_nil() ? Value(2.5) : Value(1); },
          column),
      Said(1, "row 1: the result: a value is float, not an integer of 63 bits"));
  EXPECT_EQ(bad_row([](const Request&) -> Response { return Array{1}; }, column),
            Said(0, "row 0: the result: a value is array, of which there is no column"));
}

TEST(Batches, columns_of_different_lengths_are_refused_c_6) {
  const Request request =
      batch({{"a", Column::of(std::vector<double>{1})}, {"b", Column::of(std::vector<double>{1, 2})}});
  EXPECT_THROW(request.columns(), InvalidArgumentsError);
}

}  // namespace
}  // namespace speed
