// A node under strain: full inboxes, held-up workers, requests that come too late, callers while it ends or others die.
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "engine/runtime.hpp"
#include "fabric.hpp"
#include "fs/clock.hpp"
#include "wire/names/names.hpp"
#include "wire/value/control.hpp"

namespace speed {
namespace {

using engine::Runtime;
using engine::Workers;
using test::AgentProcess;
using test::counter;
using test::echo;
using test::eventually;
using test::hang_time;
using test::TestRoot;

class RuntimeTest : public testing::Test {
 protected:
  // A node that never reads.
  std::shared_ptr<Runtime> deaf(const std::string& name, std::vector<std::string> allow = {}) const {
    return Runtime::make(name, root_.options(std::move(allow)));
  }
  // One whose lanes hold little.
  NodeOptions narrow(std::vector<std::string> allow = {}) const {
    NodeOptions options = root_.options(std::move(allow));
    options.max_lane_bytes = 10000;
    return options;
  }

  TestRoot root_;
};

// --- the end of a node ---

TEST_F(RuntimeTest, a_call_that_races_the_end_of_its_node_is_refused_and_not_written_s_7) {
  Node server("server", root_.options({"client"}));
  const auto client = Runtime::make("client", root_.options());
  client->start();
  client->leave({});  // every call below has looked before whether the node is open
  const auto nothing = [](const core::Outcome&) {};
  const Map arguments;
  const TimePoint until = fs::monotonic_now() + 300s;
  EXPECT_THROW(client->calls.start({"server", "any", arguments, 300s, {}}, nothing), NodeClosedError);
  EXPECT_THROW(client->calls.ask("server", wire::EnvelopeType::heartbeat, {}, 300s, nothing), NodeClosedError);
  EXPECT_FALSE(std::filesystem::exists(wire::lane_dir(root_.path, "server", "client")));
  EXPECT_THROW(client->calls.send_acknowledged("server", wire::EnvelopeType::message, {}, 300s, false, nothing),
               NodeClosedError);
  EXPECT_THROW(client->calls.track_ack("server", 1, until, nothing), NodeClosedError);
  EXPECT_EQ(client->calls.pending(), 0U);
  EXPECT_FALSE(std::filesystem::exists(wire::lane_dir(root_.path, "server", "client")));
}

// --- workers ---

// Threads that run tasks, and a reader without anything to read.
class Pool {
 public:
  explicit Pool(std::size_t size) : workers(size) {}

  static std::shared_ptr<Pool> make(std::size_t size) {
    auto pool = std::make_shared<Pool>(size);
    Workers::Callbacks callbacks;
    callbacks.step = [raw = pool.get()](bool wait) {
      if (wait) ++raw->waits_;
      usleep(100);
    };
    callbacks.flush = [raw = pool.get()](bool may_wait) {
      EXPECT_EQ(may_wait, raw->workers.on_worker());
      ++(may_wait ? raw->patient : raw->impatient);
      return may_wait;
    };
    callbacks.answers = [raw = pool.get()] { return raw->answers.load(); };
    callbacks.calls = [] { return std::size_t{0}; };
    callbacks.wake = [] {};
    pool->workers.start(std::move(callbacks), pool);
    return pool;
  }

  // With tasks queued: until a reader has seen twice that no more of them can run at once.
  bool all_run() {
    const int seen = waits_;
    return eventually([&] { return waits_ >= seen + 2; });
  }

  Workers workers;
  std::atomic<std::size_t> answers = 0;  // that find no room at once
  std::atomic<int> patient = 0;  // flushes
  std::atomic<int> impatient = 0;

 private:
  std::atomic<int> waits_ = 0;
};

TEST(Workers, only_a_worker_waits_for_the_room_of_an_answer_and_others_read_s_5_s_10) {
  std::latch ends(1);
  const auto pool = Pool::make(1);
  pool->answers = 1;
  pool->workers.submit([&] { ends.wait(); });
  EXPECT_TRUE(eventually([&] { return pool->impatient > 2; }));
  EXPECT_TRUE(pool->all_run());
  ends.count_down();
  EXPECT_TRUE(eventually([&] { return pool->patient > 2; }));  // a worker comes although no task is left
  pool->answers = 0;
  EXPECT_TRUE(pool->workers.drain(hang_time));
  pool->workers.stop(hang_time);
}

// --- serving ---

TEST_F(RuntimeTest, a_request_whose_deadline_passed_in_the_queue_is_never_invoked_s_4) {
  constexpr int calls = 50;
  std::atomic<int> invoked = 0;
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("note", [&](const Request&) -> Response { return Value(++invoked); });
  for (int n = 0; n < calls; ++n) {
    EXPECT_THROW(client.call("server", "note", {}, {.timeout = Seconds(0)}), CallTimeoutError);
  }
  EXPECT_TRUE(eventually([&] { return counter(server, "requests_timed_out_queued") >= calls; }));
  EXPECT_EQ(client.call("server", "note"), Value(1));
  EXPECT_EQ(counter(server, "requests_timed_out_queued"), calls);
  EXPECT_EQ(counter(server, "requests_timed_out_running"), 0);
}

// --- full inboxes of others ---

TEST_F(RuntimeTest, a_sender_waits_no_longer_than_its_own_deadline_behind_another_l_6) {
  const auto receiver = deaf("receiver", {"sender"});
  Node sender("sender", narrow());
  sender.send("receiver", Bytes(9000));
  std::thread patient(
      [&] { EXPECT_THROW(sender.send("receiver", Bytes(9000), {.timeout = Seconds(60)}), InboxFullError); });
  const TimePoint began = fs::monotonic_now();
  for (int n = 0; n < 20; ++n) {
    usleep(1000);  // or the other might never get the lock that it waits with
    EXPECT_THROW(sender.send("receiver", Bytes(9000), {.timeout = Seconds(0.05)}), InboxFullError);
    EXPECT_THROW(sender.call("receiver", "any", {{"data", Bytes(9000)}}, {.timeout = Seconds(0.05)}), InboxFullError);
  }
  EXPECT_LT(fs::monotonic_now() - began, hang_time);
  sender.close(Seconds(0));
  patient.join();
}

TEST_F(RuntimeTest, all_who_waited_for_room_send_once_there_is_some_l_6) {
  constexpr int senders = 6;
  AgentProcess receiver(root_, "receiver", {"--allow", "sender"});
  Node sender("sender", narrow());
  receiver.pause();
  sender.send("receiver", Map{{"n", 0}, {"filler", Bytes(9000)}});
  std::vector<std::thread> waiting;
  for (int n = 1; n <= senders; ++n) {
    waiting.emplace_back([&] {
      EXPECT_NO_THROW(sender.send("receiver", Map{{"n", 1}, {"filler", Bytes(9000)}}, {.timeout = Seconds(60)}));
    });
  }
  receiver.resume();
  const auto read = receiver({{"id", 1}, {"op", "drain"}, {"count", senders + 1}, {"timeout", 60}})["result"];
  EXPECT_EQ(read["received"], senders + 1);
  for (std::thread& one : waiting) one.join();
}

TEST_F(RuntimeTest, the_reader_waits_for_no_sender_when_a_node_comes_back_l_6) {
  Node sender("sender", narrow({"receiver", "other"}));
  Node other("other", root_.options());
  const auto receiver = deaf("receiver", {"sender"});
  sender.send("receiver", Bytes(9000));
  std::thread patient(
      [&] { EXPECT_THROW(sender.send("receiver", Bytes(9000), {.timeout = Seconds(60)}), InboxFullError); });
  EXPECT_THROW(sender.send("receiver", Bytes(9000), {.timeout = Seconds(0.05)}), Error);
  receiver->context.registration->remove();
  const auto successor = deaf("receiver", {"sender"});
  const Bytes ping = wire::pack(Map{{"requestId", "1"}});
  const ByteView one(ping);
  successor->links.granted("sender")->send({wire::EnvelopeType::heartbeat, 0, {&one, 1}});
  EXPECT_TRUE(eventually([&] { return counter(sender, "replies_undelivered") == 1; }));
  EXPECT_NO_THROW(other.ping("sender", hang_time));
  sender.close(Seconds(0));
  patient.join();
}

TEST_F(RuntimeTest, a_link_that_is_opened_as_the_name_is_lost_says_that_it_is_lost_r_12) {
  const auto node = deaf("billing", {});
  node->context.life.lose(std::make_exception_ptr(LeaseLostError("lost")));
  node->links.shut();
  EXPECT_THROW(node->links.open("analytics", 1), LeaseLostError);
}

// --- nodes that left or died ---

TEST_F(RuntimeTest, what_a_node_answered_before_it_left_is_read_before_its_callers_are_told_s_7) {
  constexpr int calls = 20;
  std::latch arrived(calls);
  std::latch answer(1);
  NodeOptions options = root_.options({"agent"});
  options.workers = calls;
  Node server("server", options);
  server.serve("large", [&](const Request&) -> Response {
    arrived.count_down();
    answer.wait();
    return Value(Bytes(1 << 20));
  });
  AgentProcess agent(root_, "agent");
  nlohmann::json told;
  std::thread calling([&] {
    told = agent(
        {{"id", 1}, {"op", "pipeline"}, {"target", "server"}, {"service", "large"}, {"count", calls}, {"timeout", 60}});
  });
  arrived.wait();
  agent.pause();
  answer.count_down();
  server.close(hang_time);
  agent.resume();
  calling.join();
  EXPECT_EQ(told["error"], "UNKNOWN_NODE") << told;  // of the call that the agent makes once it has all answers
}

TEST_F(RuntimeTest, a_killed_server_is_noticed_however_seldom_it_renews_its_lease_s_7_l_9) {
  AgentProcess agent(root_, "agent", {"--allow", "client", "--lease", "3600", "--heartbeat", "1000"});
  Node client("client", root_.options());
  std::future<Value> pending = client.submit("agent", "sleep", {{"seconds", 300}}, {.timeout = Seconds(300)});
  agent.kill(SIGKILL);
  ASSERT_EQ(pending.wait_for(hang_time), std::future_status::ready);
  EXPECT_THROW(pending.get(), NodeLeftError);
  EXPECT_THROW(client.call("agent", "echo"), UnknownNodeError);  // what is known to be dead is not written to
}

TEST_F(RuntimeTest, a_call_to_a_killed_server_ends_although_its_lease_has_not_s_7_l_9) {
  AgentProcess agent(root_, "agent", {"--allow", "client", "--lease", "3600", "--heartbeat", "1000"});
  Node client("client", root_.options());
  agent.kill(SIGKILL);
  std::future<Value> pending = client.submit("agent", "sleep", {{"seconds", 300}}, {.timeout = Seconds(300)});
  ASSERT_EQ(pending.wait_for(hang_time), std::future_status::ready);
  EXPECT_THROW(pending.get(), NodeLeftError);
}

// --- errors that quote anything ---

TEST(Readable, a_text_is_cut_between_characters_and_what_is_none_is_replaced) {
  EXPECT_EQ(wire::readable("größe"), "größe");
  EXPECT_EQ(wire::readable("größe", 3), "gr");
  EXPECT_EQ(wire::readable("größe", 4), "grö");
  EXPECT_EQ(wire::readable("a\xff\xc3z\xe2\x82"), "a??z??");
  EXPECT_EQ(wire::readable("", 0), "");
}

TEST_F(RuntimeTest, a_failure_is_told_whatever_its_text_holds_and_the_next_message_is_handled_s_11) {
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  const std::string cut = std::string(1999, 'x');
  receiver.on_message([cut](Message& message) {
    const auto number = message.payload().as<std::int64_t>();
    if (number == 0) throw std::runtime_error("bad \xff text");
    if (number == 1) throw std::runtime_error(cut + "ü");
  });
  const auto told = [&](int number) {
    try {
      sender.send("receiver", number, {.timeout = hang_time, .ack = true});
      return std::string("handled");
    } catch (const ExecutionFailedError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(told(0), "receiver: bad ? text");
  EXPECT_EQ(told(1), "receiver: " + cut);
  EXPECT_EQ(told(2), "handled");
}

TEST_F(RuntimeTest, a_node_tells_of_itself_whatever_its_last_error_holds_s_12) {
  std::string umlauts;
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  for (int n = 0; n < 600; ++n) umlauts += "ü";
  server.serve("even", [umlauts](const Request&) -> Response { throw std::runtime_error(umlauts); });
  server.serve("odd", [umlauts](const Request&) -> Response { throw std::runtime_error("x" + umlauts); });
  server.serve("code", [](const Request&) -> Response { return Response::error("\xff", "bad \xff text"); });
  EXPECT_THROW(client.call("server", "even"), ExecutionFailedError);
  EXPECT_THROW(client.call("server", "odd"), ExecutionFailedError);
  const Map services = client.stats("server", hang_time).find("services")->as<Map>();
  EXPECT_EQ(*services.find("odd")->as<Map>().find("numErrors"), Value(1));
  EXPECT_THROW(client.call("server", "code"), ExecutionFailedError);
}

}  // namespace
}  // namespace speed
