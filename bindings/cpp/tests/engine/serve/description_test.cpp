// What a service declares: others read it, and its arguments are checked by it (S-9, S-26).
#include <gtest/gtest.h>

#include <chrono>

#include "fabric.hpp"

namespace speed {
namespace {

using test::TestRoot;

class DescriptionTest : public testing::Test {
 protected:
  void serve_total() {
    ServiceDescription total("Adds up what items cost.", "2");
    total.parameter<std::vector<double>>("items").optional_parameter<std::string>("currency").result<double>();
    billing_.serve("total",
                   [this](const Request&) {
                     ++runs_;
                     return 1;
                   },
                   {.idempotent = true, .description = total});
  }

  InvalidArgumentsError refused(const Map& arguments) {
    try {
      analytics_.call("billing", "total", arguments);
    } catch (const InvalidArgumentsError& error) {
      return error;
    }
    throw std::logic_error("it was not refused");
  }

  TestRoot root_;
  std::atomic<int> runs_ = 0;
  Node billing_{"billing", root_.options({"analytics"})};
  Node analytics_{"analytics", root_.options()};
};

TEST_F(DescriptionTest, a_service_is_described_as_it_declares) {
  serve_total();
  billing_.serve("undeclared", [](const Request&) { return 1; });
  const std::vector<Map> described = analytics_.describe("billing");
  ASSERT_EQ(described.size(), 2U);
  const Map& total = described[0];
  EXPECT_EQ(total.find("name")->as<std::string>(), "total");
  EXPECT_EQ(total.find("summary")->as<std::string>(), "Adds up what items cost.");
  EXPECT_EQ(total.find("version")->as<std::string>(), "2");
  EXPECT_TRUE(total.find("idempotent")->as<bool>());
  const Map parameters = total.find("parameters")->as<Map>();
  EXPECT_EQ(*parameters.find("required"), Value(Array{"items"}));
  EXPECT_EQ(*parameters.find("additionalProperties"), Value(false));
  const Map items = parameters.find("properties")->as<Map>().find("items")->as<Map>();
  EXPECT_EQ(*items.find("items"), Value(Map{{"type", "number"}}));
  EXPECT_EQ(*total.find("result"), Value(Map{{"type", "number"}}));
  EXPECT_EQ(described[1].find("parameters"), nullptr);
}

TEST_F(DescriptionTest, arguments_are_checked_before_the_service_is_invoked) {
  serve_total();
  const Array items{1.5, 2};
  EXPECT_EQ(analytics_.call("billing", "total", {{"items", items}}).as<int>(), 1);
  const InvalidArgumentsError unknown = refused({{"items", items}, {"curency", "EUR"}});
  EXPECT_NE(std::string(unknown.what()).find("unknown argument 'curency'; there are items, currency"),
            std::string::npos)
      << unknown.what();
  EXPECT_EQ(*refused({}).details().find("argument"), Value("items"));
  EXPECT_EQ(*refused({{"items", Array{"x"}}}).details().find("argument"), Value("items"));
  EXPECT_EQ(*refused({{"items", items}, {"currency", 5}}).details().find("argument"), Value("currency"));
  EXPECT_EQ(runs_, 1);
}

TEST_F(DescriptionTest, a_description_is_checked_where_it_is_made) {
  ServiceDescription twice;
  twice.parameter<int>("x");
  EXPECT_THROW(twice.parameter<int>("x"), ConfigurationError);
  EXPECT_THROW(twice.parameter<int>(""), ConfigurationError);
}

TEST_F(DescriptionTest, types_are_described_by_the_form_in_which_they_travel) {
  using namespace std::chrono;
  EXPECT_EQ(detail::schema_of<bool>(), (Map{{"type", "boolean"}}));
  EXPECT_EQ(detail::schema_of<std::uint8_t>(), (Map{{"type", "integer"}}));
  EXPECT_EQ(detail::schema_of<year_month_day>(), (Map{{"type", "string"}, {"format", "date"}}));
  EXPECT_EQ((detail::schema_of<hh_mm_ss<microseconds>>()), (Map{{"type", "string"}, {"format", "time"}}));
  EXPECT_EQ(detail::schema_of<Instant>(), (Map{{"type", "string"}, {"format", "date-time"}}));
  EXPECT_EQ(detail::schema_of<local_time<microseconds>>(), (Map{{"type", "string"}, {"format", "local-date-time"}}));
  EXPECT_EQ(detail::schema_of<microseconds>(), (Map{{"type", "integer"}, {"format", "microseconds"}}));
  EXPECT_EQ(detail::schema_of<Bytes>(), (Map{{"type", "string"}, {"contentEncoding", "base64"}}));
  EXPECT_EQ((detail::schema_of<std::map<std::string, int>>()),
            (Map{{"type", "object"}, {"additionalProperties", Map{{"type", "integer"}}}}));
  EXPECT_EQ(detail::schema_of<std::optional<int>>(),
            (Map{{"anyOf", Array{Map{{"type", "integer"}}, Map{{"type", "null"}}}}}));
  EXPECT_EQ(detail::schema_of<Value>(), Map());
}

}  // namespace
}  // namespace speed
