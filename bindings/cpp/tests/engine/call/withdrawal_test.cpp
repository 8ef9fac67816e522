// Calls that their callers take back, and callers that are gone (S-16, T-8).
#include <gtest/gtest.h>

#include <latch>

#include "fabric.hpp"

namespace speed {
namespace {

using test::AgentProcess;
using test::counter;
using test::eventually;
using test::TestRoot;

class WithdrawalTest : public testing::Test {
 protected:
  WithdrawalTest() {
    options_ = root_.options({"client", "agent"});
    options_.workers = 1;
  }

  TestRoot root_;
  NodeOptions options_;
};

TEST_F(WithdrawalTest, one_that_waits_never_begins_s_16) {
  std::latch entered(1);
  std::latch release(1);
  std::atomic<int> noted = 0;
  std::vector<std::future<Value>> waiting;
  Node server("server", options_);
  Node client("client", root_.options());
  server.serve("block", [&](const Request&) -> Response {
    entered.count_down();
    release.wait();
    return Value(1);
  });
  server.serve("note", [&](const Request&) -> Response { return Value(++noted); });
  std::future<Value> blocking = client.submit("server", "block");
  entered.wait();
  std::stop_source stop;
  for (int n = 0; n < 200; ++n) {
    waiting.push_back(client.submit("server", "note", {}, {.timeout = Seconds(300), .stop = stop.get_token()}));
  }
  stop.request_stop();
  for (std::future<Value>& one : waiting) {
    try {
      one.get();
      ADD_FAILURE() << "it ran";
    } catch (const CallWithdrawnError& error) {
      EXPECT_EQ(error.execution(), Execution::not_begun);
    }
  }
  release.count_down();
  EXPECT_EQ(blocking.get(), Value(1));
  EXPECT_EQ(client.call("server", "note"), Value(1));
  EXPECT_EQ(counter(server, "requests_withdrawn"), 200);
}

TEST_F(WithdrawalTest, one_that_is_still_put_together_never_begins_g_14) {
  std::latch entered(1);
  std::latch release(1);
  std::atomic<int> ran = 0;
  Node server("server", options_);
  Node client("client", root_.options({"server"}));
  server.on_message([&](Message&) {  // in the place in which the request would be put together
    entered.count_down();
    release.wait();
  });
  server.serve("note", [&](const Request&) -> Response { return Value(++ran); });
  client.send("server", "hold");
  entered.wait();
  client.segment("server", 1U << 20U);
  std::stop_source stop;
  std::future<Value> large = client.submit("server", "note", {{"data", Bytes(3U << 20U)}},
                                           {.timeout = Seconds(300), .stop = stop.get_token()});
  client.ping("server");  // all of it was read
  stop.request_stop();
  EXPECT_TRUE(eventually([&] { return counter(client, "calls_withdrawn") == 1; }));
  client.ping("server");  // and that it is withdrawn
  release.count_down();
  EXPECT_THROW(large.get(), CallWithdrawnError);
  EXPECT_EQ(ran, 0);
}

TEST_F(WithdrawalTest, one_that_runs_is_told_and_may_end_s_16) {
  std::latch entered(1);
  Node server("server", options_);
  Node client("client", root_.options());
  server.serve("wait", [&](const Request& request) -> Response {
    entered.count_down();
    EXPECT_TRUE(eventually([&] { return request.cancelled(); }));
    request.throw_if_cancelled();
    return Value(1);
  });
  std::stop_source stop;
  std::future<Value> call = client.submit("server", "wait", {}, {.timeout = Seconds(300), .stop = stop.get_token()});
  entered.wait();
  stop.request_stop();
  try {
    call.get();
    ADD_FAILURE() << "it was not withdrawn";
  } catch (const CallWithdrawnError& error) {
    EXPECT_EQ(error.execution(), Execution::may_have_run);
  }
}

TEST_F(WithdrawalTest, a_call_whose_token_is_used_up_is_not_written_s_16) {
  Node server("server", options_);
  Node client("client", root_.options());
  std::stop_source stop;
  stop.request_stop();
  try {
    client.call("server", "any", {}, {.stop = stop.get_token()});
    ADD_FAILURE() << "it was written";
  } catch (const CallWithdrawnError& error) {
    EXPECT_EQ(error.execution(), Execution::not_begun);
  }
}

TEST_F(WithdrawalTest, a_passed_deadline_cancels_what_runs_s_4) {
  std::atomic<bool> cancelled = false;
  Node server("server", options_);
  Node client("client", root_.options());
  server.serve("wait", [&](const Request& request) -> Response {
    cancelled = eventually([&] { return request.cancelled(); });
    return Value(1);
  });
  EXPECT_THROW(client.call("server", "wait", {}, {.timeout = Seconds(0.2)}), CallTimeoutError);
  EXPECT_TRUE(eventually([&] { return cancelled.load(); }));
}

TEST_F(WithdrawalTest, the_token_of_a_request_withdraws_what_its_service_calls_s_16) {
  std::latch entered(1);
  std::atomic<bool> withdrawn = false;
  Node backend("backend", root_.options({"server"}));
  Node server("server", options_);
  Node client("client", root_.options());
  backend.serve("wait", [&](const Request& request) -> Response {
    entered.count_down();
    withdrawn = eventually([&] { return request.stop_token().stop_requested(); });
    request.throw_if_cancelled();
    return {};
  });
  server.serve("relay", [&](const Request& request) -> Response {
    return server.call("backend", "wait", {}, {.timeout = Seconds(300), .stop = request.stop_token()});
  });
  std::stop_source stop;
  std::future<Value> call = client.submit("server", "relay", {}, {.timeout = Seconds(300), .stop = stop.get_token()});
  entered.wait();
  stop.request_stop();
  EXPECT_THROW(call.get(), CallWithdrawnError);
  EXPECT_TRUE(eventually([&] { return withdrawn.load(); }));
}

TEST_F(WithdrawalTest, what_a_dead_caller_asked_for_is_forgotten_t_8) {
  std::latch entered(1);
  std::atomic<bool> cancelled = false;
  std::atomic<int> noted = 0;
  Node server("server", options_);
  server.serve("wait", [&](const Request& request) -> Response {
    entered.count_down();
    cancelled = eventually([&] { return request.cancelled(); });
    return Value(1);
  });
  server.serve("note", [&](const Request&) -> Response { return Value(++noted); });
  {
    NodeOptions quick = root_.options();
    AgentProcess agent(root_, "agent");
    std::thread calling([&] {
      agent({{"id", 1},
             {"op", "call"},
             {"target", "server"},
             {"service", "wait"},
             {"arguments", {{"map", nlohmann::json::array()}}}});
    });
    entered.wait();
    agent.kill(SIGKILL);
    calling.join();
  }
  EXPECT_TRUE(eventually([&] { return cancelled.load(); }));
  EXPECT_TRUE(eventually([&] { return counter(server, "requests_forgotten") == 1; }));
  EXPECT_EQ(noted, 0);
}

}  // namespace
}  // namespace speed
