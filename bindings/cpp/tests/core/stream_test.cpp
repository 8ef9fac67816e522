// The published steps of streams (registry_spec/streams.md): credit, windows, and how often progress is told.
#include "core/stream.hpp"

#include <gtest/gtest.h>

#include "vectors.hpp"

namespace speed::core {
namespace {

using test::cases;
using test::Json;

std::uint64_t number_in(const Json& step, const char* key) { return step.at(key).get<std::uint64_t>(); }

Json json_of(const std::optional<Credit>& credit) {
  return credit ? Json::array({credit->items, credit->bytes}) : Json(nullptr);
}

const char* text_of(Arrived arrived) {
  constexpr const char* texts[] = {"next", "again", "out of order", "beyond credit"};
  return texts[static_cast<std::size_t>(arrived)];
}

TEST(Stream, WhoSendsItemsKeepsToTheCredit) {  // S-29
  for (const Json& one : cases("streams", "credit")) {
    SCOPED_TRACE(one.at("name").get<std::string>());
    StreamCredit credit({one.at("begins")[0].get<std::uint64_t>(), one.at("begins")[1].get<std::uint64_t>()});
    for (const Json& step : one.at("steps")) {
      if (step.at("do") == "grant") {
        credit.grant({number_in(step, "items"), number_in(step, "bytes")});
      } else {
        EXPECT_EQ(credit.send(number_in(step, "bytes")), step.at("gives").get<bool>()) << step;
      }
    }
  }
}

TEST(Stream, WhoReadsItemsJudgesThemAndGrantsMore) {  // S-29, S-33
  for (const Json& one : cases("streams", "windows")) {
    SCOPED_TRACE(one.at("name").get<std::string>());
    StreamWindow window({number_in(one, "items"), number_in(one, "bytes")}, one.at("open").get<bool>());
    for (const Json& step : one.at("steps")) {
      if (step.at("do") == "open") {
        EXPECT_EQ(json_of(window.open()), step.at("gives")) << step;
        continue;
      }
      const std::uint64_t items = number_in(step, "items");
      const std::uint64_t bytes = number_in(step, "bytes");
      if (step.at("do") == "arrive") {
        EXPECT_EQ(text_of(window.arrive(number_in(step, "number"), items, bytes)), step.at("gives")) << step;
      } else {
        EXPECT_EQ(json_of(window.process(items, bytes)), step.at("gives")) << step;
      }
    }
  }
}

TEST(Stream, ProgressIsToldSeldomButForItsEnd) {  // S-32
  for (const Json& one : cases("streams", "rates")) {
    SCOPED_TRACE(one.at("name").get<std::string>());
    ProgressRate rate;
    for (const Json& step : one.at("steps")) {
      std::optional<double> total;
      if (!step.at("total").is_null()) total = step.at("total").get<double>();
      EXPECT_EQ(rate.takes(step.at("done").get<double>(), total, test::instant(step.at("now"))),
                step.at("gives").get<bool>())
          << step;
    }
  }
}

}  // namespace
}  // namespace speed::core
