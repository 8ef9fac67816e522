// A call belongs to one life of its server: what had not begun goes to the next one, what may have run says so, and a
// node that starts is waited for (S-8, S-21, R-2).
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <thread>

#include "engine/runtime.hpp"
#include "fabric.hpp"
#include "fs/clock.hpp"
#include "wire/names/names.hpp"
#include "wire/value/spc.hpp"

namespace speed {
namespace {

using engine::Runtime;
using test::counter;
using test::eventually;
using test::TestRoot;

struct Counting : Service {
  explicit Counting(std::atomic<int>& counted) : runs(counted) {}
  Response invoke(const Request&) override { return Value(++runs); }
  std::atomic<int>& runs;
};

class OneLifeTest : public testing::Test {
 protected:
  ~OneLifeTest() override {
    if (pid_ > 0) kill();
  }

  // A process with a node `server` and one worker. Its service `hold` holds that up for good, `note` writes a byte, and
  // `charge` writes one and ends the process.
  void start_server(bool idempotent = false) {
    pid_ = fork();
    if (pid_ != 0) return;
    NodeOptions options = root_.options({"client"});
    options.workers = 1;
    Node server("server", options);
    const auto note = [this](const char* file) { std::ofstream(root_.path + "/" + file, std::ios::app) << 'x'; };
    server.serve("hold", [&](const Request&) -> Response {
      note("held");
      while (true) pause();
    });
    server.serve("note", [&](const Request&) -> Response {
      note("noted");
      return Value(1);
    });
    server.serve("charge",
                 [&](const Request&) -> Response {
                   note("charged");
                   _exit(1);
                 },
                 {.idempotent = idempotent});
    while (true) pause();
  }

  void kill() {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  std::string written(const char* file) const {
    std::ifstream stream(root_.path + "/" + file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  // Calls that wait behind one that the server has begun.
  void hold(Node& client) {
    client.wait_for("server");
    held_ = client.submit("server", "hold", {}, {.timeout = Seconds(300)});
    ASSERT_TRUE(eventually([&] { return written("held") == "x"; }));
  }

  std::unique_ptr<Node> successor() {
    NodeOptions options = root_.options({"client"});
    options.starting = true;
    auto node = std::make_unique<Node>("server", options);
    node->serve("note", [this](const Request& request) -> Response {
      is_repeated_ = request.redelivered();
      return Value(++runs_);
    });
    node->serve("charge",
                [this](const Request& request) -> Response {
                  is_repeated_ = request.redelivered();
                  return Value(++runs_);
                },
                {.idempotent = true});
    node->ready();
    return node;
  }

  static Execution execution_of(std::future<Value>& call) {
    try {
      call.get();
      ADD_FAILURE() << "it was answered";
    } catch (const NodeLeftError& error) {
      return error.execution().value();
    }
    return Execution::ran;
  }

  TestRoot root_;
  std::future<Value> held_;
  std::atomic<int> runs_ = 0;
  std::atomic<bool> is_repeated_ = false;
  pid_t pid_ = -1;
};

TEST_F(OneLifeTest, what_had_not_begun_runs_once_in_the_next_life_while_its_caller_waits_s_21) {
  start_server();
  Node client("client", root_.options());
  hold(client);
  client.segment("server", std::nullopt);
  std::future<Value> small = client.submit("server", "note", {}, {.timeout = Seconds(300)});
  std::future<Value> in_slot = client.submit("server", "note", {{"data", Bytes(300 << 10)}}, {.timeout = Seconds(300)});
  client.segment("server", 1U << 16U);
  std::future<Value> in_segments =
      client.submit("server", "note", {{"data", Bytes(300 << 10)}}, {.timeout = Seconds(300)});
  kill();
  const auto next = successor();
  std::set<std::int64_t> answers;
  for (std::future<Value>* const call : {&small, &in_slot, &in_segments})
    answers.insert(call->get().as<std::int64_t>());
  EXPECT_EQ(answers, (std::set<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(execution_of(held_), Execution::may_have_run);
  EXPECT_FALSE(is_repeated_);
  EXPECT_EQ(counter(client, "calls_sent_again"), 3);
  EXPECT_EQ(written("noted"), "");
}

TEST_F(OneLifeTest, without_a_successor_a_call_that_had_not_begun_says_so_s_21) {
  start_server();
  Node client("client", root_.options());
  hold(client);
  std::future<Value> call = client.submit("server", "note", {}, {.timeout = Seconds(300)});
  kill();
  EXPECT_EQ(execution_of(call), Execution::not_begun);
  EXPECT_EQ(execution_of(held_), Execution::may_have_run);
}

TEST_F(OneLifeTest, the_first_call_after_a_death_is_not_begun_noticed_or_not_s_21) {
  start_server();
  Node client("client", root_.options());
  client.wait_for("server");
  EXPECT_EQ(client.call("server", "note"), Value(1));
  kill();
  try {
    std::future<Value> call = client.submit("server", "note", {}, {.timeout = Seconds(300)});
    EXPECT_EQ(execution_of(call), Execution::not_begun);
  } catch (const UnknownNodeError& error) {  // it was noticed before
    EXPECT_EQ(error.execution(), Execution::not_begun);
  }
}

TEST_F(OneLifeTest, what_a_dead_process_had_begun_is_not_begun_again_s_8) {
  start_server();
  Node client("client", root_.options());
  client.wait_for("server");
  std::future<Value> call = client.submit("server", "charge", {}, {.timeout = Seconds(300)});
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
  const auto next = successor();
  EXPECT_EQ(execution_of(call), Execution::may_have_run);
  client.ping("server");
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(written("charged"), "x");
}

TEST_F(OneLifeTest, an_idempotent_service_runs_again_is_told_and_answers_s_8) {
  start_server(true);
  Node client("client", root_.options());
  client.wait_for("server");
  std::future<Value> call = client.submit("server", "charge", {}, {.timeout = Seconds(300)});
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
  const auto next = successor();
  EXPECT_EQ(call.get(), Value(1));
  EXPECT_TRUE(is_repeated_);
}

TEST_F(OneLifeTest, a_server_that_left_in_order_and_came_back_begins_what_it_had_not_s_21) {
  const auto first = Runtime::make("server", root_.options({"client"}));  // which never reads
  Node client("client", root_.options());
  std::future<Value> call = client.submit("server", "note", {}, {.timeout = Seconds(300)});
  first->context.registration->remove();
  const auto next = successor();
  EXPECT_EQ(call.get(), Value(1));
}

TEST_F(OneLifeTest, a_request_for_an_earlier_life_never_begins_and_is_finished_s_8) {
  const auto first = Runtime::make("server", root_.options({"client"}));
  const auto client = Runtime::make("client", root_.options());
  wire::Buffer payload;
  const wire::Deadline deadline{fs::unix_ms() + 300'000, client->context.registry->observer().boot_id,
                                fs::boot_ms() + 300'000};
  wire::encode_request(
      {.request_id = "1.1", .service = "note", .caller = "client", .generation = 1, .deadline = deadline}, {}, payload);
  const ByteView one = payload.view();
  client->links.granted("server")->send({wire::EnvelopeType::spc_request, 0, {&one, 1}});
  first->context.registration->remove();
  const auto next = successor();
  EXPECT_TRUE(eventually([&] { return counter(*next, "requests_for_another_generation") == 1; }));
  EXPECT_EQ(runs_, 0);
  EXPECT_TRUE(
      std::filesystem::exists(wire::child_path(wire::lane_dir(root_.path, "server", "client"), "start.000002")));
}

TEST_F(OneLifeTest, nothing_runs_for_a_caller_that_is_gone_t_8) {
  const auto server = Runtime::make("server", root_.options({"gone", "client"}));
  server->serving.services.add("note", std::make_shared<Counting>(runs_), std::nullopt, false, false);
  pid_ = fork();
  if (pid_ == 0) {
    Node caller("gone", root_.options());
    caller.submit("server", "note", {}, {.timeout = Seconds(300)});
    _exit(0);
  }
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
  usleep(150'000);  // so that it is no caller of just now
  server->start();
  server->workers.serve();
  server->workers.ensure_reader();
  Node client("client", root_.options());
  EXPECT_EQ(client.call("server", "note"), Value(1));
  EXPECT_EQ(runs_, 1);
  server->leave({});
}

// --- nodes that start ---

class StartingTest : public testing::Test {
 protected:
  NodeOptions starting(std::vector<std::string> allow = {}) const {
    NodeOptions options = root_.options(std::move(allow));
    options.starting = true;
    return options;
  }

  TestRoot root_;
};

TEST_F(StartingTest, a_call_waits_until_the_node_serves_r_2) {
  Node server("server", starting());
  Node client("client", root_.options());
  std::future<Value> call = client.submit("server", "echo", {{"data", 7}}, {.timeout = Seconds(300)});
  server.serve("echo", test::echo);
  server.allow({"client"});
  EXPECT_EQ(call.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  server.ready();
  EXPECT_EQ(call.get(), Value(7));
  server.ready();
  EXPECT_EQ(client.wait_for("server").status, "online");
}

TEST_F(StartingTest, at_its_deadline_a_call_was_not_begun_r_2) {
  Node server("server", starting({"client"}));
  Node client("client", root_.options());
  try {
    client.call("server", "echo", {}, {.timeout = Seconds(0.05)});
    ADD_FAILURE() << "it was answered";
  } catch (const NodeStartingError& error) {
    EXPECT_EQ(error.execution(), Execution::not_begun);
  }
  EXPECT_THROW(client.wait_for("server", Seconds(0.05)), UnknownNodeError);
}

TEST_F(StartingTest, a_call_that_is_withdrawn_meanwhile_is_never_written_s_16) {
  Node server("server", starting({"client"}));
  Node client("client", root_.options());
  std::stop_source stop;
  std::future<Value> call = client.submit("server", "echo", {}, {.timeout = Seconds(300), .stop = stop.get_token()});
  stop.request_stop();
  EXPECT_THROW(call.get(), CallWithdrawnError);
}

TEST_F(StartingTest, what_the_node_does_not_grant_then_is_refused_r_2) {
  Node server("server", starting());
  Node client("client", root_.options());
  std::future<Value> call = client.submit("server", "echo", {}, {.timeout = Seconds(300)});
  server.ready();
  EXPECT_THROW(call.get(), AccessDeniedError);
}

TEST_F(StartingTest, messages_that_it_grants_are_written_at_once_and_others_wait_for_it_r_2) {
  Node server("server", starting({"friend"}));
  Node one("friend", root_.options());
  Node other("other", root_.options());
  EXPECT_NO_THROW(one.send("server", 1, {.timeout = Seconds(0)}));
  EXPECT_THROW(other.send("server", 1, {.timeout = Seconds(0.05)}), NodeStartingError);
  std::thread waiting([&] { EXPECT_NO_THROW(other.send("server", 2, {.timeout = Seconds(300)})); });
  server.allow({"other"});
  server.ready();
  waiting.join();
}

}  // namespace
}  // namespace speed
