// Nodes that end, from without and from within, and work that waits for other work (T-3, T-12, T-13, R-15).
#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <thread>

#include "fabric.hpp"
#include "fs/clock.hpp"

namespace speed {
namespace {

using test::echo;
using test::eventually;
using test::hang_time;
using test::TestRoot;

class ClosingTest : public testing::Test {
 protected:
  NodeOptions one_worker(std::vector<std::string> allow) const {
    NodeOptions options = root_.options(std::move(allow));
    options.workers = 1;
    return options;
  }

  TestRoot root_;
};

TEST_F(ClosingTest, a_node_closed_from_its_service_does_not_wait_for_itself_t_12) {
  std::atomic<Duration> took = -1ns;
  Node server("server", one_worker({"client"}));
  Node client("client", root_.options());
  server.serve("close", [&](const Request&) -> Response {
    const TimePoint began = fs::monotonic_now();
    server.close(10 * hang_time);
    took = fs::monotonic_now() - began;
    return Value(1);
  });
  EXPECT_THROW(client.call("server", "close", {}, {.timeout = hang_time}), Error);
  EXPECT_TRUE(eventually([&] { return took.load() >= 0ns; }));
  EXPECT_LT(took.load(), hang_time);
}

TEST_F(ClosingTest, a_node_closed_from_its_handler_does_not_wait_for_itself_t_12) {
  std::atomic<Duration> took = -1ns;
  Node receiver("receiver", one_worker({"sender"}));
  Node sender("sender", root_.options());
  receiver.on_message([&](Message&) {
    const TimePoint began = fs::monotonic_now();
    receiver.close(10 * hang_time);
    took = fs::monotonic_now() - began;
  });
  sender.send("receiver", 1);
  EXPECT_TRUE(eventually([&] { return took.load() >= 0ns; }));
  EXPECT_LT(took.load(), hang_time);
}

TEST_F(ClosingTest, a_node_ends_once_its_last_service_was_withdrawn_t_13) {
  std::latch entered(1);
  Node server("server", one_worker({"client"}));
  Node client("client", root_.options());
  server.serve("hold", [&](const Request& request) -> Response {
    entered.count_down();
    while (!request.cancelled()) usleep(1000);
    return Value(1);
  });
  std::stop_source stop;
  std::future<Value> held = client.submit("server", "hold", {}, {.timeout = Seconds(300), .stop = stop.get_token()});
  entered.wait();
  std::future<void> closed = std::async(std::launch::async, [&] { server.close(3 * hang_time); });
  ASSERT_TRUE(eventually([&] { return client.nodes().size() == 1; }));  // it is leaving
  stop.request_stop();
  EXPECT_EQ(closed.wait_for(hang_time), std::future_status::ready);
  EXPECT_EQ(held.get(), Value(1));
}

// A service that holds its node would else keep it for ever.
TEST_F(ClosingTest, a_closed_node_lets_go_of_services_and_handlers) {
  const auto held = std::make_shared<int>(1);
  Node node("node", root_.options());
  node.serve("service", [held](const Request&) -> Response { return Value(*held); });
  node.on_message([held](Message&) {});
  node.subscribe("topic", [held](Message&) {});
  node.on_join([held](const NodeInfo&) {});
  node.on_leave([held](const NodeInfo&) {});
  node.on_lost([held](const std::exception_ptr&) {});
  EXPECT_GE(held.use_count(), 7);
  node.close();
  EXPECT_TRUE(eventually([&] { return held.use_count() == 1; }));
}

TEST_F(ClosingTest, a_closed_node_lets_go_of_its_handler_of_batches) {
  const auto held = std::make_shared<int>(1);
  Node node("node", root_.options());
  node.on_batch({}, [held](std::vector<Message>&) { return Node::Refusals{}; });
  node.close();
  EXPECT_TRUE(eventually([&] { return held.use_count() == 1; }));
}

TEST_F(ClosingTest, an_event_whose_first_handler_closes_the_node_reaches_the_second_t_12) {
  std::atomic<bool> reached = false;
  Node receiver("receiver", one_worker({"sender"}));
  Node sender("sender", root_.options());
  receiver.subscribe("topic", [&](Message&) { receiver.close(Seconds(0.1)); });
  receiver.subscribe("topic", [&](Message&) { reached = true; });
  sender.wait_for("receiver", hang_time);
  sender.publish("topic", 1);
  EXPECT_TRUE(eventually([&] { return reached.load(); }));
}

TEST_F(ClosingTest, calls_there_and_back_again_need_no_more_workers_than_one_t_3) {
  Node a("a", one_worker({"b", "client"}));
  Node b("b", one_worker({"a"}));
  Node client("client", root_.options());
  const auto pass = [](Node& node, const char* other) {
    return [&node, other](const Request& request) -> Response {
      const auto left = request.get<std::int64_t>("left");
      if (left == 0) return Value(0);
      return Value(1 + node.call(other, "pass", {{"left", left - 1}}).as<std::int64_t>());
    };
  };
  a.serve("pass", pass(a, "b"));
  b.serve("pass", pass(b, "a"));
  EXPECT_EQ(client.call("a", "pass", {{"left", 12}}, {.timeout = hang_time}), Value(12));
}

TEST_F(ClosingTest, a_service_may_call_its_own_node_t_12) {
  Node node("node", one_worker({"node", "client"}));
  Node client("client", root_.options());
  node.serve("echo", echo);
  node.serve("outer", [&](const Request&) -> Response { return node.call("node", "echo", {{"data", 7}}); });
  EXPECT_EQ(client.call("node", "outer", {}, {.timeout = hang_time}), Value(7));
}

TEST_F(ClosingTest, slow_services_leave_a_worker_to_handlers_t_3) {
  std::latch entered(1);
  std::latch release(1);
  Node node("node", one_worker({"client"}));
  Node client("client", root_.options());
  node.serve("slow", [&](const Request&) -> Response {
    entered.count_down();
    release.wait();
    return Value(1);
  });
  node.on_message([](Message&) {});
  std::future<Value> slow = client.submit("node", "slow");
  entered.wait();
  EXPECT_NO_THROW(client.send("node", 1, {.timeout = hang_time, .ack = true}));
  release.count_down();
  EXPECT_EQ(slow.get(), Value(1));
}

TEST_F(ClosingTest, who_leaves_is_seen_to_leave_and_takes_nothing_more_r_15) {
  std::latch entered(1);
  std::latch release(1);
  Node server("server", one_worker({"client"}));
  Node client("client", root_.options());
  server.serve("slow", [&](const Request&) -> Response {
    entered.count_down();
    release.wait();
    return Value("done");
  });
  std::future<Value> slow = client.submit("server", "slow");
  entered.wait();
  std::thread closing([&] { server.close(10 * hang_time); });
  EXPECT_TRUE(eventually([&] { return client.nodes().size() == 1; }));
  try {
    client.call("server", "slow");
    ADD_FAILURE() << "it was called";
  } catch (const NodeLeftError& error) {
    EXPECT_EQ(error.execution(), Execution::not_begun);
  }
  EXPECT_THROW(client.ping("server"), NodeLeftError);
  EXPECT_THROW(client.send("server", 1), NodeLeftError);
  EXPECT_THROW(client.wait_for("server", Seconds(0)), UnknownNodeError);
  release.count_down();
  EXPECT_EQ(slow.get(), Value("done"));
  closing.join();
}

}  // namespace
}  // namespace speed
