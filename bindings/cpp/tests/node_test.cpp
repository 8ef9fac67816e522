// Nodes that talk to each other, in one process and in several, over real files.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <latch>
#include <thread>

#include "fabric.hpp"
#include "wire/names.hpp"

namespace speed {
namespace {

using test::AgentProcess;
using test::eventually;
using test::TestRoot;

Response echo(const Request& request) { return request.get<Value>("data"); }

class NodeTest : public testing::Test {
 protected:
  TestRoot root_;
};

TEST_F(NodeTest, a_call_returns_what_the_service_answers) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("echo", echo);
  const Value data = Map{{"a", Array{1, 2.5, "x", Bytes{std::byte{1}}, nullptr, true}}};
  EXPECT_EQ(client.call("server", "echo", {{"data", data}}), data);
}

TEST_F(NodeTest, a_call_without_a_grant_touches_no_file_a_3) {
  Node server("server", root_.options());
  Node client("client", root_.options());
  EXPECT_THROW(client.call("server", "echo"), AccessDeniedError);
  EXPECT_FALSE(std::filesystem::exists(wire::lane_dir(root_.path, "server", "client")));
}

TEST_F(NodeTest, a_call_to_nobody_says_so) {
  Node client("client", root_.options());
  EXPECT_THROW(client.call("nobody", "echo"), UnknownNodeError);
}

TEST_F(NodeTest, each_failure_of_a_call_has_its_class_s_8) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("throws", [](const Request&) -> Response { throw std::runtime_error("boom"); });
  server.serve("needs", [](const Request& request) -> Response { return Value(request.get<std::int64_t>("x")); });
  server.serve("closed", echo, {{"another"}});
  server.serve("unsendable", [](const Request&) -> Response { return Value(std::string("\xff")); });
  EXPECT_THROW(client.call("server", "absent"), ServiceNotFoundError);
  EXPECT_THROW(client.call("server", "closed", {{"data", 1}}), AccessDeniedError);
  EXPECT_THROW(client.call("server", "needs", {{"x", "text"}}), InvalidArgumentsError);
  EXPECT_THROW(client.call("server", "throws"), ExecutionFailedError);
  EXPECT_THROW(client.call("server", "unsendable"), ExecutionFailedError);
}

TEST_F(NodeTest, a_service_beyond_the_deadline_is_answered_with_its_phase_s_4) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  std::latch release(1);
  server.serve("slow", [&](const Request&) -> Response { release.wait(); return Value(1); });
  try {
    client.call("server", "slow", {}, {.timeout_seconds = 0.2});
    ADD_FAILURE() << "no timeout";
  } catch (const CallTimeoutError& error) {
    EXPECT_EQ(*error.details().find("phase"), Value("running"));
  }
  release.count_down();
}

TEST_F(NodeTest, a_slow_call_blocks_no_other_s_5) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  std::latch release(1);
  server.serve("slow", [&](const Request&) -> Response { release.wait(); return Value("slow"); });
  server.serve("echo", echo);
  std::future<Value> slow = client.submit("server", "slow");
  EXPECT_EQ(client.call("server", "echo", {{"data", 1}}), Value(1));
  release.count_down();
  EXPECT_EQ(slow.get(), Value("slow"));
}

TEST_F(NodeTest, requests_of_one_sender_start_in_order_s_5) {
  NodeOptions options = root_.options({"client"});
  options.workers = 1;  // with more, what started first may come second to the lock
  Node server("server", options);
  Node client("client", root_.options());
  std::mutex lock;
  std::vector<std::int64_t> seen;
  server.serve("note", [&](const Request& request) -> Response {
    const std::lock_guard guard(lock);
    seen.push_back(request.get<std::int64_t>("n"));
    return {};
  });
  std::vector<std::future<Value>> futures;
  for (int n = 0; n < 3000; ++n) futures.push_back(client.submit("server", "note", {{"n", n}}));
  for (auto& future : futures) future.get();
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(seen.size(), 3000U);
}

TEST_F(NodeTest, calls_from_many_threads_all_get_their_own_answer) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("echo", echo);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int n = 0; n < 200; ++n) right += client.call("server", "echo", {{"data", thread * 1000 + n}}) == Value(thread * 1000 + n);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 800);
}

TEST_F(NodeTest, a_service_may_call_back_its_caller) {
  Node one("one", root_.options({"two"}));
  Node two("two", root_.options({"one"}));
  one.serve("inner", [](const Request&) -> Response { return Value(42); });
  two.serve("outer", [&](const Request& request) -> Response { return two.call(request.caller, "inner"); });
  EXPECT_EQ(one.call("two", "outer"), Value(42));
}

TEST_F(NodeTest, a_callback_gets_the_result_or_the_error) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("echo", echo);
  std::promise<Value> result;
  std::promise<std::string> code;
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

TEST_F(NodeTest, a_large_payload_travels_whole) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("echo", echo);
  Bytes data(9 << 20);
  for (std::size_t at = 0; at < data.size(); ++at) data[at] = static_cast<std::byte>(at * 31);
  EXPECT_EQ(client.call("server", "echo", {{"data", data}}), Value(data));
}

TEST_F(NodeTest, a_payload_beyond_the_limit_is_refused_before_anything_is_written) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  EXPECT_THROW(client.send("server", Bytes(wire::limits::max_payload_bytes + 1)), PayloadTooLargeError);
}

TEST_F(NodeTest, a_message_is_received_once_with_its_metadata) {
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  SendOptions options;
  options.ack = true;
  options.topic = "greeting";
  options.priority = 9;
  options.labels = {{"region", "eu"}};
  const std::string id = sender.send("receiver", "hello", options);
  std::optional<Message> message = receiver.receive(10);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->payload(), Value("hello"));
  EXPECT_EQ(message->source(), "sender");
  EXPECT_EQ(message->message_id(), id);
  EXPECT_EQ(message->topic(), "greeting");
  EXPECT_EQ(message->priority(), 9);
  EXPECT_EQ(message->labels(), options.labels);
  EXPECT_FALSE(message->redelivered());
  EXPECT_FALSE(receiver.receive(0));
}

TEST_F(NodeTest, a_handler_gets_messages_of_one_sender_in_order_s_5) {
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  std::vector<std::int64_t> seen;
  std::latch all(3000);
  receiver.on_message([&](Message& message) {
    seen.push_back(message.payload().as<std::int64_t>());
    all.count_down();
  });
  for (int n = 0; n < 1000; ++n) sender.send("receiver", n);
  std::vector<Value> batch;
  for (int n = 1000; n < 3000; ++n) batch.emplace_back(n);
  sender.send_all("receiver", batch);
  all.wait();
  EXPECT_TRUE(std::ranges::is_sorted(seen));
}

TEST_F(NodeTest, a_failing_handler_is_told_to_a_sender_that_asked_s_11) {
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  receiver.on_message([](Message&) { throw std::runtime_error("no"); });
  SendOptions options;
  options.ack = true;
  EXPECT_THROW(sender.send("receiver", 1, options), ExecutionFailedError);
}

TEST_F(NodeTest, an_expired_message_is_not_handed_out_m_7) {
  Node sender("sender", root_.options());
  SendOptions options;
  options.ttl_seconds = 1;
  {
    AgentProcess receiver(root_, "receiver", {"--allow", "sender"});
    receiver.pause();
    sender.send("receiver", "late", options);
    receiver.kill(SIGKILL);
  }
  usleep(1'100'000);  // the time to live itself
  AgentProcess receiver(root_, "receiver", {"--allow", "sender"});
  options.ttl_seconds = 3600;
  sender.send("receiver", "fresh", options);
  EXPECT_EQ(receiver({{"id", 1}, {"op", "receive"}, {"timeout", 10}})["result"]["payload"], "fresh");
}

TEST_F(NodeTest, an_event_reaches_those_who_subscribed_and_allow) {
  Node publisher("publisher", root_.options());
  Node wants("wants", root_.options({"publisher"}));
  Node other("other", root_.options({"publisher"}));
  Node denies("denies", root_.options());
  std::promise<std::string> heard;
  wants.subscribe("orders.*", [&](Message& message) { heard.set_value(message.topic()); });
  other.subscribe("invoices", [](Message&) { ADD_FAILURE() << "another topic"; });
  denies.subscribe("*", [](Message&) { ADD_FAILURE() << "no grant"; });
  EXPECT_EQ(publisher.publish("orders.created", 1), 1U);
  EXPECT_EQ(heard.get_future().get(), "orders.created");
}

TEST_F(NodeTest, a_request_carries_its_trace_on_s_13) {
  Node server("server", root_.options({"middle"}));
  Node middle("middle", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("trace", [](const Request& request) -> Response { return Value(request.traceparent.value_or("none")); });
  middle.serve("pass", [&](const Request&) -> Response { return middle.call("server", "trace"); });
  const std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  EXPECT_EQ(client.call("middle", "pass", {}, {.traceparent = trace}), Value(trace));
}

TEST_F(NodeTest, a_node_tells_of_itself_only_what_the_asker_may_call_s_12_a_5) {
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("open", echo);
  server.serve("closed", echo, {{"another"}});
  client.call("server", "open", {{"data", 1}});
  EXPECT_EQ(client.services("server"), std::vector<std::string>{"open"});
  EXPECT_EQ(*client.info("server").find("language"), Value("c++"));
  const Map services = client.stats("server").find("services")->as<Map>();
  EXPECT_EQ(*services.find("open")->as<Map>().find("numRequests"), Value(1));
  EXPECT_GT(client.ping("server"), 0);
}

TEST_F(NodeTest, a_name_is_held_by_one_node_at_a_time_r_5) {
  Node first("worker", root_.options());
  EXPECT_THROW(Node("worker", root_.options()), NameTakenError);
  first.close();
  Node second("worker", root_.options());
  EXPECT_EQ(second.generation(), 2U);
}

TEST_F(NodeTest, a_closed_node_says_so_and_leaves_nothing_in_the_registry_r_15) {
  Node node("worker", root_.options());
  node.close();
  EXPECT_TRUE(node.closed());
  EXPECT_THROW(node.nodes(), NodeClosedError);
  EXPECT_FALSE(std::filesystem::exists(wire::entry_path(root_.path, "worker")));
}

TEST_F(NodeTest, joins_and_leaves_are_told_r_16) {
  Node watcher("watcher", root_.options());
  std::promise<std::string> joined;
  std::promise<std::string> left;
  watcher.on_join([&](const NodeInfo& info) { joined.set_value(info.name); });
  watcher.on_leave([&](const NodeInfo& info) { left.set_value(info.name); });
  {
    Node guest("guest", root_.options());
    EXPECT_EQ(joined.get_future().get(), "guest");
  }
  EXPECT_EQ(left.get_future().get(), "guest");
}

TEST_F(NodeTest, a_call_ends_when_the_other_process_is_killed_s_7) {
  AgentProcess agent(root_, "agent", {"--allow", "client"});
  Node client("client", root_.options());
  std::future<Value> pending = client.submit("agent", "sleep", {{"seconds", 30}});
  agent.kill(SIGKILL);
  EXPECT_THROW(pending.get(), NodeLeftError);
}

TEST_F(NodeTest, messages_of_a_killed_receiver_are_delivered_to_its_successor_l_15) {
  Node sender("sender", root_.options());
  {
    AgentProcess agent(root_, "agent", {"--allow", "sender"});
    for (int n = 0; n < 5; ++n) sender.send("agent", Map{{"n", n}});
    EXPECT_EQ(agent({{"id", 1}, {"op", "receive"}, {"timeout", 10}})["result"]["payload"]["n"], 0);
    agent.kill(SIGKILL);
  }
  AgentProcess agent(root_, "agent", {"--allow", "sender"});
  EXPECT_EQ(agent.ready["generation"], 2);
  for (int n = 0; n < 5; ++n) {
    const auto message = agent({{"id", 1}, {"op", "receive"}, {"timeout", 10}})["result"];
    EXPECT_EQ(message["payload"]["n"], n);
    EXPECT_EQ(message["redelivered"], n == 0) << n;  // the one in hand; those behind it were never handed out
  }
}

TEST_F(NodeTest, a_paused_and_replaced_process_loses_its_lease_r_12) {
  AgentProcess paused(root_, "agent", {"--lease", "2", "--heartbeat", "0.5"});
  paused.pause();
  Node observer("observer", root_.options());
  ASSERT_TRUE(eventually([&] { return observer.nodes().size() == 1; }));
  AgentProcess successor(root_, "agent", {"--lease", "2", "--heartbeat", "0.5"});
  EXPECT_EQ(successor.ready["generation"], 2);
  paused.resume();
  EXPECT_TRUE(eventually([&] { return paused({{"id", 1}, {"op", "nodes"}})["error"] == "LEASE_LOST"; }));
  EXPECT_TRUE(successor({{"id", 1}, {"op", "nodes"}})["ok"].get<bool>());
}

TEST_F(NodeTest, without_bells_lanes_are_polled_l_22) {
  NodeOptions options = root_.options({"client"});
  options.polling = true;
  Node server("server", options);
  NodeOptions others = root_.options();
  others.polling = true;
  Node client("client", others);
  server.serve("echo", echo);
  for (int n = 0; n < 20; ++n) EXPECT_EQ(client.call("server", "echo", {{"data", n}}), Value(n));
}

TEST_F(NodeTest, a_full_inbox_is_reported_after_the_timeout_l_6) {
  AgentProcess receiver(root_, "receiver", {"--allow", "sender"});
  NodeOptions options = root_.options();
  options.max_lane_bytes = 10000;
  Node sender("sender", options);
  receiver.pause();
  SendOptions quick;
  quick.timeout_seconds = 0.05;
  int sent = 0;
  const auto fill = [&](int count) {
    for (; sent < count; ++sent) sender.send("receiver", Map{{"n", sent}, {"filler", Bytes(1000)}}, quick);
  };
  EXPECT_THROW(fill(100), InboxFullError);
  receiver.resume();
  quick.timeout_seconds = 20;
  std::thread reading([&] {
    const auto read = receiver({{"id", 1}, {"op", "drain"}, {"count", 100}, {"timeout", 20}})["result"];
    EXPECT_EQ(read["received"], 100);
    EXPECT_TRUE(read["in_order"].get<bool>());
  });
  EXPECT_NO_THROW(fill(100));
  reading.join();
}

TEST_F(NodeTest, a_denied_sender_is_heard_no_more_a_4) {
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  sender.send("receiver", 1);
  EXPECT_TRUE(receiver.receive(10));
  receiver.deny({"sender"});
  EXPECT_THROW(sender.send("receiver", 2), AccessDeniedError);
}

TEST_F(NodeTest, a_foreign_file_in_the_inbox_goes_to_quarantine_l_21) {
  Node node("node", root_.options());
  ASSERT_EQ(symlink("/etc/passwd", (wire::inbox_dir(root_.path, "node") + "/link").c_str()), 0);
  EXPECT_TRUE(eventually([&] {
    return std::filesystem::exists(wire::quarantine_dir(root_.path, "node") + "/00000001.reason");
  }));
}

TEST_F(NodeTest, the_copy_of_a_forked_child_throws_and_harms_nothing) {
  Node node("node", root_.options());
  const pid_t child = fork();
  if (child == 0) {
    int status = 1;
    try {
      node.nodes();
    } catch (const ForkedNodeError&) {
      status = 0;
    }
    _exit(status);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(node.nodes().size(), 1U);
}

TEST_F(NodeTest, settings_that_cannot_work_are_refused_at_once) {
  NodeOptions options = root_.options();
  options.heartbeat_seconds = 10;
  EXPECT_THROW(Node("node", options), ConfigurationError);
  EXPECT_THROW(Node("bell", root_.options()), InvalidNameError);
  options = root_.options();
  chmod(options.key.c_str(), 0644);
  EXPECT_THROW(Node("node", options), KeyFileError);
}

}  // namespace
}  // namespace speed
