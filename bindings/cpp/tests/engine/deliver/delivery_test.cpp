// Messages and events between nodes, over real files and processes.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <thread>

#include "fabric.hpp"
#include "wire/limits.hpp"

namespace speed {
namespace {

using test::AgentProcess;
using test::eventually;
using test::TestRoot;

class DeliveryTest : public testing::Test {
 protected:
  TestRoot root_;
};

TEST_F(DeliveryTest, a_message_is_received_once_with_its_metadata) {
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  SendOptions options;
  options.ack = true;
  options.topic = "greeting";
  options.priority = 9;
  options.labels = {{"region", "eu"}};
  const std::string id = sender.send("receiver", "hello", options);
  std::optional<Message> message = receiver.receive(Seconds(10));
  ASSERT_TRUE(message);
  EXPECT_EQ(message->payload(), Value("hello"));
  EXPECT_EQ(message->source(), "sender");
  EXPECT_EQ(message->message_id(), id);
  EXPECT_EQ(message->topic(), "greeting");
  EXPECT_EQ(message->priority(), 9);
  EXPECT_EQ(message->labels(), options.labels);
  EXPECT_FALSE(message->redelivered());
  EXPECT_FALSE(receiver.receive(Seconds(0)));
}

SendOptions acknowledged(int priority) {
  SendOptions options;
  options.ack = true;
  options.priority = priority;
  return options;
}

TEST_F(DeliveryTest, receive_gives_the_more_urgent_sender_first_and_keeps_the_order_of_each_m_33) {
  std::vector<std::int64_t> found;
  Node receiver("receiver", root_.options({"calm", "urgent"}));
  Node calm("calm", root_.options());
  Node urgent("urgent", root_.options());
  for (int n = 0; n < 2; ++n) calm.send("receiver", n, acknowledged(2));
  for (int n = 2; n < 4; ++n) urgent.send("receiver", n, acknowledged(9));
  for (int n = 0; n < 4; ++n) found.push_back(receiver.receive(Seconds(10))->payload().as<std::int64_t>());
  EXPECT_EQ(found, (std::vector<std::int64_t>{2, 3, 0, 1}));
}

TEST_F(DeliveryTest, a_busy_worker_takes_the_more_urgent_sender_next_m_33) {
  std::latch entered(1);
  std::latch go_on(1);
  std::latch all(4);
  std::vector<std::string> handled;
  NodeOptions options = root_.options({"first", "calm", "urgent"});
  options.workers = 1;
  Node receiver("receiver", options);
  Node first("first", root_.options());
  Node calm("calm", root_.options());
  Node urgent("urgent", root_.options());
  receiver.on_message([&](Message& message) {
    handled.push_back(message.source());
    if (handled.size() == 1) {
      entered.count_down();
      go_on.wait();
    }
    all.count_down();
  });
  first.send("receiver", 1);
  entered.wait();
  first.send("receiver", 2);
  calm.send("receiver", 3, {.priority = 6});
  urgent.send("receiver", 4, {.priority = 9});
  EXPECT_TRUE(eventually([&] { return test::counter(receiver, "messages_received") == 4; }));
  go_on.count_down();
  all.wait();
  EXPECT_EQ(handled, (std::vector<std::string>{"first", "urgent", "calm", "first"}));
}

TEST_F(DeliveryTest, a_handler_gets_messages_of_one_sender_in_order_s_5) {
  std::latch all(3000);
  std::vector<std::int64_t> seen;
  std::vector<Value> batch;
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  receiver.on_message([&](Message& message) {
    seen.push_back(message.payload().as<std::int64_t>());
    all.count_down();
  });
  for (int n = 0; n < 1000; ++n) sender.send("receiver", n);
  for (int n = 1000; n < 3000; ++n) batch.emplace_back(n);
  sender.send_all("receiver", batch);
  all.wait();
  EXPECT_TRUE(std::ranges::is_sorted(seen));
}

TEST_F(DeliveryTest, large_messages_do_not_pass_the_bound_of_a_lane_in_one_write_l_6) {
  NodeOptions options = root_.options();
  options.max_lane_bytes = 1 << 20;
  Node receiver("receiver", root_.options({"sender"}));  // takes none of them
  Node sender("sender", options);
  const std::vector<Value> batch(10, Value(Bytes(256 << 10)));
  SendOptions brief;
  brief.timeout = Seconds(0.1);
  EXPECT_THROW(sender.send_all("receiver", batch, brief), InboxFullError);
  std::size_t accepted = 0;
  while (receiver.receive(Seconds(0.2))) ++accepted;
  EXPECT_GE(accepted, 3U);
  EXPECT_LE(accepted, 5U);
}

// Whatever a sender makes of L-6; the others are served meanwhile, and nothing is lost.
TEST_F(DeliveryTest, what_a_program_does_not_take_fills_a_bounded_part_of_its_memory_l_19) {
  constexpr std::int64_t bound = wire::limits::max_unfinished_bytes;
  NodeOptions options = root_.options();
  options.max_lane_bytes = 1 << 30;
  Node receiver("receiver", root_.options({"sender", "other"}));
  Node sender("sender", options);
  Node other("other", root_.options());
  for (std::size_t n = 0; n < 300; ++n) sender.send("receiver", Value(Bytes((1 << 20) + n)));
  const auto held = [&] { return test::counter(receiver, "messages_received") << 20; };
  EXPECT_TRUE(eventually([&] { return held() >= bound; }));
  Seconds waited(0);
  while (waited < 2 * wire::limits::full_scan) waited += std::max(other.ping("receiver"), Seconds(10us));
  EXPECT_GE(held(), bound);
  EXPECT_LE(held(), bound + (8 << 20));
  for (std::size_t n = 0; n < 300; ++n) {
    std::optional<Message> message = receiver.receive(Seconds(20));
    ASSERT_TRUE(message);
    EXPECT_EQ(message->payload().as<Bytes>().size(), (1 << 20) + n);
  }
}

TEST_F(DeliveryTest, many_messages_cannot_ask_for_acknowledgements) {
  Node sender("sender", root_.options());
  SendOptions options;
  options.ack = true;
  EXPECT_THROW(sender.send_all("receiver", {Value(1)}, options), ConfigurationError);
}

TEST_F(DeliveryTest, a_failing_handler_is_told_to_a_sender_that_asked_s_11) {
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  receiver.on_message([](Message&) { throw std::runtime_error("no"); });
  SendOptions options;
  options.ack = true;
  EXPECT_THROW(sender.send("receiver", 1, options), ExecutionFailedError);
}

TEST_F(DeliveryTest, an_expired_message_is_not_handed_out_m_7) {
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

TEST_F(DeliveryTest, a_message_that_expires_behind_a_busy_handler_is_not_handed_out_m_7) {
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  std::promise<void> goes_on;
  std::promise<Value> next;
  receiver.on_message([&, held = goes_on.get_future().share(), is_first = true](Message& message) mutable {
    if (std::exchange(is_first, false)) return held.wait();
    next.set_value(message.payload());
  });
  sender.send("receiver", "first");
  SendOptions options;
  options.ttl_seconds = 1;
  sender.send("receiver", "late", options);
  usleep(1'100'000);  // the time to live itself
  sender.send("receiver", "fresh");
  goes_on.set_value();
  EXPECT_EQ(next.get_future().get(), Value("fresh"));
  EXPECT_EQ(receiver.stats().at("counters").at("messages_expired"), Value(1));
}

TEST_F(DeliveryTest, a_message_of_a_namespace_that_is_not_taken_is_refused_m_34) {
  NodeOptions acme = root_.options();
  acme.name_space = "acme";
  NodeOptions accepting = root_.options({"sender"});
  accepting.accept_name_spaces = {"acme"};
  Node sender("sender", acme);
  Node plain("plain", root_.options({"sender"}));
  Node other("other", accepting);
  std::promise<Value> heard;
  plain.on_message([](Message&) { ADD_FAILURE() << "another namespace"; });
  other.on_message([&](Message& message) { heard.set_value(message.payload()); });
  SendOptions options;
  options.ack = true;
  try {
    sender.send("plain", 1, options);
    ADD_FAILURE() << "was taken";
  } catch (const InvalidArgumentsError& error) {
    EXPECT_NE(std::string(error.what()).find("OTHER_NAMESPACE"), std::string::npos) << error.what();
  }
  sender.send("other", 2, options);
  EXPECT_EQ(heard.get_future().get(), Value(2));
}

TEST_F(DeliveryTest, an_event_reaches_those_who_subscribed_and_allow) {
  std::promise<std::string> heard;
  Node publisher("publisher", root_.options());
  Node wants("wants", root_.options({"publisher"}));
  Node other("other", root_.options({"publisher"}));
  Node denies("denies", root_.options());
  wants.subscribe("orders.*", [&](Message& message) { heard.set_value(message.topic()); });
  other.subscribe("invoices", [](Message&) { ADD_FAILURE() << "another topic"; });
  denies.subscribe("*", [](Message&) { ADD_FAILURE() << "no grant"; });
  EXPECT_EQ(publisher.publish("orders.created", 1).count(), 1U);
  EXPECT_EQ(heard.get_future().get(), "orders.created");
}

TEST_F(DeliveryTest, an_event_that_a_family_shares_goes_to_one_of_it_in_turn_s_42) {
  Node publisher("publisher", root_.options());
  Node first("worker.1", root_.options({"publisher"}));
  Node second("worker.2", root_.options({"publisher"}));
  Node denies("worker.3", root_.options());
  for (Node* const worker : {&first, &second, &denies})
    worker->subscribe("orders.*", [](Message&) {}, {.shared = true});
  std::vector<std::string> delivered;
  for (int n = 0; n < 4; ++n) {
    const Published published = publisher.publish("orders.created", n);
    EXPECT_TRUE(published.failed.empty());
    delivered.insert(delivered.end(), published.delivered.begin(), published.delivered.end());
  }
  EXPECT_EQ(delivered, (std::vector<std::string>{"worker.1", "worker.2", "worker.1", "worker.2"}));
  EXPECT_THROW(first.subscribe("orders.*", [](Message&) {}), ConfigurationError);
}

TEST_F(DeliveryTest, messages_of_a_killed_receiver_are_delivered_to_its_successor_l_15) {
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

TEST_F(DeliveryTest, a_full_inbox_is_reported_after_the_timeout_l_6) {
  AgentProcess receiver(root_, "receiver", {"--allow", "sender"});
  NodeOptions options = root_.options();
  options.max_lane_bytes = 10000;
  Node sender("sender", options);
  receiver.pause();
  SendOptions quick;
  quick.timeout = Seconds(0.05);
  int sent = 0;
  const auto fill = [&](int count) {
    for (; sent < count; ++sent) sender.send("receiver", Map{{"n", sent}, {"filler", Bytes(1000)}}, quick);
  };
  EXPECT_THROW(fill(100), InboxFullError);
  receiver.resume();
  quick.timeout = Seconds(20);
  std::thread reading([&] {
    const auto read = receiver({{"id", 1}, {"op", "drain"}, {"count", 100}, {"timeout", 20}})["result"];
    EXPECT_EQ(read["received"], 100);
    EXPECT_TRUE(read["in_order"].get<bool>());
  });
  EXPECT_NO_THROW(fill(100));
  reading.join();
}

TEST_F(DeliveryTest, a_denied_sender_is_heard_no_more_a_4) {
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  sender.send("receiver", 1);
  EXPECT_TRUE(receiver.receive(Seconds(10)));
  receiver.deny({"sender"});
  const auto is_refused = [&] {
    try {
      sender.send("receiver", 2);
      return false;
    } catch (const AccessDeniedError&) {
      return true;
    }
  };
  EXPECT_TRUE(eventually(is_refused));  // a grant that was just seen may count for a moment
  EXPECT_FALSE(receiver.receive(Seconds(0)));
}

TEST_F(DeliveryTest, a_denied_sender_of_a_granted_family_writes_nothing_a_3_a_4) {
  Node receiver("receiver", root_.options({"etl.*"}));
  Node denied("etl.1", root_.options());
  Node other("etl.2", root_.options());
  receiver.deny({"etl.1"});
  EXPECT_THROW(denied.send("receiver", 1), AccessDeniedError);
  other.send("receiver", 2);
  EXPECT_EQ(receiver.receive(Seconds(10))->payload(), Value(2));
  EXPECT_EQ(other.wait_for("receiver", Seconds(10)).deny, std::vector<std::string>{"etl.1"});
}

// Payloads that a handler of batches took, seen from another thread.
struct Taken {
  std::mutex lock;
  std::vector<std::int64_t> numbers;
  std::size_t batches = 0;

  void take(const std::vector<Message>& messages) {
    const std::lock_guard guard(lock);
    for (const Message& message : messages) numbers.push_back(message.payload().as<std::int64_t>());
    ++batches;
  }
  bool holds(std::size_t count) {
    const std::lock_guard guard(lock);
    return numbers.size() >= count;
  }
};

TEST_F(DeliveryTest, batches_hold_messages_and_events_in_the_order_of_their_sender) {
  std::vector<Value> batch;
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  Taken taken;
  receiver.on_batch({"orders.*"}, [&](std::vector<Message>& messages) {
    taken.take(messages);
    return Node::Refusals{};
  });
  for (int n = 0; n < 1000; ++n) batch.emplace_back(n);
  sender.send_all("receiver", batch);
  for (int n = 1000; n < 1100; ++n) sender.publish("orders.new", n);
  ASSERT_TRUE(test::eventually([&] { return taken.holds(1100); }));
  receiver.close();
  for (std::size_t n = 0; n < 1100; ++n) EXPECT_EQ(taken.numbers[n], static_cast<std::int64_t>(n));
  EXPECT_LT(taken.batches, 1000U);
}

TEST_F(DeliveryTest, a_batch_whose_handler_throws_comes_again_and_is_acknowledged_once_it_is_taken) {
  std::atomic<int> attempts = 0;
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  receiver.on_batch({}, [&](std::vector<Message>&) {
    if (++attempts < 3) throw std::runtime_error("no room");
    return Node::Refusals{};
  });
  SendOptions options;
  options.ack = true;
  options.timeout = Seconds(20);
  sender.send("receiver", 1, options);
  EXPECT_EQ(attempts, 3);
}

TEST_F(DeliveryTest, one_message_of_a_batch_that_cannot_be_handled_is_given_up_alone) {
  NodeOptions three = root_.options({"sender"});
  three.max_deliveries = 3;
  Node receiver("receiver", three);
  Node sender("sender", root_.options());
  SendOptions acknowledged;
  acknowledged.ack = true;
  for (const int number : {1, 13, 2}) sender.send("receiver", number, acknowledged);
  Taken taken;
  std::atomic<int> with_poison = 0;
  std::atomic<bool> was_alone = false;
  receiver.on_batch({}, [&](std::vector<Message>& messages) {
    for (const Message& message : messages) {
      if (message.payload() != Value(13)) continue;
      ++with_poison;
      if (messages.size() == 1) was_alone = true;
      throw std::runtime_error("cannot be handled");
    }
    taken.take(messages);
    return Node::Refusals{};
  });
  sender.send("receiver", 3);
  ASSERT_TRUE(test::eventually([&] { return taken.holds(3); }));
  receiver.close();
  EXPECT_EQ(taken.numbers, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(with_poison, 3);
  EXPECT_TRUE(was_alone);
}

TEST_F(DeliveryTest, a_place_of_a_batch_that_is_refused_is_told_to_its_sender_and_no_other) {
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  receiver.on_batch({}, [](std::vector<Message>& messages) {
    Node::Refusals refused;
    for (std::size_t place = 0; place < messages.size(); ++place) {
      if (messages[place].payload() == Value(3)) refused[place] = "no threes";
    }
    return refused;
  });
  SendOptions options;
  options.ack = true;
  sender.send("receiver", 2, options);
  EXPECT_THROW(sender.send("receiver", 3, options), ExecutionFailedError);
  sender.send("receiver", 4, options);
  EXPECT_THROW(receiver.on_message([](Message&) {}), ConfigurationError);
}

TEST_F(DeliveryTest, the_publisher_of_an_event_that_is_not_recorded_is_told_unasked) {
  Node receiver("receiver", root_.options({"sender"}));
  Node sender("sender", root_.options());
  receiver.on_batch({"orders.*"}, [](std::vector<Message>&) {
    return Node::Refusals{{0, Node::Refusal("topic 'orders.new' is refused", "JOURNAL_REFUSED")}};
  });
  sender.publish("orders.new", 1);
  EXPECT_TRUE(eventually([&] { return test::counter(sender, "events_reported_refused") == 1; }));
}

}  // namespace
}  // namespace speed
