// Many payloads published as one event between nodes (M-30).
#include <gtest/gtest.h>

#include "engine/runtime.hpp"
#include "fabric.hpp"

namespace speed {
namespace {

using test::eventually;
using test::TestRoot;
using Pairs = std::vector<std::pair<std::string, Value>>;

// What a subscriber was given: the topic and the payloads of each event, in their order.
using Events = std::vector<std::pair<std::string, std::vector<Value>>>;

// `sender` publishes to `receiver`, which subscribes to everything.
class PublishBatch : public testing::Test {
 protected:
  PublishBatch() {
    receiver_.subscribe("*", [this](Message& message) {
      const std::lock_guard guard(lock_);
      seen_.emplace_back(message.topic(), message.payloads());
    });
    sender_.wait_for("receiver", Seconds(20));
  }

  Events seen() {
    const std::lock_guard guard(lock_);
    return seen_;
  }

  // What came before an event that is published now.
  Events seen_before_now() {
    sender_.publish("now", nullptr);
    EXPECT_TRUE(eventually([&] { return !seen().empty() && seen().back().first == "now"; }));
    Events events = seen();
    events.pop_back();
    return events;
  }

  TestRoot root_;
  std::mutex lock_;  // guards what follows
  Events seen_;
  Node receiver_{"receiver", root_.options({"sender"})};
  Node sender_{"sender", root_.options()};
};

TEST_F(PublishBatch, many_payloads_are_one_event_m_30) {
  const std::vector<Value> payloads{Map{{"a", 1}}, "text", Bytes{std::byte{0xff}}, nullptr, Array{1, 2.5}};
  EXPECT_EQ(sender_.publish_batch("orders.made", payloads).delivered, std::vector<std::string>{"receiver"});
  EXPECT_EQ(seen_before_now(), (Events{{"orders.made", payloads}}));
}

TEST_F(PublishBatch, many_payloads_for_one_node_are_one_message_with_one_acknowledgement_m_30) {
  std::vector<std::pair<std::string, std::vector<Value>>> handled;
  receiver_.on_message([&](Message& message) {
    const std::lock_guard guard(lock_);
    handled.emplace_back(message.message_id(), message.payloads());
  });
  const std::string id = sender_.send_batch("receiver", {1, "two"}, {.timeout = Seconds(20), .ack = true});
  const std::lock_guard guard(lock_);
  ASSERT_EQ(handled.size(), 1U);  // it was acknowledged when it was handled
  EXPECT_EQ(handled[0].first, id);
  EXPECT_EQ(handled[0].second, (std::vector<Value>{1, "two"}));
}

TEST_F(PublishBatch, no_payloads_are_an_event_as_well_m_30) {
  EXPECT_EQ(sender_.publish_batch("orders.made", {}).count(), 1U);
  EXPECT_EQ(seen_before_now(), (Events{{"orders.made", {}}}));
}

TEST_F(PublishBatch, bytes_that_the_program_keeps_are_sent_from_where_they_are) {
  const Bytes kept(1000, std::byte{7});
  sender_.publish_batch("orders.made", {LentBytes(kept)});
  EXPECT_EQ(seen_before_now(), (Events{{"orders.made", {kept}}}));
}

TEST_F(PublishBatch, several_topics_get_one_event_each_in_the_order_of_their_first_payloads_m_30) {
  const auto published = sender_.publish_batch({{"orders.paid", 1}, {"orders.made", 2}, {"orders.paid", 3}});
  ASSERT_EQ(published.size(), 2U);
  EXPECT_EQ(published.at("orders.paid").delivered, std::vector<std::string>{"receiver"});
  EXPECT_EQ(published.at("orders.made").count(), 1U);
  EXPECT_EQ(seen_before_now(), (Events{{"orders.paid", {1, 3}}, {"orders.made", {2}}}));
}

TEST_F(PublishBatch, no_pairs_publish_nothing_m_30) {
  EXPECT_TRUE(sender_.publish_batch(Pairs()).empty());
  EXPECT_EQ(seen_before_now(), Events());
}

TEST_F(PublishBatch, what_cannot_be_encoded_keeps_all_back_m_30) {
  const std::string broken = "\xff";
  EXPECT_THROW(sender_.publish_batch("orders.made", {1, broken}), UnserialisableError);
  EXPECT_THROW(sender_.publish_batch({{"orders.made", 1}, {"orders.paid", broken}}), UnserialisableError);
  EXPECT_EQ(seen_before_now(), Events());
}

TEST_F(PublishBatch, what_is_no_topic_keeps_all_back_m_30) {
  EXPECT_THROW(sender_.publish_batch("no topic", {1}), InvalidNameError);
  EXPECT_THROW(sender_.publish_batch({{"orders.made", 1}, {"no topic", 2}}), InvalidNameError);
  EXPECT_EQ(seen_before_now(), Events());
}

TEST_F(PublishBatch, a_rule_of_metadata_that_is_broken_keeps_all_back_m_5) {
  SendOptions options;
  options.priority = 11;
  EXPECT_THROW(sender_.publish_batch({{"orders.made", 1}, {"orders.paid", 2}}, options), WireError);
  EXPECT_EQ(seen_before_now(), Events());
}

TEST_F(PublishBatch, more_payloads_than_one_may_hold_are_refused_m_30) {
  EXPECT_THROW(sender_.publish_batch("orders.made", std::vector<Value>(65537)), BatchError);
  EXPECT_EQ(seen_before_now(), Events());
}

TEST_F(PublishBatch, one_in_segments_is_read_from_the_store_m_30_g_17) {
  const std::vector<Value> payloads(2, Bytes(10 << 20, std::byte{7}));
  sender_.segment("receiver", 4 << 20);
  SendOptions options;
  options.timeout = Seconds(60);
  EXPECT_EQ(sender_.publish_batch("orders.made", payloads, options).count(), 1U);
  EXPECT_TRUE(eventually([&] { return !seen().empty(); }));
  EXPECT_EQ(seen(), (Events{{"orders.made", payloads}}));
}

// One who subscribes and reads nothing, with a lane that is soon full.
TEST(PublishBatchToFull, the_timeout_is_for_all_topics_together_s_5) {
  const TestRoot root;
  const auto deaf = engine::Runtime::make("deaf", root.options({"sender"}));
  deaf->context.registration->update([](wire::Entry& entry) { entry.subscriptions = {"*"}; });
  NodeOptions narrow = root.options();
  narrow.max_lane_bytes = 100'000;
  Node sender("sender", narrow);
  SendOptions options;
  options.on_full = SendOptions::OnFull::drop;
  while (sender.publish("fill", Bytes(30'000), options).failed.empty()) continue;
  Pairs pairs;
  for (int n = 0; n < 20; ++n) pairs.emplace_back("topic." + std::to_string(n), Bytes(90'000));
  const auto begin = std::chrono::steady_clock::now();
  const auto published = sender.publish_batch(pairs, {.timeout = Seconds(1)});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  ASSERT_EQ(published.size(), pairs.size());
  for (const auto& [topic, result] : published) EXPECT_EQ(result.failed.at("deaf"), "INBOX_FULL") << topic;
}

}  // namespace
}  // namespace speed
