// Columns (C-1 to C-7).
#include <gtest/gtest.h>

#include "speed/error.hpp"
#include "speed/service.hpp"
#include "vectors.hpp"
#include "wire/value_codec.hpp"

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

TEST(Batches, columns_of_different_lengths_are_refused_c_6) {
  const Request request =
      batch({{"a", Column::of(std::vector<double>{1})}, {"b", Column::of(std::vector<double>{1, 2})}});
  EXPECT_THROW(request.columns(), InvalidArgumentsError);
}

}  // namespace
}  // namespace speed
