// Columns (C-1 to C-7, C-9).
#include <gtest/gtest.h>

#include "speed/error.hpp"
#include "speed/service.hpp"
#include "wire/limits.hpp"
#include "vectors.hpp"
#include "wire/value/value_codec.hpp"

namespace speed {
namespace {

using test::bytes_of;
using test::cases;
using test::Json;
using test::noted;
using test::what;

Column column_of(const Json& item) { return wire::unpack(bytes_of(item["hex"])).as<Column>(); }

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
        EXPECT_EQ(noted(column, row), item["rows"][row]) << what(item);
      }
      if (item.contains("type")) {
        EXPECT_EQ(column.type_name(), item["type"].get<std::string>()) << what(item);
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

TEST(Columns, columns_in_columns_are_made_of_columns_c_9) {
  using Numbers = std::vector<std::optional<std::int64_t>>;
  using Lengths = std::vector<std::optional<std::size_t>>;
  const Column lists = Column::lists(Lengths{2, {}, 0, 1}, Column::of(Numbers{1, {}, 3}));
  EXPECT_EQ(lists, published("list"));
  EXPECT_EQ(lists.range(3).begin, 2U);
  const Column fields = Column::structs({{"a", Column::of(Numbers{1, {}, {}})},
                                         {"größe", Column::of(std::vector<std::optional<std::string>>{"x", {}, {}})}},
                                        {true, false, true});
  EXPECT_EQ(fields, published("struct"));
  EXPECT_EQ(fields.field("a").int64()[0], 1);
  EXPECT_THROW(fields.field("b"), std::out_of_range);
  const Column maps = Column::maps(Lengths{2, {}, 0}, Column::of(std::vector<std::optional<std::string>>{"b", "a"}),
                                   Column::of(std::vector<std::optional<double>>{1.5, {}}));
  EXPECT_EQ(maps, published("map"));
  EXPECT_EQ(Column::times(Column::Kind::months, Numbers{14, {}, -1, INT32_MAX}), published("months"));
  EXPECT_EQ(Column::times(Column::Kind::duration, Numbers{-86'399'999'999, {}, 0}), published("duration"));
  EXPECT_THROW(Column::times(Column::Kind::date, Numbers{std::int64_t{1} << 31}), UnserialisableError);
  EXPECT_THROW(Column::times(Column::Kind::utf8, Numbers{}), ConfigurationError);
  EXPECT_THROW(Column::lists(Lengths{1}, lists), ConfigurationError);
  EXPECT_THROW(Column::lists(Lengths{SIZE_MAX, SIZE_MAX}, lists), ConfigurationError);
  EXPECT_THROW(Column::maps(Lengths{4}, lists, lists), ConfigurationError);
  EXPECT_THROW(Column::structs({}), ConfigurationError);
  EXPECT_THROW(Column::structs({{"a", lists}, {"a", lists}}), ConfigurationError);
  EXPECT_THROW(Column::structs({{"a", lists}, {"b", fields}}), ConfigurationError);
  EXPECT_THROW(Column::structs({{"a", lists}}, {true}), ConfigurationError);
}

TEST(Columns, one_in_32_others_is_refused_where_it_is_made_c_9) {
  Column column = Column::of(std::vector<double>{1});
  for (std::size_t depth = 1; depth < wire::limits::max_column_depth; ++depth)
    column = Column::lists({column.rows()}, column);
  EXPECT_THROW(Column::lists({1}, column), UnserialisableError);
}

TEST(Columns, a_struct_of_more_fields_than_one_has_inside_is_refused_c_9) {
  const std::vector<std::optional<std::string>> names(wire::limits::max_inner_columns + 1, "");
  const auto named = Column::of(names);
  std::vector<std::byte> body{std::byte{14}};
  body.resize(8);
  body.insert(body.end(), named.body().begin(), named.body().end());
  EXPECT_THROW(Column::parse(body), WireError);
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
  EXPECT_EQ(bad_row([](const Request&) -> Response { return Array{1, "a"}; }, column),
            Said(0, "row 0: the result holds one where: a value is text, not an integer of 63 bits"));
}

TEST(Batches, columns_of_different_lengths_are_refused_c_6) {
  const Request request =
      batch({{"a", Column::of(std::vector<double>{1})}, {"b", Column::of(std::vector<double>{1, 2})}});
  EXPECT_THROW(request.columns(), InvalidArgumentsError);
}

}  // namespace
}  // namespace speed
