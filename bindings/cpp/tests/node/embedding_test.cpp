// What a node inside another language's runtime has beside the public interface (speed/embedding.hpp).
#include "speed/embedding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <memory>
#include <thread>

#include "engine/link/publishing.hpp"
#include "fabric.hpp"
#include "speed/log.hpp"

namespace speed {
namespace {

using test::echo;
using test::eventually;

constexpr auto always = [] { return true; };

class EmbeddingTest : public testing::Test {
 protected:
  test::TestRoot root_;
};

TEST_F(EmbeddingTest, a_call_returns_what_the_service_answers) {
  Node server("server", root_.options({"client"}));
  EmbeddedNode client("client", root_.options());
  server.serve("echo", echo);
  EXPECT_EQ(client.call("server", "echo", {{"data", 7}}), Value(7));
}

// Returns the argument `data` as it was given.
class Returns : public Service {
 public:
  Response invoke(const Request& request) override {
    was_lent = request.arguments["data"].get_if<LentBytes>() != nullptr;
    return request.arguments["data"];
  }

  std::atomic<bool> was_lent = false;
};

TEST_F(EmbeddingTest, large_bytes_are_lent_to_a_service_with_views_and_to_no_other) {
  const Bytes data(3 << 20, std::byte{7});
  const auto reading = std::make_shared<Returns>();
  const auto copying = std::make_shared<Returns>();
  Node server("server", root_.options({"client"}));
  EmbeddedNode client("client", root_.options());
  server.serve("reading", reading, {.views = true});
  server.serve("copying", copying);
  const Value answer = client.call("server", "reading", {{"data", LentBytes{data}}});
  EXPECT_NE(answer.get_if<LentBytes>(), nullptr);
  EXPECT_EQ(answer.as<Bytes>(), data);
  EXPECT_EQ(client.call("server", "copying", {{"data", data}}).as<Bytes>(), data);
  EXPECT_TRUE(reading->was_lent);
  EXPECT_FALSE(copying->was_lent);
}

TEST_F(EmbeddingTest, a_program_gets_large_bytes_of_results_where_they_arrived_if_it_asks) {
  const Bytes data(3 << 20, std::byte{7});
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("echo", [](const Request& request) -> Response { return *request.arguments.find("data"); },
               {.views = true});
  server.serve("size", [](const Request& request) -> Response { return request.get<ByteView>("data").size(); });
  const CallOptions views{.views = true};
  const Value called = client.call("server", "echo", {{"data", data}}, views);
  const Value submitted = client.submit("server", "echo", {{"data", data}}, views).get();
  for (const Value& answer : {called, submitted}) {
    ASSERT_NE(answer.get_if<LentBytes>(), nullptr);
    EXPECT_TRUE(std::ranges::equal(answer.as<ByteView>(), data));
  }
  EXPECT_EQ(client.call("server", "echo", {{"data", data}}).get_if<LentBytes>(), nullptr);
  EXPECT_EQ(client.call("server", "size", {{"data", data}}), Value(data.size()));
  EXPECT_THROW(client.call("server", "size", {{"data", "text"}}), InvalidArgumentsError);
}

// Each stays what it was while others arrive: no buffer is used again before its time.
TEST_F(EmbeddingTest, lent_answers_outlive_those_that_come_after_them) {
  Node server("server", root_.options({"client"}));
  EmbeddedNode client("client", root_.options());
  server.serve("echo", std::make_shared<Returns>(), {.views = true});
  std::vector<Value> answers;
  const auto payload = [](std::size_t number) {
    return Bytes((std::size_t{40} << 10) << (number % 8), static_cast<std::byte>(number));
  };
  for (std::size_t number = 0; number < 20; ++number) {
    const Bytes data = payload(number);
    answers.push_back(client.call("server", "echo", {{"data", LentBytes{data}}}));
  }
  for (std::size_t number = 0; number < 20; ++number) EXPECT_EQ(answers[number].as<Bytes>(), payload(number));
}

TEST_F(EmbeddingTest, a_call_that_its_caller_interrupts_is_withdrawn) {
  std::atomic<bool> withdrawn = false;
  Node server("server", root_.options({"client"}));
  EmbeddedNode client("client", root_.options());
  server.serve("hold", [&](const Request& request) -> Response {
    withdrawn = eventually([&] { return request.stop_token().stop_requested(); });
    return Value();
  });
  {
    const Interruptible waits(always);
    EXPECT_THROW(client.call("server", "hold", {}), Interrupted);
  }
  EXPECT_TRUE(eventually([&] { return withdrawn || test::counter(server, "requests_withdrawn") > 0; }));
}

// S-25: it holds nothing that the end of the node waits for.
TEST_F(EmbeddingTest, who_is_asked_whether_to_go_on_may_close_the_node_that_waits) {
  Node server("server", root_.options({"client"}));
  EmbeddedNode client("client", root_.options());
  server.serve("hold", [&](const Request& request) -> Response {
    eventually([&] { return request.stop_token().stop_requested(); });
    return Value();
  });
  const Interruptible waits([&] { return client.node().close(Seconds(0)), false; });
  EXPECT_THROW(client.call("server", "hold", {}), NodeClosedError);
  EXPECT_TRUE(client.node().closed());
}

// S-25.
TEST_F(EmbeddingTest, a_wait_for_room_is_interrupted_and_the_lane_goes_on) {
  NodeOptions options = root_.options();
  options.max_lane_bytes = 20'000;
  Node reader("reader", root_.options({"sender"}));
  EmbeddedNode sender("sender", options);
  const Bytes payload(1000);
  const auto send = [&](Seconds timeout) { sender.send("reader", payload, {.timeout = timeout}); };
  EXPECT_THROW(while (true) send(Seconds(0)), InboxFullError);
  {
    const Interruptible waits(always);
    EXPECT_THROW(send(test::hang_time), Interrupted);
    EXPECT_THROW(sender.node().send_all("reader", {payload, payload}, {.timeout = test::hang_time}), Interrupted);
  }
  const auto goes = [&] {
    while (reader.receive(Seconds(0))) {  // what was read so far
    }
    try {
      send(Seconds(0));
      return true;
    } catch (const InboxFullError&) {
      return false;
    }
  };
  EXPECT_TRUE(eventually(goes));
}

// S-25.
TEST_F(EmbeddingTest, a_close_that_is_interrupted_has_ended_the_node) {
  const auto begun = std::make_shared<std::latch>(1);  // a close that is interrupted does not wait for the service
  const auto over = std::make_shared<std::latch>(1);
  Node client("client", root_.options());
  EmbeddedNode server("server", root_.options({"client"}));
  server.node().serve("hold", [begun, over](const Request&) -> Response {
    begun->count_down();
    over->wait();
    return Value();
  });
  const std::future<Value> held = client.submit("server", "hold", {});
  begun->wait();
  {
    const Interruptible waits(always);
    EXPECT_THROW(server.node().close(test::hang_time), Interrupted);
  }
  EXPECT_TRUE(server.node().closed());
  over->count_down();
}

TEST_F(EmbeddingTest, an_answer_is_decoded_by_whoever_reads_it) {
  std::promise<Answer> came;
  std::promise<Answer> failed;
  Node server("server", root_.options({"client"}));
  EmbeddedNode client("client", root_.options());
  server.serve("echo", echo);
  client.start("server", "echo", {{"data", "x"}}, {}, [&](Answer answer) { came.set_value(std::move(answer)); });
  EXPECT_EQ(came.get_future().get().value(), Value("x"));
  client.start("server", "absent", {}, {}, [&](Answer answer) { failed.set_value(std::move(answer)); });
  EXPECT_THROW(failed.get_future().get().value(), ServiceNotFoundError);
}

TEST_F(EmbeddingTest, forwarded_messages_arrive_in_order_as_they_were) {
  std::vector<Bytes> kept;
  Node origin("origin", root_.options());
  EmbeddedNode relay("relay", root_.options({"origin"}));
  Node target("target", root_.options({"relay"}));
  for (int n = 0; n < 200; ++n) {
    const std::string id = origin.send("relay", n);
    const std::optional<Message> message = relay.fetch(test::hang_time);
    ASSERT_TRUE(message && message->message_id() == id);
    const ByteView bytes = held_bytes(*message);
    kept.emplace_back(bytes.begin(), bytes.end());
    Message(*message).done();
    EXPECT_TRUE(is_finished(*message));
  }
  const std::vector<ByteView> messages(kept.begin(), kept.end());
  std::thread reader([&] { relay.forward("target", messages, false, true, test::hang_time); });
  for (int n = 0; n < 200; ++n) EXPECT_EQ(target.receive(test::hang_time)->payload(), Value(n));
  target.receive(Seconds(0));
  reader.join();
}

TEST_F(EmbeddingTest, a_message_that_is_put_back_is_fetched_again) {
  Node sender("sender", root_.options());
  EmbeddedNode receiver("receiver", root_.options({"sender"}));
  sender.send("receiver", 1);
  const std::optional<Message> first = receiver.fetch(test::hang_time);
  ASSERT_TRUE(first);
  receiver.put_back(*first);
  const std::optional<Message> again = receiver.fetch(test::hang_time);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->message_id(), first->message_id());
}

TEST_F(EmbeddingTest, what_is_done_at_the_end_is_done_once_no_worker_runs) {
  std::latch ended(1);
  std::latch ran(1);
  EmbeddedNode node("node", root_.options(), {.at_end = [&] { ended.count_down(); }});
  node.run([&] { ran.count_down(); });
  ran.wait();
  EXPECT_FALSE(ended.try_wait());
  node.node().close();
  EXPECT_TRUE(ended.try_wait());
  EXPECT_THROW(node.check(), NodeClosedError);
}

TEST(Writes, hold_64_messages_or_64_kib_and_one) {
  const Bytes small(10), large(40 << 10);
  EXPECT_EQ(engine::first_write(std::vector<ByteView>(100, small)).size(), 64U);
  EXPECT_EQ(engine::first_write(std::vector<ByteView>(100, large)).size(), 2U);
  EXPECT_TRUE(engine::first_write({}).empty());
}

TEST_F(EmbeddingTest, a_callback_that_fails_is_in_the_log_of_its_node) {
  std::mutex lock;
  std::vector<std::string> lines;
  set_log([&](LogLevel, std::string_view, std::string_view text) {
    const std::lock_guard guard(lock);
    lines.emplace_back(text);
  });
  Node server("server", root_.options({"client"}));
  Node client("client", root_.options());
  server.serve("echo", echo);
  client.submit("server", "echo", {{"data", 1}}, [](std::future<Value>) { throw std::runtime_error("boom"); });
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard guard(lock);
    return std::ranges::any_of(lines, [](const std::string& line) {
      return line.ends_with("'echo' at 'server' threw: std::runtime_error: boom");
    });
  }));
  set_log({});
}

}  // namespace
}  // namespace speed
