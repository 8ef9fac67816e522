// Calls of families (S-40), and calls that are repeated (S-41).
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <set>

#include "fabric.hpp"

namespace speed {
namespace {

using test::AgentProcess;
using test::eventually;
using test::TestRoot;

class FamilyTest : public testing::Test {
 protected:
  // A node of the family, whose service tells who answered.
  Node& member(int number) {
    const std::string name = "pricing." + std::to_string(number);
    NodeOptions options = root_.options({"shop"});
    options.starting = true;
    Node& made = *members_.emplace(name, std::make_unique<Node>(name, options)).first->second;
    made.serve("quote", [name](const Request&) { return name; });
    made.ready();
    return made;
  }
  std::string quote(const CallOptions& options = {}) {
    return shop_.call("pricing.*", "quote", {}, options).as<std::string>();
  }

  TestRoot root_;
  std::map<std::string, std::unique_ptr<Node>> members_;
  Node shop_{"shop", root_.options()};
};

TEST_F(FamilyTest, calls_go_to_one_member_after_the_other) {
  for (int number = 0; number < 3; ++number) member(number);
  std::map<std::string, int> answers;
  for (int call = 0; call < 9; ++call) ++answers[quote()];
  EXPECT_EQ(answers, (std::map<std::string, int>{{"pricing.0", 3}, {"pricing.1", 3}, {"pricing.2", 3}}));
}

TEST_F(FamilyTest, what_has_one_key_goes_to_one_member_while_it_is_there) {
  for (int number = 0; number < 3; ++number) member(number);
  const std::string first = quote({.key = "alice"});
  for (int call = 0; call < 5; ++call) EXPECT_EQ(quote({.key = "alice"}), first);
  CallOptions keyed;
  keyed.key = "alice";
  EXPECT_EQ(shop_.submit("pricing.*", "quote", {}, keyed).get().as<std::string>(), first);
  members_.erase(first);
  EXPECT_NE(quote({.key = "alice"}), first);
}

TEST_F(FamilyTest, who_has_fewest_calls_under_way_is_called) {
  std::promise<void> gate;
  const std::shared_future<void> opened = gate.get_future().share();
  Node slow("pricing.0", root_.options({"shop"}));
  slow.serve("quote", [opened](const Request&) {
    opened.wait();
    return "pricing.0";
  });
  member(1);
  std::vector<std::future<Value>> waiting;
  for (int call = 0; call < 2; ++call) waiting.push_back(shop_.submit("pricing.*", "quote"));
  ASSERT_TRUE(eventually([&] {
    return std::ranges::any_of(waiting, [](auto& one) { return one.wait_for(0s) == std::future_status::ready; });
  }));
  for (int call = 0; call < 5; ++call) EXPECT_EQ(quote(), "pricing.1");
  gate.set_value();
  for (auto& one : waiting) one.get();
}

TEST_F(FamilyTest, a_member_that_lacks_the_service_or_the_grant_is_passed_by) {
  Node lacks("pricing.0", root_.options({"shop"}));
  Node denies("pricing.1", root_.options());
  denies.serve("quote", [](const Request&) { return "never"; });
  member(2);
  for (int call = 0; call < 4; ++call) {
    EXPECT_EQ(quote(), "pricing.2");
    EXPECT_EQ(shop_.submit("pricing.*", "quote").get().as<std::string>(), "pricing.2");
  }
}

TEST_F(FamilyTest, what_a_service_answers_is_final_and_names_the_member) {
  int calls = 0;
  Node one("pricing.0", root_.options({"shop"}));
  one.serve("fail", [&](const Request&) -> Response {
    ++calls;
    throw ApplicationError("SOLD_OUT", "none left");
  });
  try {
    shop_.call("pricing.*", "fail", {}, {.retry = Retry{.attempts = 5, .idempotent = true}});
    FAIL();
  } catch (const ApplicationError& error) {
    EXPECT_EQ(error.node(), "pricing.0");
  }
  EXPECT_EQ(calls, 1);
}

TEST_F(FamilyTest, one_that_is_not_there_or_allows_nobody_says_so) {
  EXPECT_THROW(quote(), UnknownNodeError);
  EXPECT_THROW(shop_.submit("pricing.*", "quote"), UnknownNodeError);
  const Node denies("pricing.1", root_.options());
  EXPECT_TRUE(eventually([&] {
    try {
      quote();
    } catch (const AccessDeniedError& error) {
      return error.execution() == Execution::not_begun;
    } catch (const UnknownNodeError&) {  // a node that joins is seen after a moment
    }
    return false;
  }));
  EXPECT_THROW(shop_.call("pri cing.*", "quote"), InvalidNameError);
  EXPECT_THROW(shop_.call("pricing.0", "quote", {}, {.key = "a"}), ConfigurationError);
}

TEST_F(FamilyTest, members_that_are_only_starting_are_waited_for_within_the_deadline) {
  NodeOptions options = root_.options({"shop"});
  options.starting = true;
  Node starting("pricing.0", options);
  starting.serve("quote", [](const Request&) { return "at last"; });
  EXPECT_THROW(quote({.timeout = 50ms}), NodeStartingError);
  EXPECT_THROW(shop_.submit("pricing.*", "quote", {}, {.timeout = 50ms}).get(), NodeStartingError);
  std::future<std::string> called = std::async(std::launch::async, [&] { return quote(); });
  std::future<Value> submitted = shop_.submit("pricing.*", "quote");
  starting.ready();
  EXPECT_EQ(called.get(), "at last");
  EXPECT_EQ(submitted.get().as<std::string>(), "at last");
}

TEST_F(FamilyTest, one_that_serves_is_asked_before_one_that_is_starting) {
  NodeOptions options = root_.options({"shop"});
  options.starting = true;
  const Node starting("pricing.0", options);
  member(1);
  for (int call = 0; call < 3; ++call) EXPECT_EQ(quote(), "pricing.1");
}

TEST_F(FamilyTest, nodes_that_differ_are_refused_on_demand) {
  const auto version = [](const char* text) { return ServiceOptions{.description = ServiceDescription("", text)}; };
  const auto quotes = [](const Request&) { return 1; };
  Node one("pricing.0", root_.options({"shop"}));
  one.serve("quote", quotes, version("1"));
  shop_.check_alike("pricing.*");
  shop_.check_alike("pricing.0");
  Node other("pricing.1", root_.options({"shop"}));
  other.serve("quote", quotes, version("2"));
  ASSERT_TRUE(eventually([&] { return shop_.nodes().size() == 3; }));
  std::string told;
  EXPECT_TRUE(eventually([&] {
    try {
      shop_.check_alike("pricing.*");
    } catch (const ConfigurationError& error) {
      told = error.what();
    }
    return !told.empty();
  }));
  EXPECT_NE(told.find("'pricing.0' and 'pricing.1' differ: 'quote' has version '1' and '2'"), std::string::npos)
      << told;
  EXPECT_EQ(shop_.describe("pricing.*").size(), 1U);
}

TEST_F(FamilyTest, messages_and_questions_go_to_a_member) {
  std::promise<std::string> got;
  member(0).on_message([&](Message& message) { got.set_value(message.payload().as<std::string>()); });
  shop_.send("pricing.*", "hello", {.ack = true});
  EXPECT_EQ(got.get_future().get(), "hello");
  EXPECT_EQ(shop_.services("pricing.*"), std::vector<std::string>{"quote"});
  EXPECT_EQ(shop_.describe("pricing.*").size(), 1U);
  EXPECT_EQ(shop_.info("pricing.*").find("name")->as<std::string>(), "pricing.0");
  EXPECT_GE(shop_.ping("pricing.*").count(), 0);
  EXPECT_THROW(shop_.segment("pricing.*", 100), ConfigurationError);
}

TEST_F(FamilyTest, a_call_that_was_not_begun_goes_on_when_its_member_is_killed) {
  AgentProcess agent(root_, "pricing.0", {"--allow", "shop"});
  member(1);
  shop_.wait_for("pricing.0");
  agent.pause();  // it begins none of them
  std::vector<std::future<Value>> calls;
  for (int call = 0; call < 20; ++call) calls.push_back(shop_.submit("pricing.*", "quote"));
  agent.kill(SIGKILL);
  for (auto& call : calls) EXPECT_EQ(call.get().as<std::string>(), "pricing.1");
  for (int call = 0; call < 5; ++call) EXPECT_EQ(quote(), "pricing.1");
}

TEST_F(FamilyTest, a_call_of_nobody_is_repeated_until_somebody_is_there) {
  const CallOptions patient{.retry = Retry{.attempts = 1000, .backoff = 10ms, .budget = std::nullopt}};
  std::future<std::string> call = std::async(std::launch::async, [&] { return quote(patient); });
  usleep(50'000);
  member(0);
  EXPECT_EQ(call.get(), "pricing.0");
}

TEST_F(FamilyTest, a_submitted_call_of_nobody_is_repeated_until_somebody_is_there) {
  const CallOptions patient{.retry = Retry{.attempts = 1000, .backoff = 10ms, .budget = std::nullopt}};
  std::future<Value> call = shop_.submit("pricing.*", "quote", {}, patient);
  std::promise<std::string> handled;
  shop_.submit(
      "pricing.*", "quote", {}, [&](std::future<Value> given) { handled.set_value(given.get().as<std::string>()); },
      patient);
  member(0);
  EXPECT_EQ(call.get().as<std::string>(), "pricing.0");
  EXPECT_EQ(handled.get_future().get(), "pricing.0");
}

TEST_F(FamilyTest, a_submitted_call_is_tried_so_often_and_its_future_has_the_last_error) {
  std::atomic<int> made = 0;
  shop_.intercept_calls([&](CallRequest&) -> AfterCall {
    ++made;
    return {};
  });
  const Retry thrice{.attempts = 3, .backoff = 1ms};
  EXPECT_THROW(shop_.submit("gone", "x", {}, CallOptions{.retry = thrice}).get(), UnknownNodeError);
  EXPECT_EQ(made, 3);
  EXPECT_THROW(shop_.submit("gone", "x", {}, CallOptions{.retry = Retry{.attempts = 0}}), ConfigurationError);
  EXPECT_THROW(shop_.submit("pricing.*", "x", {}, CallOptions{.retry = Retry{.idempotent = true, .hedge = 1s}}),
               ConfigurationError);
}

TEST_F(FamilyTest, who_closes_ends_a_submitted_call_that_would_be_tried_again) {
  const CallOptions patient{.timeout = 300s, .retry = Retry{.attempts = 1000, .backoff = 5s, .budget = std::nullopt}};
  std::future<Value> call = shop_.submit("gone", "x", {}, patient);
  shop_.close(0s);
  EXPECT_THROW(call.get(), Error);
}

TEST_F(FamilyTest, so_many_attempts_are_made_and_the_last_error_is_thrown) {
  const Retry thrice{.attempts = 3, .backoff = 1ms};
  EXPECT_THROW(shop_.call("gone", "x", {}, {.retry = thrice}), UnknownNodeError);
  EXPECT_THROW(shop_.call("gone", "x", {}, {.timeout = 50ms, .retry = Retry{.attempts = 1'000'000}}), UnknownNodeError);
  EXPECT_THROW(shop_.call("gone", "x", {}, {.retry = Retry{.attempts = 0}}), ConfigurationError);
  EXPECT_THROW(shop_.call("gone", "x", {}, {.retry = Retry{.backoff = -1s}}), ConfigurationError);
  EXPECT_THROW(shop_.call("gone", "x", {}, {.retry = Retry{.budget = 0.0}}), ConfigurationError);
}

TEST_F(FamilyTest, a_second_member_is_asked_where_the_first_is_slow_and_the_first_is_withdrawn) {
  std::atomic<int> begun = 0;
  std::atomic<int> withdrawn = 0;
  Node slow("pricing.0", root_.options({"shop"}));
  slow.serve("quote", [&](const Request& request) -> Value {
    ++begun;
    while (!request.cancelled()) usleep(1000);
    ++withdrawn;
    return "late";
  });
  member(1);
  const Retry hedge{.idempotent = true, .budget = std::nullopt, .hedge = 20ms};
  for (int call = 0; call < 4; ++call) EXPECT_EQ(quote({.retry = hedge}), "pricing.1");  // they begin by turns
  EXPECT_TRUE(eventually([&] { return withdrawn >= 1 && withdrawn == begun; }));
}

TEST_F(FamilyTest, the_result_of_one_that_is_quick_enough_asks_nobody_else) {
  for (int number = 0; number < 2; ++number) member(number);
  std::map<std::string, int> answers;
  const Retry late{.idempotent = true, .hedge = 20s};
  for (int call = 0; call < 4; ++call) ++answers[quote({.retry = late})];
  EXPECT_EQ(answers, (std::map<std::string, int>{{"pricing.0", 2}, {"pricing.1", 2}}));
}

TEST_F(FamilyTest, a_hedge_needs_a_family_and_a_service_that_may_run_twice) {
  member(0);
  EXPECT_THROW(quote({.retry = Retry{.hedge = 1s}}), ConfigurationError);
  EXPECT_THROW(quote({.retry = Retry{.idempotent = true, .hedge = 0s}}), ConfigurationError);
  EXPECT_THROW(shop_.call("pricing.0", "quote", {}, {.retry = Retry{.idempotent = true, .hedge = 1s}}),
               ConfigurationError);
}

TEST_F(FamilyTest, where_nobody_else_is_there_the_first_may_still_answer) {
  Node only("pricing.0", root_.options({"shop"}));
  only.serve("quote", [](const Request&) {
    usleep(100'000);
    return "pricing.0";
  });
  EXPECT_EQ(quote({.retry = Retry{.idempotent = true, .hedge = 5ms}}), "pricing.0");
}

}  // namespace
}  // namespace speed
