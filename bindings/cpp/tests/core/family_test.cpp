// The published choices of S-40 and S-41.
#include "core/family.hpp"

#include <gtest/gtest.h>

#include "vectors.hpp"

namespace speed::core {
namespace {

using test::cases;
using test::Json;

Execution execution_of(const Json& one) {
  const auto text = one.at("execution").get<std::string>();
  if (text == "not begun") return Execution::not_begun;
  return text == "ran" ? Execution::ran : Execution::may_have_run;
}

TEST(Family, AMemberIsChosenAsTheVectorsSay) {
  for (const Json& one : cases("groups", "choices")) {
    std::optional<std::string> key;
    if (!one.at("key").is_null()) key = one.at("key").get<std::string>();
    CallsByMember under_way;
    for (const auto& [name, calls] : one.at("under_way").items()) under_way[name] = calls.get<std::size_t>();
    const auto members = one.at("members").get<std::vector<std::string>>();
    EXPECT_EQ(chosen(members, under_way, one.at("last").get<std::string>(), key), one.at("gives")) << one;
  }
}

TEST(Family, AnotherMemberIsAskedAsTheVectorsSay) {
  for (const Json& one : cases("groups", "passed_on")) {
    EXPECT_EQ(passes_on(one.at("code").get<std::string>(), execution_of(one)), one.at("gives")) << one;
  }
}

TEST(Retries, ACallIsRepeatedAsTheVectorsSay) {
  for (const Json& one : cases("groups", "repeated")) {
    const bool idempotent = one.at("idempotent").get<bool>();
    EXPECT_EQ(may_repeat(one.at("code").get<std::string>(), execution_of(one), idempotent), one.at("gives")) << one;
  }
}

TEST(Retries, ABudgetIsSpentAndEarnedAsTheVectorsSay) {
  for (const Json& one : cases("groups", "budgets")) {
    RetryBudget budget;
    Json found = Json::array();
    for (const Json& step : one.at("steps")) {
      if (step == "failed") {
        found.push_back(budget.failed());
      } else {
        budget.succeeded(one.at("budget").get<double>());
        found.push_back(nullptr);
      }
    }
    EXPECT_EQ(found, one.at("gives")) << one;
  }
}

TEST(Retries, PausesDoubleAsTheVectorsSay) {
  for (const Json& one : cases("groups", "pauses")) {
    const std::chrono::milliseconds first(one.at("backoff_ms").get<int>());
    EXPECT_EQ(backoff(first, one.at("made").get<unsigned>()), std::chrono::milliseconds(one.at("gives_ms").get<int>()))
        << one;
  }
}

}  // namespace
}  // namespace speed::core
