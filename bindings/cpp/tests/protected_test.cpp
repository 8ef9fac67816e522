// Nodes that sign, encrypt and check their messages (M-17, M-18, M-25).
#include <gtest/gtest.h>

#include "fabric.hpp"

namespace speed {
namespace {

using test::TestRoot;

const Value& order() {
  static const Value value = Map{{"amount", 1000}, {"card", "4111-1111"}};
  return value;
}

MessageKey signing_key() {
  KeyBounds bounds;
  bounds.publishers = {"billing"};
  return MessageKey::generate("billing-1", "ed25519", bounds);
}

// Two nodes: `billing` writes what `analytics` reads.
class Protected : public testing::Test {
 protected:
  void open() {
    NodeOptions reading = root_.options({"billing"});
    reading.security = reader_;
    analytics_ = std::make_unique<Node>("analytics", reading);
    NodeOptions writing = root_.options({"analytics"});
    writing.security = writer_;
    billing_ = std::make_unique<Node>("billing", writing);
  }

  void trust(SignaturePolicy policy) {
    reader_.policy = policy;
    reader_.trusted = {signer_.id()};
    reader_.keys->put(signer_.id(), {signer_.public_part()});
  }

  void sign() {
    writer_.keys->put("own", {signer_});
    writer_.sign_with = "own";
  }

  // What the sender hears when it asks for an acknowledgement.
  std::string refusal() {
    SendOptions options;
    options.ack = true;
    options.timeout = Seconds(20);
    try {
      billing_->send("analytics", order(), options);
      return "OK";
    } catch (const InvalidArgumentsError& error) {
      return error.what();
    }
  }

  TestRoot root_;
  const MessageKey signer_ = signing_key();
  MessageSecurity writer_;
  MessageSecurity reader_;
  std::unique_ptr<Node> analytics_;
  std::unique_ptr<Node> billing_;
};

TEST_F(Protected, a_signed_and_encrypted_message_is_read_by_who_it_is_for_m_17_m_21) {
  const MessageKey reader = MessageKey::generate("analytics-1", "x25519-chacha20-poly1305");
  trust(SignaturePolicy::require);
  reader_.keys->put("own", {reader});
  sign();
  writer_.keys->put("analytics", {reader.public_part()});
  writer_.encrypt_to = {"analytics"};
  writer_.compression = "zstd";
  open();
  billing_->send("analytics", order());
  const std::optional<Message> message = analytics_->receive(Seconds(20));
  ASSERT_TRUE(message);
  EXPECT_EQ(message->payload(), order());
  EXPECT_EQ(message->signed_by(), "billing-1");
  EXPECT_EQ(message->opened_by(), "analytics-1");
  EXPECT_EQ(message->publisher_id(), "billing");
}

TEST_F(Protected, options_of_one_message_count_over_the_settings_of_the_node_m_25) {
  const MessageKey shared = MessageKey::generate("both", "chacha20-poly1305");
  writer_.keys->put("both", {shared});
  reader_.keys->put("both", {shared});
  reader_.clearance = Classification::restricted;
  open();
  SendOptions options;
  options.protection.encrypt_to = {"both"};
  options.protection.classification = Classification::restricted;
  billing_->send("analytics", order(), options);
  const std::optional<Message> message = analytics_->receive(Seconds(20));
  ASSERT_TRUE(message);
  EXPECT_EQ(message->payload(), order());
  EXPECT_EQ(message->data_classification(), "restricted");
  options.protection.encrypt_to = {};
  EXPECT_THROW(billing_->send("analytics", order(), options), NotEncryptedError);
}

TEST_F(Protected, what_is_not_signed_reaches_no_handler_and_its_sender_is_told_m_18) {
  trust(SignaturePolicy::require);
  open();
  std::atomic<int> handled = 0;
  analytics_->on_message([&](Message&) { ++handled; });
  EXPECT_NE(refusal().find("UNSIGNED: "), std::string::npos);
  EXPECT_EQ(handled, 0);
  const Map counters = analytics_->stats().find("counters")->as<Map>();
  EXPECT_EQ(counters.find("messages_refused")->as<std::int64_t>(), 1);
}

TEST_F(Protected, verify_lets_unsigned_messages_pass_m_18) {
  trust(SignaturePolicy::verify);
  open();
  billing_->send("analytics", order());
  const std::optional<Message> message = analytics_->receive(Seconds(20));
  ASSERT_TRUE(message);
  EXPECT_EQ(message->signed_by(), std::nullopt);
}

TEST_F(Protected, receive_passes_over_what_is_refused_m_18) {
  trust(SignaturePolicy::require);
  sign();
  writer_.sign_with.reset();
  open();
  billing_->send("analytics", "unsigned");
  SendOptions options;
  options.protection.sign_with = "own";
  billing_->send("analytics", "signed", options);
  const std::optional<Message> message = analytics_->receive(Seconds(20));
  ASSERT_TRUE(message);
  EXPECT_EQ(message->payload(), Value("signed"));
}

TEST_F(Protected, events_and_batches_are_checked_alike_m_18) {
  trust(SignaturePolicy::require);
  sign();
  writer_.sign_with.reset();
  open();
  std::mutex lock;
  std::vector<Value> seen;
  analytics_->on_batch({"orders.*"}, [&](std::vector<Message>& messages) {
    const std::lock_guard guard(lock);
    for (const Message& message : messages) seen.push_back(message.payload());
    return Node::Refusals();
  });
  const auto taken = [&] {
    const std::lock_guard guard(lock);
    return seen;
  };
  billing_->wait_for("analytics", Seconds(20));
  SendOptions options;
  billing_->send("analytics", "unsigned", options);
  options.protection.sign_with = "own";
  billing_->send("analytics", "signed", options);
  EXPECT_TRUE(test::eventually([&] { return taken().size() == 1; }));
  EXPECT_EQ(taken(), std::vector{Value("signed")});
  EXPECT_EQ(billing_->publish("orders.created", order(), options).count(), 1U);
  EXPECT_TRUE(test::eventually([&] { return taken().size() == 2; }));
}

TEST_F(Protected, a_batch_is_signed_compressed_and_encrypted_as_one_m_30) {
  const MessageKey reader = MessageKey::generate("analytics-1", "x25519-chacha20-poly1305");
  trust(SignaturePolicy::require);
  reader_.keys->put("own", {reader});
  sign();
  writer_.keys->put("analytics", {reader.public_part()});
  writer_.encrypt_to = {"analytics"};
  writer_.compression = "zstd";
  open();
  std::promise<Message> came;
  analytics_->subscribe("orders.*", [&](Message& message) { came.set_value(message); });
  billing_->wait_for("analytics", Seconds(20));
  EXPECT_EQ(billing_->publish_batch("orders.created", {order(), "second"}).count(), 1U);
  auto coming = came.get_future();
  ASSERT_EQ(coming.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const Message message = coming.get();
  EXPECT_EQ(message.payloads(), (std::vector<Value>{order(), "second"}));
  EXPECT_EQ(message.signed_by(), "billing-1");
  EXPECT_EQ(message.opened_by(), "analytics-1");
}

TEST_F(Protected, a_batch_that_cannot_be_protected_keeps_all_back_m_30) {
  open();
  SendOptions options;
  options.protection.classification = Classification::restricted;
  EXPECT_THROW(billing_->publish_batch({{"orders.created", 1}, {"orders.paid", 2}}, options), NotEncryptedError);
}

TEST_F(Protected, a_key_that_is_put_later_signs_from_the_next_message_on_m_26) {
  trust(SignaturePolicy::require);
  const MessageKey next = [] {
    KeyBounds bounds;
    bounds.publishers = {"billing"};
    bounds.not_before_ms = 1;
    return MessageKey::generate("billing-2", "ed25519", bounds);
  }();
  reader_.keys->put(signer_.id(), {signer_.public_part(), next.public_part()});
  sign();
  open();
  billing_->send("analytics", "first");
  writer_.keys->put("own", {signer_, next});
  billing_->send("analytics", "second");
  EXPECT_EQ(analytics_->receive(Seconds(20))->signed_by(), "billing-1");
  EXPECT_EQ(analytics_->receive(Seconds(20))->signed_by(), "billing-2");
}

TEST_F(Protected, a_signed_message_in_segments_is_verified_whole_m_16) {
  trust(SignaturePolicy::require);
  sign();
  open();
  const Value large = Bytes(20 << 20, std::byte{7});
  billing_->segment("analytics", 4 << 20);
  SendOptions options;
  options.timeout = Seconds(60);
  billing_->send("analytics", large, options);
  const std::optional<Message> message = analytics_->receive(Seconds(60));
  ASSERT_TRUE(message);
  EXPECT_EQ(message->signed_by(), "billing-1");
  EXPECT_EQ(message->payload(), large);
}

}  // namespace
}  // namespace speed
