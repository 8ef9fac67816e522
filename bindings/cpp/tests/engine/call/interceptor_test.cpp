// What a program runs around its calls and services.
#include <gtest/gtest.h>

#include "fabric.hpp"

namespace speed {
namespace {

using test::TestRoot;

class InterceptorTest : public testing::Test {
 protected:
  void serve() {
    bank_.serve("echo", test::echo);
    bank_.serve("fail", [](const Request&) -> Response { throw ApplicationError("SOLD_OUT", "none left"); });
  }

  std::mutex lock_;
  std::vector<std::string> seen_;
  void see(const std::string& what) {
    const std::lock_guard guard(lock_);
    seen_.push_back(what);
  }
  std::vector<std::string> seen() {
    const std::lock_guard guard(lock_);
    return seen_;
  }

  TestRoot root_;
  Node bank_{"bank", root_.options({"shop"})};
  Node shop_{"shop", root_.options()};
};

TEST_F(InterceptorTest, those_of_services_run_around_each_one_the_first_outermost) {
  for (const std::string name : {"outer", "inner"}) {
    bank_.intercept_services([this, name](const Request& request, const ServiceFunction& proceed) {
      see(name + " before " + request.service + " of " + request.caller);
      Response response = proceed(request);
      see(name + " behind");
      return response;
    });
  }
  serve();
  EXPECT_EQ(shop_.call("bank", "echo", {{"data", 1}}).as<int>(), 1);
  EXPECT_EQ(seen(), (std::vector<std::string>{"outer before echo of shop", "inner before echo of shop", "inner behind",
                                              "outer behind"}));
}

TEST_F(InterceptorTest, one_of_services_changes_refuses_answers_and_hears_of_errors) {
  bank_.intercept_services([this](const Request& request, const ServiceFunction& proceed) -> Response {
    const auto data = request.get_or<std::string>("data", "");
    if (data == "refuse") throw ApplicationError("REFUSED", "not today");
    if (data == "answer") return "mine";
    Request changed = request;
    if (data == "change") changed.arguments.set("data", "changed");
    try {
      return proceed(changed);
    } catch (const ApplicationError& error) {
      see(std::string(error.code()));
      throw;
    }
  });
  serve();
  EXPECT_EQ(shop_.call("bank", "echo", {{"data", "as it is"}}).as<std::string>(), "as it is");
  EXPECT_EQ(shop_.call("bank", "echo", {{"data", "change"}}).as<std::string>(), "changed");
  EXPECT_EQ(shop_.call("bank", "echo", {{"data", "answer"}}).as<std::string>(), "mine");
  EXPECT_THROW(shop_.call("bank", "echo", {{"data", "refuse"}}), ApplicationError);
  EXPECT_THROW(shop_.call("bank", "fail"), ApplicationError);
  EXPECT_EQ(seen(), std::vector<std::string>{"SOLD_OUT"});
}

TEST_F(InterceptorTest, those_of_services_come_before_the_first_service) {
  serve();
  const auto idle = [](const Request& request, const ServiceFunction& proceed) { return proceed(request); };
  EXPECT_THROW(bank_.intercept_services(idle), ConfigurationError);
  EXPECT_THROW(shop_.intercept_services(nullptr), ConfigurationError);
  EXPECT_THROW(shop_.intercept_calls(nullptr), ConfigurationError);
}

TEST_F(InterceptorTest, a_service_that_streams_passes_them_from_its_first_item_to_its_end) {
  bank_.intercept_services([this](const Request& request, const ServiceFunction& proceed) {
    see("before");
    Response response = proceed(request);
    see("behind");
    return response;
  });
  bank_.serve_stream("rows", [this](const Request&, ServedStream& out) -> Response {
    out.write(1);
    see("row");
    return {};
  });
  Stream stream = shop_.stream("bank", "rows");
  stream.result();
  EXPECT_EQ(seen(), (std::vector<std::string>{"before", "row", "behind"}));
}

TEST_F(InterceptorTest, those_of_calls_run_around_call_submit_and_handlers_alike) {
  serve();
  for (const std::string name : {"outer", "inner"}) {
    shop_.intercept_calls([this, name](CallRequest& request) -> AfterCall {
      see(name + " before " + request.service);
      return [this, name](CallOutcome& outcome) { see(name + (outcome.error ? " failed" : " behind")); };
    });
  }
  const std::vector<std::string> passed{"outer before echo", "inner before echo", "inner behind", "outer behind"};
  const std::vector<std::string> failed{"outer before fail", "inner before fail", "inner failed", "outer failed"};
  const auto taken = [this] {
    const std::lock_guard guard(lock_);
    return std::exchange(seen_, {});
  };
  EXPECT_EQ(shop_.call("bank", "echo", {{"data", 1}}).as<int>(), 1);
  EXPECT_EQ(taken(), passed);
  EXPECT_EQ(shop_.submit("bank", "echo", {{"data", 1}}).get().as<int>(), 1);
  EXPECT_EQ(taken(), passed);
  std::promise<int> handled;
  shop_.submit("bank", "echo", {{"data", 1}},
               [&](std::future<Value> result) { handled.set_value(result.get().as<int>()); });
  EXPECT_EQ(handled.get_future().get(), 1);
  EXPECT_EQ(taken(), passed);
  EXPECT_THROW(shop_.call("bank", "fail"), ApplicationError);
  EXPECT_EQ(taken(), failed);
  EXPECT_THROW(shop_.submit("bank", "fail").get(), ApplicationError);
  EXPECT_EQ(taken(), failed);
}

TEST_F(InterceptorTest, one_of_calls_changes_refuses_answers_and_turns_an_error_into_a_result) {
  serve();
  shop_.intercept_calls([](CallRequest& request) -> AfterCall {
    const Value* const data = request.arguments.find("data");
    if (data != nullptr && *data == Value("refuse")) throw ApplicationError("REFUSED", "not today");
    if (data != nullptr && *data == Value("answer")) request.answer = "mine";
    if (data != nullptr && *data == Value("change")) request.arguments.set("data", "changed");
    if (request.service != "fail") return {};
    return [](CallOutcome& outcome) { outcome = {.result = "instead", .error = {}}; };
  });
  const auto both = [&](const char* service, const char* data) {
    const auto called = shop_.call("bank", service, {{"data", data}}).as<std::string>();
    EXPECT_EQ(shop_.submit("bank", service, {{"data", data}}).get().as<std::string>(), called);
    return called;
  };
  EXPECT_EQ(both("echo", "as it is"), "as it is");
  EXPECT_EQ(both("echo", "change"), "changed");
  EXPECT_EQ(both("echo", "answer"), "mine");
  EXPECT_EQ(both("fail", "it does"), "instead");
  EXPECT_THROW(shop_.call("bank", "echo", {{"data", "refuse"}}), ApplicationError);
  EXPECT_THROW(shop_.submit("bank", "echo", {{"data", "refuse"}}), ApplicationError);
}

TEST_F(InterceptorTest, each_attempt_passes_those_of_calls) {
  shop_.intercept_calls([this](CallRequest&) -> AfterCall {
    see("attempt");
    return {};
  });
  CallOptions options;
  options.retry = Retry{.attempts = 3, .backoff = 1ms};
  EXPECT_THROW(shop_.call("gone", "x", {}, options), UnknownNodeError);
  EXPECT_EQ(seen_.size(), 3U);
}

}  // namespace
}  // namespace speed
