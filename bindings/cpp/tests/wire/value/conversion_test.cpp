// What values are taken as and made from, as C++ programs write it.
#include "speed/conversion.hpp"

#include <gtest/gtest.h>

#include "core/service_table.hpp"
#include "speed/service.hpp"

namespace speed {
namespace {

template <class Act>
std::string misfit(Act act) {
  try {
    act();
  } catch (const ConversionError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Conversions, an_integer_of_any_width_is_taken_in_its_range_only) {
  EXPECT_EQ(Value(-7).as<int>(), -7);
  EXPECT_EQ(Value(255).as<std::uint8_t>(), 255);
  EXPECT_EQ(Value(-128).as<std::int8_t>(), -128);
  EXPECT_EQ(Value(UINT64_MAX).as<unsigned long long>(), UINT64_MAX);
  EXPECT_EQ(Value(INT64_MIN).as<long long>(), INT64_MIN);
  EXPECT_EQ(misfit([] { Value(256).as<std::uint8_t>(); }), "a value is an integer beyond 8 bits without a sign");
  EXPECT_EQ(misfit([] { Value(1LL << 31).as<int>(); }), "a value is an integer beyond 32 bits with a sign");
  EXPECT_EQ(misfit([] { Value(UINT64_MAX).as<long long>(); }), "a value is an integer beyond 64 bits with a sign");
  EXPECT_EQ(misfit([] { Value(1.0).as<int>(); }), "a value is float, not integer");
}

TEST(Conversions, an_integer_is_a_float_only_where_it_is_exact) {
  EXPECT_EQ(Value(std::uint64_t{1} << 63).as<double>(), 0x1p63);
  EXPECT_EQ(Value((1LL << 53)).as<double>(), 0x1p53);
  EXPECT_EQ(Value(INT64_MIN).as<float>(), -0x1p63F);
  EXPECT_EQ(Value(INT64_MAX).as<long double>(), static_cast<long double>(INT64_MAX));
  EXPECT_EQ(misfit([] { Value((1LL << 53) + 1).as<double>(); }), "a value is an integer that no float holds exactly");
  EXPECT_EQ(misfit([] { Value(UINT64_MAX).as<double>(); }), "a value is an integer that no float holds exactly");
  EXPECT_EQ(misfit([] { Value((1 << 24) + 1).as<float>(); }), "a value is an integer that no float holds exactly");
}

TEST(Conversions, a_float_is_taken_with_single_precision_in_its_range) {
  EXPECT_EQ(Value(0.1).as<float>(), 0.1F);
  EXPECT_TRUE(std::isinf(Value(INFINITY).as<float>()));
  EXPECT_EQ(misfit([] { Value(1e300).as<float>(); }), "a value is a float beyond the range of single precision");
}

TEST(Conversions, nil_is_an_empty_optional_both_ways) {
  EXPECT_EQ(Value().as<std::optional<int>>(), std::nullopt);
  EXPECT_EQ(Value(3).as<std::optional<int>>(), 3);
  EXPECT_TRUE(Value(std::optional<double>()).is_nil());
  EXPECT_EQ(Value(std::optional<std::string>("a")), Value("a"));
  EXPECT_THROW(Value("3").as<std::optional<int>>(), ConversionError);
}

TEST(Conversions, containers_go_both_ways_whatever_they_hold) {
  const std::vector<std::vector<int>> rows{{1, 2}, {}, {3}};
  const std::map<std::string, std::optional<double>> prices{{"a", 1.5}, {"b", std::nullopt}};
  EXPECT_EQ(Value(rows).as<std::vector<std::vector<int>>>(), rows);
  EXPECT_EQ((Value(prices).as<std::map<std::string, std::optional<double>>>()), prices);
  EXPECT_EQ((Value(Map{{"a", 1}}).as<std::unordered_map<std::string, int>>().at("a")), 1);
  EXPECT_EQ(Value(std::vector<bool>{true, false}), Value(Array{true, false}));
  EXPECT_EQ(Value(std::vector<std::string>{"x"}), Value(Array{"x"}));
}

TEST(Conversions, the_part_that_does_not_fit_is_named) {
  EXPECT_EQ(misfit([] { Value(Array{1, "b"}).as<std::vector<int>>(); }), "item 1: a value is text, not integer");
  EXPECT_EQ(misfit([] { (Value(Map{{"a", Array{nullptr}}}).as<std::map<std::string, std::vector<int>>>()); }),
            "member 'a': item 0: a value is nil, not integer");
  EXPECT_EQ(misfit([] { (Value(Map{{1, 2}}).as<std::map<std::string, int>>()); }),
            "a value is a map with a key that is no text");
}

TEST(Conversions, instants_are_taken_with_any_unit_that_holds_them) {
  using namespace std::chrono;
  const sys_days day = 2024y / February / 29;
  const auto now = system_clock::now();
  EXPECT_EQ(Value(day).as<sys_days>(), day);
  EXPECT_EQ(Value(now).as<system_clock::time_point>(), floor<microseconds>(now));
  EXPECT_EQ(Value(sys_time<nanoseconds>(nanoseconds(-1))), Value(Instant(microseconds(-1))));  // towards the past
  EXPECT_EQ(misfit([&] { Value(day + 1s).as<sys_days>(); }),
            "a value is an instant with a fraction that the type has no place for");
  EXPECT_EQ(misfit([] { Value(sys_days(9999y / 1 / 1)).as<sys_time<nanoseconds>>(); }),
            "a value is an instant beyond the years that the type holds");
}

TEST(Conversions, dates_and_times_are_text_both_ways_v_2) {
  using namespace std::chrono;
  const auto date = 2026y / November / 25;
  const hh_mm_ss<microseconds> time(hours(23) + minutes(59) + seconds(59) + microseconds(1));
  const local_time<microseconds> moment = local_days(date) + time.to_duration();
  EXPECT_EQ(Value(date), Value("2026-11-25"));
  EXPECT_EQ(Value(time), Value("23:59:59.000001"));
  EXPECT_EQ(Value(hh_mm_ss<nanoseconds>(nanoseconds(1'500))), Value("00:00:00.000001"));
  EXPECT_EQ(Value(moment), Value("2026-11-25T23:59:59.000001"));
  EXPECT_EQ(Value(local_seconds(seconds(-1))), Value("1969-12-31T23:59:59"));
  EXPECT_EQ(Value("2026-11-25").as<year_month_day>(), date);
  EXPECT_EQ(Value("23:59:59.000001").as<hh_mm_ss<microseconds>>().to_duration(), time.to_duration());
  EXPECT_EQ(Value("10:15").as<hh_mm_ss<minutes>>().to_duration(), hours(10) + minutes(15));
  EXPECT_EQ(Value("2026-11-25T23:59:59.000001").as<local_time<microseconds>>(), moment);
  EXPECT_THROW(Value(2026y / February / 30), UnserialisableError);
  EXPECT_THROW(Value(hh_mm_ss<hours>(hours(24))), UnserialisableError);
}

TEST(Conversions, text_of_another_form_is_no_date_or_time_v_2) {
  using namespace std::chrono;
  for (const char* text : {"2026-02-30", "20261125", "2026-11-25 ", "0000-01-01", "26-11-25", ""}) {
    EXPECT_EQ(misfit([&] { Value(text).as<year_month_day>(); }), "a value is text that is no date such as 2026-11-25");
  }
  for (const char* text : {"24:00", "23:60", "23:59:60", "1:00", "10:15:07.", "10:15:07.1234567", "10:15Z"}) {
    EXPECT_THROW(Value(text).as<hh_mm_ss<microseconds>>(), ConversionError) << text;
  }
  EXPECT_THROW(Value("2026-11-25 10:15").as<local_seconds>(), ConversionError);
  EXPECT_EQ(misfit([] { Value(1).as<year_month_day>(); }), "a value is integer, not a date as text");
  EXPECT_EQ(misfit([] { Value("10:15:07.5").as<hh_mm_ss<seconds>>(); }),
            "a value is a span of time with a fraction that the type has no place for");
}

TEST(Conversions, durations_are_microseconds_both_ways_v_2) {
  using namespace std::chrono;
  EXPECT_EQ(Value(milliseconds(-2)), Value(-2'000));
  EXPECT_EQ(Value(nanoseconds(-1)), Value(-1));
  EXPECT_EQ(Value(duration<double>(0.5)), Value(500'000));
  EXPECT_EQ(Value(3'000'000).as<seconds>(), seconds(3));
  EXPECT_EQ(Value(1'500'000).as<duration<double>>(), milliseconds(1'500));
  EXPECT_EQ(Value(INT64_MIN).as<microseconds>().count(), INT64_MIN);
  EXPECT_EQ(misfit([] { Value(1).as<seconds>(); }),
            "a value is a span of time with a fraction that the type has no place for");
  EXPECT_EQ(misfit([] { Value(INT64_MAX).as<nanoseconds>(); }),
            "a value is a span of time beyond the range of the type");
  EXPECT_THROW(Value{hours::max()}, UnserialisableError);
  EXPECT_THROW(Value(duration<double>(NAN)), UnserialisableError);
}

TEST(Conversions, a_value_is_looped_over_and_asked_what_it_has) {
  const Value answer = Map{{"rows", Array{1, 2, 3}}, {"tax", 180.0}};
  int sum = 0;
  for (const Value& row : answer["rows"].items()) sum += row.as<int>();
  std::string names;
  for (const auto& [name, value] : answer.members()) names += name.as<std::string>() + " ";
  EXPECT_EQ(sum, 6);
  EXPECT_EQ(names, "rows tax ");
  EXPECT_EQ(answer["rows"].size(), 3U);
  EXPECT_EQ(answer.size(), 2U);
  EXPECT_TRUE(answer.contains("tax"));
  EXPECT_FALSE(answer.contains("total"));
  EXPECT_EQ(misfit([&] { answer["tax"].size(); }), "a value is float, not array or map");
  EXPECT_EQ(misfit([&] { answer["tax"].contains("a"); }), "a value is float, not map");
  EXPECT_EQ(misfit([&] { answer.items(); }), "a value is map, not array");
}

TEST(Conversions, members_and_items_are_reached_as_in_json_libraries) {
  const Value answer = Map{{"rows", Array{Map{{"tax", 180.0}}}}};
  EXPECT_EQ(answer["rows"][0]["tax"].as<double>(), 180.0);
  EXPECT_EQ(answer.at("rows").at(0), Value(Map{{"tax", 180.0}}));
  EXPECT_EQ(misfit([&] { answer["row"]; }), "a map has no member 'row'");
  EXPECT_EQ(misfit([&] { answer["rows"][1]; }), "an array of 1 has no item 1");
  EXPECT_EQ(misfit([&] { answer[0]; }), "a value is map, not array");
}

Request request_of(Map arguments) {
  Request request;
  request.service = "tax";
  request.arguments = std::move(arguments);
  return request;
}

TEST(Arguments, are_taken_as_any_type_that_a_value_is_taken_as) {
  const Request request = request_of({{"amount", 1000}, {"rate", 0.5}, {"names", Array{"a", "b"}}, {"none", nullptr}});
  EXPECT_EQ(request.get<int>("amount"), 1000);
  EXPECT_EQ(request.get<float>("rate"), 0.5F);
  EXPECT_EQ(request.get<std::vector<std::string>>("names").size(), 2U);
  EXPECT_EQ(request.get<std::optional<int>>("none"), std::nullopt);
  EXPECT_EQ(request.get<std::optional<int>>("missing"), std::nullopt);
  EXPECT_EQ(request.get_or("missing", 3), 3);
  EXPECT_EQ(request.get_or("amount", 3), 1000);
  EXPECT_EQ(request.get_or("missing", "text"), "text");
}

TEST(Arguments, one_that_does_not_fit_is_named) {
  try {
    request_of({{"amount", 1LL << 40}}).get<int>("amount");
    FAIL();
  } catch (const InvalidArgumentsError& error) {
    EXPECT_STREQ(error.what(), "tax: argument 'amount': a value is an integer beyond 32 bits with a sign");
    EXPECT_EQ(error.details().at("argument"), Value("amount"));
  }
}

TEST(Answers, whatever_makes_a_value_is_one) {
  const ServiceFunction map = [](const Request&) -> Response { return {{"tax", 180.0}, {"of", "a"}}; };
  const ServiceFunction number = [](const Request&) { return 42; };
  const ServiceFunction list = [](const Request&) { return std::vector<int>{1, 2}; };
  const ServiceFunction nothing = [](const Request&) -> Response { return {}; };
  EXPECT_EQ(map({}).result, Value(Map{{"tax", 180.0}, {"of", "a"}}));
  EXPECT_EQ(number({}).result, Value(42));
  EXPECT_EQ(list({}).result, Value(Array{1, 2}));
  EXPECT_TRUE(nothing({}).result.is_nil());
}

}  // namespace
}  // namespace speed
