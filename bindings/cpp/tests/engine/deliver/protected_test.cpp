// Nodes that sign, encrypt, check and tell of their messages (M-17, M-18, M-25, M-29, M-31).
#include <gtest/gtest.h>

#include <fstream>

#include "fabric.hpp"
#include "speed/embedding.hpp"
#include "wire/message/message.hpp"

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

// --- audit lines and schemas ---

class Housed : public Protected {
 protected:
  std::vector<std::string> operations() const {
    std::vector<std::string> operations;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      operations.push_back(nlohmann::json::parse(line).at("operation").get<std::string>());
    }
    return operations;
  }

  void audit() { reader_.audit = std::make_shared<AuditLog>(path_); }

  // Each line goes into a file of its own, as long as the one before can get another name.
  std::shared_ptr<AuditLog> fragile() const { return std::make_shared<AuditLog>(path_, 1, 1); }
  void block_audit() const { std::filesystem::create_directories(path_ + ".1/taken"); }
  void free_audit() const { std::filesystem::remove_all(path_ + ".1"); }

  static Schemas having(const PayloadSchema& schema) {
    return [schema](std::string_view, std::string_view) { return std::optional(schema); };
  }

  static PayloadSchema marking() {
    return {"sha256:0f", true, [](std::string_view, ByteView) { return std::vector<std::string>{"card"}; }};
  }

  static SendOptions of_order() {
    SendOptions options;
    options.protection.schema = {.name = "order", .version = "v1"};
    return options;
  }

  static SendOptions personal() {
    SendOptions options;
    options.protection.contains_pii = true;
    return options;
  }

  const std::string path_ = root_.path + "/audit.jsonl";
};

TEST_F(Housed, each_message_with_personal_data_is_told_before_a_program_has_it_m_31) {
  audit();
  open();
  billing_->send("analytics", order(), personal());
  ASSERT_TRUE(analytics_->receive(Seconds(20)));
  EXPECT_EQ(operations(), std::vector<std::string>{"access"});
  std::atomic<std::size_t> told = 0;
  analytics_->on_message([&](Message&) { told = operations().size(); });
  billing_->send("analytics", order(), personal());
  EXPECT_TRUE(test::eventually([&] { return told == 2; }));
}

TEST_F(Housed, each_message_of_a_batch_is_told_before_its_handler_has_it_m_31) {
  audit();
  open();
  std::atomic<std::size_t> seen = 0;
  std::atomic<bool> was_told = true;
  analytics_->on_batch({}, [&](std::vector<Message>& messages) {
    was_told = was_told && operations().size() >= seen + messages.size();
    seen += messages.size();  // the test may end now
    return Node::Refusals();
  });
  for (int number = 0; number < 2; ++number) billing_->send("analytics", order(), personal());
  EXPECT_TRUE(test::eventually([&] { return seen == 2; }));
  EXPECT_TRUE(was_told);
}

TEST_F(Housed, what_cannot_be_told_waits_for_receive_m_31) {
  reader_.audit = fragile();
  open();
  block_audit();
  billing_->send("analytics", order(), personal());
  EXPECT_FALSE(analytics_->receive(Seconds(0.3)));
  free_audit();
  EXPECT_TRUE(analytics_->receive(Seconds(20)));
}

TEST_F(Housed, what_cannot_be_told_waits_for_its_handler_m_31) {
  reader_.audit = fragile();
  open();
  block_audit();
  std::atomic<int> handled = 0;
  analytics_->on_message([&](Message&) { ++handled; });
  billing_->send("analytics", order(), personal());
  EXPECT_TRUE(test::eventually([&] { return test::counter(*analytics_, "messages_waiting_for_trust") > 0; }));
  EXPECT_EQ(handled, 0);
  free_audit();
  EXPECT_TRUE(test::eventually([&] { return handled == 1; }));
}

TEST_F(Housed, what_cannot_be_told_is_not_sent_m_31) {
  sign();
  writer_.audit = fragile();
  open();
  block_audit();
  EXPECT_THROW(billing_->send("analytics", order()), StorageError);
  EXPECT_THROW(billing_->send_all("analytics", {order(), order()}), StorageError);
  EXPECT_FALSE(analytics_->receive(Seconds(0.2)));
}

TEST_F(Housed, a_payload_that_does_not_fit_is_refused_and_its_sender_is_told_m_29) {
  PayloadSchema schema = marking();
  schema.check = [](std::string_view, ByteView) -> std::vector<std::string> {
    throw SchemaError("amount: is missing");
  };
  reader_.schemas = having(schema);
  open();
  std::atomic<int> handled = 0;
  analytics_->on_message([&](Message&) { ++handled; });
  SendOptions options = of_order();
  options.protection.schema->hash = schema.hash;
  options.ack = true;
  options.timeout = Seconds(20);
  try {
    billing_->send("analytics", order(), options);
    FAIL();
  } catch (const InvalidArgumentsError& error) {
    EXPECT_NE(std::string(error.what()).find("BAD_SCHEMA: amount: is missing"), std::string::npos) << error.what();
  }
  EXPECT_EQ(handled, 0);
}

TEST_F(Housed, a_node_goes_on_after_a_check_that_throws_what_it_may_not_m_29) {
  PayloadSchema schema = marking();
  schema.check = [](std::string_view, ByteView) -> std::vector<std::string> { throw 7; };
  reader_.schemas = having(schema);
  open();
  SendOptions options = of_order();
  options.protection.schema->hash = schema.hash;
  billing_->send("analytics", "refused", options);
  billing_->send("analytics", "next");
  EXPECT_EQ(analytics_->receive(Seconds(20))->payload(), Value("next"));
}

TEST_F(Housed, a_message_waits_while_its_schema_cannot_be_reached_m_29) {
  const auto is_away = std::make_shared<std::atomic<bool>>(true);
  reader_.schemas = [is_away](std::string_view, std::string_view) {
    if (*is_away) throw std::system_error(ETIMEDOUT, std::generic_category());
    return std::optional(marking());
  };
  writer_.schemas = having(marking());
  open();
  billing_->send("analytics", order(), of_order());
  EXPECT_FALSE(analytics_->receive(Seconds(0.3)));
  *is_away = false;
  EXPECT_TRUE(analytics_->receive(Seconds(20)));
}

TEST_F(Housed, what_a_schema_of_the_reader_marks_is_personal_whatever_the_publisher_says_m_29) {
  reader_.schemas = having(marking());
  open();
  SendOptions options = of_order();
  options.protection.schema->hash = marking().hash;
  billing_->send("analytics", order(), options);
  EXPECT_TRUE(analytics_->receive(Seconds(20))->contains_pii());
}

TEST_F(Housed, a_message_in_segments_is_held_to_its_schema_whole_m_16_m_29) {
  const auto size = std::make_shared<std::atomic<std::size_t>>(0);
  PayloadSchema schema = marking();
  schema.check = [size](std::string_view, ByteView payload) {
    *size = payload.size();
    return std::vector<std::string>();
  };
  reader_.schemas = having(schema);
  open();
  billing_->segment("analytics", 4 << 20);
  SendOptions options = of_order();
  options.protection.schema->hash = schema.hash;
  options.timeout = Seconds(60);
  billing_->send("analytics", Bytes(20 << 20, std::byte{7}), options);
  ASSERT_TRUE(analytics_->receive(Seconds(60)));
  EXPECT_EQ(*size, std::size_t{20 << 20});
}

TEST_F(Housed, a_node_without_settings_names_schemas_as_well_m_29) {
  reader_.schemas = [](std::string_view name, std::string_view version) -> std::optional<PayloadSchema> {
    throw SchemaError(std::string(name) + " " + std::string(version));
  };
  open();
  Node plain("plain", root_.options({"analytics"}));
  analytics_->allow({"plain"});
  plain.wait_for("analytics", Seconds(20));
  plain.send("analytics", "refused", of_order());
  plain.send("analytics", "next");
  EXPECT_EQ(analytics_->receive(Seconds(20))->payload(), Value("next"));
}

// A node without settings for security, beside one that hands on bytes as they are.
class Unguarded : public testing::Test {
 protected:
  TestRoot root_;
  Node analytics_{"analytics", root_.options({"billing"})};
  EmbeddedNode billing_{"billing", root_.options({"analytics"})};
};

TEST_F(Unguarded, what_is_confidential_and_came_in_the_clear_is_refused_m_28) {
  wire::MessageFields fields;
  fields.message_id = "m-1";
  fields.published_at_ms = 1;
  fields.data_classification = "confidential";
  wire::Buffer message;
  wire::encode_message(order(), fields, message);
  const std::vector<ByteView> messages{message.view()};
  analytics_.on_message([](Message&) {});
  try {
    billing_.forward("analytics", messages, false, true, Seconds(20));
    FAIL() << "it was taken";
  } catch (const InvalidArgumentsError& error) {
    EXPECT_NE(std::string(error.what()).find("NOT_ENCRYPTED"), std::string::npos) << error.what();
  }
}

TEST_F(Protected, a_protected_message_that_no_envelope_holds_is_refused_and_told_to_the_audit_m_16_m_31) {
  const std::string path = root_.path + "/audit.jsonl";
  writer_.audit = std::make_shared<AuditLog>(path);
  sign();
  open();
  const Bytes large(wire::limits::max_payload_bytes + 1);
  SendOptions options;
  options.topic = "orders";
  EXPECT_THROW(billing_->send_large("analytics", segment::MemorySource(large), options), NotAvailableError);
  std::ifstream file(path);
  std::string line, another;
  std::getline(file, line);
  EXPECT_NE(line.find(R"("operation":"send","outcome":"NOT_AVAILABLE")"), std::string::npos) << line;
  EXPECT_NE(line.find(R"("topic":"orders")"), std::string::npos) << line;
  EXPECT_FALSE(std::getline(file, another));
}

TEST_F(Unguarded, what_is_to_be_protected_never_leaves_in_the_clear_m_28) {
  SendOptions confidential;
  confidential.protection.classification = Classification::confidential;
  EXPECT_THROW(analytics_.send("billing", order(), confidential), NotEncryptedError);
  SendOptions encrypted;
  encrypted.protection.encrypt_to = {"billing"};
  EXPECT_THROW(analytics_.send("billing", order(), encrypted), KeyUnavailableError);
}

}  // namespace
}  // namespace speed
