// Whose fault a failure is (S-8), and what the log says of it.
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <mutex>

#include "fabric.hpp"

namespace speed {
namespace {

using test::AgentProcess;
using test::eventually;
using test::TestRoot;

class FaultTest : public testing::Test {
 protected:
  // What a call of `client` to this service of `middle` ended with.
  template <class Failure>
  std::optional<Failure> failure_of(ServiceFunction service, const Map& arguments = {}) {
    middle_.serve("asked", std::move(service));
    try {
      client_.call("middle", "asked", arguments);
    } catch (const Failure& error) {
      return error;
    }
    return std::nullopt;
  }

  TestRoot root_;
  Node behind_{"behind", root_.options({"middle"})};
  Node middle_{"middle", root_.options({"client"})};
  Node client_{"client", root_.options()};
};

TEST_F(FaultTest, an_argument_of_this_call_is_the_callers_fault) {
  const auto error = failure_of<InvalidArgumentsError>(
      [](const Request& request) { return request.get<int>("amount"); }, {{"amount", "ten"}});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->details().at("argument"), Value("amount"));
  EXPECT_EQ(error->node(), "middle");
  EXPECT_EQ(error->service(), "asked");
}

TEST_F(FaultTest, what_a_service_says_of_its_arguments_itself_is_the_callers_fault) {
  EXPECT_TRUE(
      failure_of<InvalidArgumentsError>([](const Request&) -> Response { throw InvalidArgumentsError("too many"); }));
}

TEST_F(FaultTest, arguments_that_a_service_gave_another_are_not_its_callers_fault) {
  behind_.serve("picky", [](const Request& request) { return request.get<int>("n"); });
  const auto error = failure_of<ExecutionFailedError>([&](const Request&) { return middle_.call("behind", "picky"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->details(), (Map{{"cause", "INVALID_ARGUMENTS"}, {"node", "behind"}, {"service", "picky"}}));
}

TEST_F(FaultTest, the_same_holds_for_a_call_whose_result_came_later) {
  behind_.serve("picky", [](const Request& request) { return request.get<int>("n"); });
  const auto error =
      failure_of<ExecutionFailedError>([&](const Request&) { return middle_.submit("behind", "picky").get(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->details().at("cause"), Value("INVALID_ARGUMENTS"));
  EXPECT_EQ(error->details().at("service"), Value("picky"));
}

TEST_F(FaultTest, a_call_that_was_never_written_says_whom_it_was_for) {
  const auto error = failure_of<ExecutionFailedError>([&](const Request&) { return middle_.call("nobody", "tax"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->details(), (Map{{"cause", "UNKNOWN_NODE"}, {"node", "nobody"}, {"service", "tax"}}));
}

TEST_F(FaultTest, a_value_of_its_own_that_a_service_takes_wrongly_is_its_own_fault) {
  EXPECT_TRUE(failure_of<ExecutionFailedError>([](const Request&) { return Value("text").as<int>(); }));
}

TEST_F(FaultTest, a_column_of_another_kind_is_the_fault_of_the_caller_that_gave_it) {
  const auto sum = [](const Request& request) { return request.get<Column>("a").float64()[0]; };
  const auto error = failure_of<InvalidArgumentsError>(sum, {{"a", Column::of(std::vector<std::int64_t>{1})}});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->details().at("argument"), Value("a"));
}

TEST_F(FaultTest, a_column_of_another_kind_that_came_from_elsewhere_is_the_fault_of_the_service) {
  EXPECT_TRUE(failure_of<ExecutionFailedError>(
      [](const Request&) { return Column::of(std::vector<std::int64_t>{1}).float64()[0]; }));
}

TEST_F(FaultTest, a_row_whose_call_fails_is_no_fault_of_the_batch) {
  behind_.serve("picky", [](const Request& request) { return request.get<int>("n"); });
  const auto error =
      failure_of<ExecutionFailedError>(by_row([&](const Request&) { return middle_.call("behind", "picky"); }),
                                       {{"a", Column::of(std::vector<double>{1})}});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->details(),
            (Map{{"cause", "INVALID_ARGUMENTS"}, {"node", "behind"}, {"service", "picky"}, {"row", 0}}));
}

TEST_F(FaultTest, a_code_of_the_services_own_reaches_the_caller_as_it_is) {
  const auto error = failure_of<ApplicationError>(
      [](const Request&) { return Response::error("OUT_OF_STOCK", "none left", {{"article", 7}}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), "OUT_OF_STOCK");
  EXPECT_STREQ(error->what(), "middle: none left");
  EXPECT_EQ(error->details(), (Map{{"article", 7}}));
  EXPECT_EQ(error->node() + "/" + error->service(), "middle/asked");
  EXPECT_EQ(error->execution(), Execution::ran);
}

TEST_F(FaultTest, an_own_code_may_be_thrown_and_names_the_row_of_a_batch) {
  const auto error = failure_of<ApplicationError>(
      by_row([](const Request&) -> Response { throw ApplicationError("OUT_OF_STOCK", "none left"); }),
      {{"a", Column::of(std::vector<double>{1})}});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), "OUT_OF_STOCK");
  EXPECT_EQ(error->details(), (Map{{"row", 0}}));
}

TEST_F(FaultTest, an_own_code_of_a_service_behind_is_a_cause) {
  behind_.serve("stock", [](const Request&) { return Response::error("OUT_OF_STOCK", "none left"); });
  const auto error = failure_of<ExecutionFailedError>([&](const Request&) { return middle_.call("behind", "stock"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->details(), (Map{{"cause", "OUT_OF_STOCK"}, {"node", "behind"}, {"service", "stock"}}));
}

TEST_F(FaultTest, a_code_of_another_form_is_a_failure_of_the_service_that_names_it) {
  for (const std::string code : {"", "out of stock", "app/X", "_A", "9A", "ÄA"}) {
    Node server("server", root_.options({"client"}));
    server.serve("bad", [&](const Request&) { return Response::error(code, "x"); });
    try {
      client_.call("server", "bad");
      ADD_FAILURE() << code;
    } catch (const ExecutionFailedError& error) {
      EXPECT_NE(std::string(error.what()).find("'" + code + "'"), std::string::npos) << error.what();
    }
  }
}

// What is logged while it lives.
class Logged {
 public:
  explicit Logged(LogLevel least) {
    set_log([this](LogLevel level, std::string_view, std::string_view text) { add(level, text); }, least);
  }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;
  ~Logged() { set_log({}); }

  bool holds(const std::vector<std::string>& parts) {
    const std::lock_guard guard(lock_);
    return std::ranges::any_of(lines_, [&](const std::string& line) {
      return std::ranges::all_of(parts, [&](const std::string& part) { return line.find(part) != std::string::npos; });
    });
  }

 private:
  void add(LogLevel level, std::string_view text) {
    const std::lock_guard guard(lock_);
    lines_.push_back(std::string(name_of(level)) + " " + std::string(text));
  }
  std::mutex lock_;
  std::vector<std::string> lines_;
};

TEST_F(FaultTest, a_service_that_throws_is_logged_with_its_caller_and_request_but_no_argument) {
  Logged logged(LogLevel::debug);
  std::promise<std::string> told;  // the sanitizer does not see that files order the two threads
  failure_of<ExecutionFailedError>(
      [&](const Request& request) -> Response {
        told.set_value(request.request_id);
        throw std::logic_error("boom");
      },
      {{"secret", "DE89"}});
  const std::string id = told.get_future().get();
  EXPECT_TRUE(eventually(
      [&] { return logged.holds({"error", "'asked'", "'client'", "'" + id + "'", "std::logic_error: boom"}); }));
  EXPECT_FALSE(logged.holds({"DE89"}));
}

TEST_F(FaultTest, a_mistake_of_the_caller_is_logged_as_information) {
  Logged logged(LogLevel::info);
  failure_of<InvalidArgumentsError>([](const Request& request) { return request.get<int>("n"); });
  EXPECT_TRUE(eventually([&] { return logged.holds({"info", "'asked'", "missing argument 'n'"}); }));
}

TEST_F(FaultTest, each_failure_of_a_handler_is_logged_with_sender_and_message) {
  Logged logged(LogLevel::error);
  middle_.on_message([](Message& message) { throw std::runtime_error("on " + message.payload().as<std::string>()); });
  const std::string one = client_.send("middle", "one");
  const std::string two = client_.send("middle", "two");
  EXPECT_TRUE(eventually(
      [&] { return logged.holds({"'client'", one, "on one"}) && logged.holds({"'client'", two, "on two"}); }));
}

TEST_F(FaultTest, a_callback_that_throws_is_logged_with_the_call) {
  Logged logged(LogLevel::error);
  client_.submit("middle", "absent", {}, [](std::future<Value>) { throw std::runtime_error("boom"); });
  EXPECT_TRUE(eventually([&] { return logged.holds({"'absent' at 'middle'", "std::runtime_error: boom"}); }));
}

// Where standard error of this process, and of those it starts, goes while it lives.
class StandardError {
 public:
  explicit StandardError(const std::string& file) : before_(dup(STDERR_FILENO)) {
    const int to = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(to, STDERR_FILENO);
    close(to);
  }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;
  ~StandardError() {
    dup2(before_, STDERR_FILENO);
    close(before_);
  }

 private:
  int before_;
};

TEST_F(FaultTest, a_program_that_sets_no_log_has_it_on_standard_error) {
  const std::string file = root_.path + "/errors.txt";
  std::optional<AgentProcess> agent;
  {
    const StandardError redirected(file);
    agent.emplace(root_, "agent", std::vector<std::string>{"--allow", "client"});
  }
  EXPECT_THROW(client_.call("agent", "fail", {{"message", "boom"}}), ExecutionFailedError);
  EXPECT_TRUE(eventually([&] {
    std::ifstream written(file);
    const std::string text{std::istreambuf_iterator<char>(written), {}};
    return text.find("Z error speed.spc: 'agent': service 'fail' failed for 'client'") != std::string::npos;
  }));
}

TEST_F(FaultTest, lines_below_the_asked_level_are_not_handed_out) {
  Logged logged(LogLevel::error);
  failure_of<InvalidArgumentsError>([](const Request& request) { return request.get<int>("n"); });
  middle_.serve("bad", [](const Request&) -> Response { throw std::runtime_error("later"); });
  EXPECT_THROW(client_.call("middle", "bad"), ExecutionFailedError);
  EXPECT_TRUE(eventually([&] { return logged.holds({"later"}); }));
  EXPECT_FALSE(logged.holds({"missing argument"}));
}

}  // namespace
}  // namespace speed
