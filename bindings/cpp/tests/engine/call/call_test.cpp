// Calls between nodes, in one process and in several, over real files.
#include <gtest/gtest.h>

#include <cmath>
#include <latch>
#include <thread>

#include "fabric.hpp"
#include "wire/names/names.hpp"

namespace speed {
namespace {

using test::AgentProcess;
using test::echo;
using test::eventually;
using test::TestRoot;

class CallTest : public testing::Test {
 protected:
  TestRoot root_;
};

TEST_F(CallTest, a_call_returns_what_the_service_answers) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("echo", echo);
  const Value data = Map{{"a", Array{1, 2.5, "x", Bytes{std::byte{1}}, nullptr, true}}};
  EXPECT_EQ(client.call("server", "echo", {{"data", data}}), data);
}

TEST_F(CallTest, a_call_without_a_grant_touches_no_file_a_3) {
  Node server("server", root_.options());
  Node client("client", root_.options());
  EXPECT_THROW(client.call("server", "echo"), AccessDeniedError);
  EXPECT_FALSE(std::filesystem::exists(wire::lane_dir(root_.path, "server", "client")));
}

TEST_F(CallTest, a_timeout_is_any_span_of_time_below_its_limit) {
  using namespace std::chrono_literals;
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("echo", echo);
  EXPECT_EQ(client.call("server", "echo", {{"data", 1}}, {.timeout = 1min}), Value(1));
  EXPECT_EQ(client.call("server", "echo", {{"data", 1}}, {.timeout = 20'000ms}), Value(1));
  EXPECT_FALSE(client.receive(0s));
  EXPECT_FALSE(client.receive(-5s));
  EXPECT_FALSE(client.receive(Seconds(-999'999'999)));
  for (const double seconds : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e9}) {
    EXPECT_THROW(client.call("server", "echo", {{"data", 1}}, {.timeout = Seconds(seconds)}), ConfigurationError);
    EXPECT_THROW(client.submit("server", "echo", {{"data", 1}}, {.timeout = Seconds(seconds)}), ConfigurationError);
    EXPECT_THROW(client.send("server", 1, {.timeout = Seconds(seconds)}), ConfigurationError);
    EXPECT_THROW(client.send_all("server", {1}, {.timeout = Seconds(seconds)}), ConfigurationError);
    EXPECT_THROW(client.publish("topic", 1, {.timeout = Seconds(seconds)}), ConfigurationError);
    EXPECT_THROW(client.receive(Seconds(seconds)), ConfigurationError);
    EXPECT_THROW(client.ping("server", Seconds(seconds)), ConfigurationError);
    EXPECT_THROW(client.services("server", Seconds(seconds)), ConfigurationError);
    EXPECT_THROW(client.wait_for("server", Seconds(seconds)), ConfigurationError);
    EXPECT_THROW(client.close(Seconds(seconds)), ConfigurationError);
  }
  try {
    client.ping("server", std::chrono::hours::max());
    FAIL();
  } catch (const ConfigurationError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("timeout is ")) << error.what();
  }
}

TEST_F(CallTest, a_lease_that_is_no_span_of_time_is_refused) {
  NodeOptions options = root_.options();
  options.lease = Seconds(NAN);
  EXPECT_THROW(Node("node", options), ConfigurationError);
  options = root_.options();
  options.heartbeat = Seconds(HUGE_VAL);
  EXPECT_THROW(Node("node", options), ConfigurationError);
  options = root_.options();
  options.segment_limits.idle = Seconds(NAN);
  EXPECT_THROW(Node("node", options), ConfigurationError);
  options = root_.options();
  options.spin = std::chrono::seconds(1);
  EXPECT_THROW(Node("node", options), ConfigurationError);
}

TEST_F(CallTest, a_call_to_nobody_says_so) {
  Node client("client", root_.options());
  EXPECT_THROW(client.call("nobody", "echo"), UnknownNodeError);
}

TEST_F(CallTest, each_failure_of_a_call_has_its_class_s_8) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("throws", [](const Request&) -> Response { throw std::runtime_error("boom"); });
  server.serve("needs", [](const Request& request) -> Response { return Value(request.get<std::int64_t>("x")); });
  server.serve("closed", echo, {.allow = {{"another"}}});
  server.serve("unsendable", [](const Request&) -> Response { return Value(std::string("\xff")); });
  EXPECT_THROW(client.call("server", "absent"), ServiceNotFoundError);
  EXPECT_THROW(client.call("server", "closed", {{"data", 1}}), AccessDeniedError);
  EXPECT_THROW(client.call("server", "needs", {{"x", "text"}}), InvalidArgumentsError);
  EXPECT_THROW(client.call("server", "throws"), ExecutionFailedError);
  EXPECT_THROW(client.call("server", "unsendable"), ExecutionFailedError);
}

TEST_F(CallTest, an_empty_list_of_callers_lets_nobody_call_however_it_is_written_a_5) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("braces", echo, {});
  server.serve("lambda", [](const Request&) -> Response { return Value(1); }, {});
  server.serve("option", echo, {.allow = {}});
  server.serve("list", echo, {.allow = std::vector<std::string>()});
  server.serve("all", echo);
  server.serve("unsaid", echo, {.allow = std::nullopt});
  server.serve("options", echo, ServiceOptions());
  for (const char* const name : {"braces", "lambda", "option", "list"}) {
    EXPECT_THROW(client.call("server", name, {{"data", 1}}), AccessDeniedError) << name;
  }
  for (const char* const name : {"all", "unsaid", "options"}) {
    EXPECT_EQ(client.call("server", name, {{"data", 1}}), Value(1)) << name;
  }
}

TEST_F(CallTest, two_names_within_two_braces_are_two_names) {
  Node server("server", root_.options());
  server.allow({{"client", "other"}});
  EXPECT_EQ(server.allowed(), (std::vector<std::string>{"client", "other"}));
  server.deny({{"client", "other"}});
  EXPECT_EQ(server.allowed(), std::vector<std::string>());
  server.allow({"client", "other"});
  Node client("client", root_.options());
  Node third("third", {.root = root_.path, .key = root_.options().key, .allow = {{"client", "other"}}});
  EXPECT_EQ(third.allowed(), (std::vector<std::string>{"client", "other"}));
  server.serve("listed", echo, {{"client", "other"}});
  server.serve("options", echo, {.allow = {{"client", "other"}}});
  server.serve("plain", echo, {"client", "other"});
  server.serve("strangers", echo, {{"other", "another"}});
  for (const char* const name : {"listed", "options", "plain"}) {
    EXPECT_EQ(client.call("server", name, {{"data", 1}}), Value(1)) << name;
  }
  EXPECT_THROW(client.call("server", "strangers", {{"data", 1}}), AccessDeniedError);
}

TEST_F(CallTest, a_service_beyond_the_deadline_is_answered_with_its_phase_s_4) {
  std::latch release(1);
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("slow", [&](const Request&) -> Response {
    release.wait();
    return Value(1);
  });
  try {
    client.call("server", "slow", {}, {.timeout = Seconds(0.2)});
    ADD_FAILURE() << "no timeout";
  } catch (const CallTimeoutError& error) {
    EXPECT_EQ(*error.details().find("phase"), Value("running"));
  }
  release.count_down();
}

TEST_F(CallTest, a_slow_call_blocks_no_other_s_5) {
  std::latch release(1);
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("slow", [&](const Request&) -> Response {
    release.wait();
    return Value("slow");
  });
  server.serve("echo", echo);
  std::future<Value> slow = client.submit("server", "slow");
  EXPECT_EQ(client.call("server", "echo", {{"data", 1}}), Value(1));
  release.count_down();
  EXPECT_EQ(slow.get(), Value("slow"));
}

TEST_F(CallTest, requests_of_one_sender_start_in_order_s_5) {
  std::mutex lock;
  std::vector<std::int64_t> seen;
  std::vector<std::future<Value>> futures;
  NodeOptions options = root_.options({"client"});
  options.workers = 1;  // with more, what started first may come second to the lock
  Node server("server", options);
  Node client("client", root_.options());
  server.serve("note", [&](const Request& request) -> Response {
    const std::lock_guard guard(lock);
    seen.push_back(request.get<std::int64_t>("n"));
    return {};
  });
  for (int n = 0; n < 3000; ++n) futures.push_back(client.submit("server", "note", {{"n", n}}));
  for (auto& future : futures) future.get();
  const std::lock_guard guard(lock);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(seen.size(), 3000U);
}

TEST_F(CallTest, calls_from_many_threads_all_get_their_own_answer) {
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("echo", echo);
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int n = 0; n < 200; ++n)
        right += client.call("server", "echo", {{"data", thread * 1000 + n}}) == Value(thread * 1000 + n);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 800);
}

TEST_F(CallTest, a_service_may_call_back_its_caller) {
  Node one("one", root_.options({"two"}));
  Node two("two", root_.options({"one"}));
  one.serve("inner", [](const Request&) -> Response { return Value(42); });
  two.serve("outer", [&](const Request& request) -> Response { return two.call(request.caller, "inner"); });
  EXPECT_EQ(one.call("two", "outer"), Value(42));
}

TEST_F(CallTest, a_callback_gets_the_result_or_the_error) {
  std::promise<Value> result;
  std::promise<std::string> code;
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("echo", echo);
  client.submit("server", "echo", {{"data", 5}}, [&](std::future<Value> done) { result.set_value(done.get()); });
  client.submit("server", "absent", {}, [&](std::future<Value> done) {
    try {
      done.get();
    } catch (const Error& error) {
      code.set_value(std::string(error.code()));
    }
  });
  EXPECT_EQ(result.get_future().get(), Value(5));
  EXPECT_EQ(code.get_future().get(), "SERVICE_NOT_FOUND");
}

TEST_F(CallTest, a_large_payload_travels_whole) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("echo", echo);
  Bytes data(9 << 20);
  for (std::size_t at = 0; at < data.size(); ++at) data[at] = static_cast<std::byte>(at * 31);
  EXPECT_EQ(client.call("server", "echo", {{"data", data}}), Value(data));
}

TEST_F(CallTest, a_request_carries_its_trace_on_s_13) {
  Node server("server", root_.options({"middle"}));
  Node middle("middle", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("trace", [](const Request& request) -> Response { return Value(request.traceparent.value_or("none")); });
  middle.serve("pass", [&](const Request&) -> Response { return middle.call("server", "trace"); });
  const std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  EXPECT_EQ(client.call("middle", "pass", {}, {.traceparent = trace}), Value(trace));
}

TEST_F(CallTest, a_node_tells_of_itself_only_what_the_asker_may_call_s_12_a_5) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("open", echo);
  server.serve("closed", echo, {.allow = {{"another"}}});
  client.call("server", "open", {{"data", 1}});
  EXPECT_EQ(client.services("server"), std::vector<std::string>{"open"});
  EXPECT_EQ(*client.info("server").find("language"), Value("c++"));
  const Map services = client.stats("server").find("services")->as<Map>();
  EXPECT_EQ(*services.find("open")->as<Map>().find("numRequests"), Value(1));
  EXPECT_GT(client.ping("server"), Seconds(0));
}

TEST_F(CallTest, stats_tell_the_code_of_the_last_error_and_not_what_a_caller_sent_s_14) {
  Node server("server", root_.options({"a", "b"}));
  Node one("a", root_.options());
  Node other("b", root_.options());
  server.serve("bad", [](const Request&) -> Response { throw std::runtime_error("no account DE89"); });
  server.serve("own", [](const Request&) { return Response::error("NO_ACCOUNT_DE89", "x"); });
  EXPECT_THROW(one.call("server", "bad"), ExecutionFailedError);
  EXPECT_THROW(one.call("server", "own"), ApplicationError);
  const auto last_error = [&](const std::string& service) {
    const Map services = other.stats("server").find("services")->as<Map>();
    const Value* const row = services.find(service);
    return row == nullptr ? Value() : *row->as<Map>().find("lastError");
  };
  EXPECT_TRUE(eventually([&] { return last_error("bad") == Value("EXECUTION_FAILED"); }));
  EXPECT_TRUE(eventually([&] { return last_error("own") == Value("APPLICATION"); }));
}

TEST_F(CallTest, the_message_of_a_failure_acts_on_no_terminal_w_19) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("hostile", [](const Request&) { return Response::error("INVALID_ARGUMENTS", "no\x1b[31m\nforged"); });
  try {
    client.call("server", "hostile");
    ADD_FAILURE() << "it was answered";
  } catch (const InvalidArgumentsError& error) {
    EXPECT_NE(std::string(error.what()).find(R"(no\x1b[31m\nforged)"), std::string::npos) << error.what();
  }
}

TEST_F(CallTest, requests_for_services_that_are_not_there_are_counted_together_s_14) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  for (int number = 0; number < 5; ++number) {
    EXPECT_THROW(client.call("server", "later" + std::to_string(number)), ServiceNotFoundError);
  }
  server.serve("later0", echo);
  client.call("server", "later0", {{"data", 1}});
  const auto count = [&] {
    const Map services = client.stats("server").find("services")->as<Map>();
    const Value* const row = services.find("later0");
    return row == nullptr ? Value(0) : *row->as<Map>().find("numRequests");
  };
  EXPECT_TRUE(eventually([&] { return count() != Value(0); }));
  EXPECT_EQ(count(), Value(1));
  EXPECT_EQ(*client.stats("server").find("counters")->as<Map>().find("requests_for_no_service"), Value(5));
}

TEST_F(CallTest, a_call_ends_when_the_other_process_is_killed_s_7) {
  AgentProcess agent(root_, "agent", {"--allow", "client"});
  Node client("client", root_.options());
  std::future<Value> pending = client.submit("agent", "sleep", {{"seconds", 30}});
  agent.kill(SIGKILL);
  EXPECT_THROW(pending.get(), NodeLeftError);
}

}  // namespace
}  // namespace speed
