// Clients of durable topics: records are read, and the host is asked, as published (D-4 to D-14, D-18).
#include "speed/topic.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "fabric.hpp"
#include "fs/clock.hpp"
#include "vectors.hpp"
#include "wire/value/topic_record.hpp"

namespace speed {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::cases;
using test::Json;
using test::TestRoot;
using test::value_of;
using test::what;

constexpr Seconds soon = test::hang_time;

TEST(TopicRecord, those_published_as_valid_are_read) {
  for (const Json& item : cases("topics", "records_valid")) {
    const Bytes data = bytes_of(item["hex"]);
    const wire::TopicRecord record = wire::read_topic_record(data);
    EXPECT_EQ(static_cast<int>(record.type), item["type"].get<int>()) << what(item);
    EXPECT_EQ(record.attempts, item["attempts"].get<int>()) << what(item);
    EXPECT_EQ(record.key_hash, item["key_hash"].get<std::uint32_t>()) << what(item);
    EXPECT_EQ(record.due_ms, item["due_ms"].get<std::uint64_t>()) << what(item);
    EXPECT_EQ(record.sequence, item["sequence"].get<std::uint64_t>()) << what(item);
    EXPECT_EQ(record.about.size(), item["about"].size()) << what(item);
    EXPECT_EQ(record.about.at("publisher"), Value(item["about"]["publisher"].get<std::string>())) << what(item);
    EXPECT_EQ(Bytes(record.payload.begin(), record.payload.end()), bytes_of(item["payload"])) << what(item);
  }
}

TEST(TopicRecord, those_published_as_invalid_are_refused) {
  for (const Json& item : cases("topics", "records_invalid")) {
    const Bytes data = bytes_of(item["hex"]);
    try {
      wire::read_topic_record(data);
      ADD_FAILURE() << what(item);
    } catch (const WireError& error) {
      EXPECT_EQ(error.reason(), "BAD_JOURNAL") << what(item);
    }
  }
}

// A node that answers as a step says, and notes what it was asked beside that.
class ScriptedHost {
 public:
  explicit ScriptedHost(Node& node) {
    for (const char* name : {"publish", "subscribe", "receive", "acknowledge", "reject", "leave", "read", "describe"}) {
      node.serve(std::string("topics.") + name, [this](const Request& request) { return answer(request); });
    }
    node.serve("topics.begin", [](const Request& request) -> Response {
      return {{"lane", request.get<std::string>("lane")},
              {"epoch", request.get<std::int64_t>("epoch")},
              {"begun", request.get<Array>("offsets")}};
    });
  }

  void expect(const Json& exchanges) {
    const std::lock_guard guard(lock_);
    for (const Json& one : exchanges) expected_.push_back(one);
  }

  // What went otherwise than expected; empty if nothing did.
  std::string surprises() {
    const std::lock_guard guard(lock_);
    return surprises_ + (expected_.empty() ? "" : "never asked: " + expected_.front().dump());
  }

 private:
  Response answer(const Request& request) {
    const std::lock_guard guard(lock_);
    const Json next = expected_.empty() ? Json() : expected_.front();
    if (!expected_.empty()) expected_.pop_front();
    if (next.is_null() || next["service"] != request.service ||
        value_of(next["arguments"]) != Value(request.arguments)) {
      surprises_ += request.service + " instead of " + next.dump() + "\n";
      return Response::error("SURPRISED", "this was not to be asked");
    }
    if (next.contains("refusal")) return Response::error(next["refusal"].get<std::string>(), "as it was written");
    return value_of(next["answer"]);
  }

  std::mutex lock_;
  std::deque<Json> expected_;
  std::string surprises_;
};

std::map<std::string, std::string> texts(const Json& given) {
  return given.is_null() ? std::map<std::string, std::string>() : given.get<std::map<std::string, std::string>>();
}

Start start_of(const Json& start) {
  if (start.is_object()) return Start::at(Instant(std::chrono::milliseconds(start["at_ms"].get<std::int64_t>())));
  return start == "earliest" ? Start::earliest() : Start::latest();
}

// What a program sees of a message, as the vectors write it; the payload is compared by itself.
Json seen(const TopicMessage& message) {
  Json origin;
  if (message.origin) origin = {message.origin->topic, message.origin->offset, message.origin->subscription};
  Json told{{"offset", message.offset},
            {"attempts", message.attempts},
            {"redelivered", message.redelivered()},
            {"recorded_at_ms", message.recorded_at_ms},
            {"payload", nullptr},
            {"key", message.key ? Json(*message.key) : Json()},
            {"properties", Json::object()},
            {"publisher", message.publisher},
            {"producer", message.producer},
            {"sequence", message.sequence},
            {"is_tombstone", message.is_tombstone},
            {"origin", origin},
            {"failed_attempts", message.failed_attempts}};
  for (const auto& [name, text] : message.properties) told["properties"][name] = text;
  return told;
}

// Does what the steps of a conversation say.
class Program {
 public:
  explicit Program(Node& node) : topic_(node.topic("orders")) {}

  void run(const Json& step) {
    const Json& given = step["given"];
    if (!step.contains("raises")) {
      EXPECT_EQ(done(step["do"], given, step["gives"]), told(step["gives"]));
      return;
    }
    try {
      done(step["do"], given, {});
      ADD_FAILURE() << "raises nothing";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), step["raises"].get<std::string>());
    }
  }

 private:
  static Json told(Json gives) {
    if (gives.is_object() && gives.contains("payload")) gives["payload"] = nullptr;
    return gives;
  }

  Json done(const std::string& does, const Json& given, const Json& gives) {
    if (does == "publish") return shown(topic_.publish(value_of(given["payload"]), publishing(given)));
    if (does == "publish_batch") return batch(given);
    if (does == "delete_key") return shown(topic_.delete_key(given["key"].get<std::string>()));
    if (does == "consumer")
      return consumer_.emplace(topic_.consumer(given["subscription"].get<std::string>(), terms(given))), nullptr;
    if (does == "receive") return noted(consumer_->receive(Seconds(given["timeout"].get<double>())), gives);
    if (does == "acknowledge") return consumer_->acknowledge(received(given));
    if (does == "acknowledge_until")
      return consumer_->acknowledge_until(received_[given["message"].get<std::size_t>()]);
    if (does == "reject") return consumer_->reject(received(given), delay(given));
    if (does == "close") return consumer_->close(), nullptr;
    if (does == "reader") return reader_.emplace(reader(given)), nullptr;
    if (does == "read") return noted(reader_->receive(Seconds(given["timeout"].get<double>())), gives);
    throw std::invalid_argument(does);
  }

  static Json shown(const Kept& kept) { return {{"offset", kept.offset}, {"duplicate", kept.duplicate}}; }

  static PublishOptions publishing(const Json& given) {
    PublishOptions options;
    if (given.contains("key")) options.key = given["key"].get<std::string>();
    options.properties = texts(given.value("properties", Json()));
    if (given.contains("due_ms"))
      options.deliver_at = Instant(std::chrono::milliseconds(given["due_ms"].get<std::int64_t>()));
    options.producer = given.value("producer", "");
    options.sequence = given.value("sequence", std::uint64_t{0});
    return options;
  }

  Json batch(const Json& given) {
    PublishBatchOptions options;
    for (const Json& key : given.value("keys", Json::array())) {
      options.keys.push_back(key.is_null() ? std::nullopt : std::optional(key.get<std::string>()));
    }
    options.producer = given.value("producer", "");
    options.sequence = given.value("sequence", std::uint64_t{0});
    Json all = Json::array();
    for (const auto& kept : topic_.publish_batch(value_of(given["payloads"]).as<Array>(), options))
      all.push_back(shown(kept));
    return all;
  }

  static ConsumerOptions terms(const Json& given) {
    ConsumerOptions options;
    if (given.value("type", "") == "key-shared") options.type = SubscriptionType::key_shared;
    options.start = start_of(given.value("start", Json()));
    options.name = given["name"].get<std::string>();
    options.prefetch = given.value("prefetch", options.prefetch);
    options.max_deliveries = given.value("max_deliveries", 0U);
    options.ack_timeout = std::chrono::milliseconds(given.value("ack_timeout_ms", 0));
    if (given.contains("dead_letter")) options.dead_letter = "";
    return options;
  }

  Reader reader(const Json& given) {
    ReaderOptions options;
    options.prefetch = given.value("prefetch", options.prefetch);
    options.compacted = given.value("compacted", false);
    return topic_.reader(start_of(given["start"]), options);
  }

  static std::optional<Seconds> delay(const Json& given) {
    if (!given.contains("delay_ms")) return std::nullopt;
    return std::chrono::milliseconds(given["delay_ms"].get<int>());
  }

  std::vector<TopicMessage> received(const Json& given) {
    std::vector<TopicMessage> chosen;
    for (const Json& number : given["messages"]) chosen.push_back(received_[number.get<std::size_t>()]);
    return chosen;
  }

  Json noted(const std::optional<TopicMessage>& message, const Json& gives) {
    if (!message) return nullptr;
    received_.push_back(*message);
    if (gives.is_object()) {
      EXPECT_EQ(message->payload, value_of(gives["payload"]));
    }
    return seen(*message);
  }

  Topic topic_;
  std::optional<Consumer> consumer_;
  std::optional<Reader> reader_;
  std::vector<TopicMessage> received_;
};

// What the services of the host note is looked at when it is closed: then its threads are gone.
class TopicClient : public ::testing::Test {
 protected:
  TestRoot root_;
  Node hosting_{"speedd.topics", root_.options({"billing"})};
  Node billing_{"billing", root_.options({"speedd.topics"})};
};

TEST(TopicConversations, each_is_as_published) {
  const TestRoot root;
  for (const Json& item : cases("topics", "conversations")) {
    Node hosting("speedd.topics", root.options({"billing"}));
    Node billing("billing", root.options({"speedd.topics"}));
    ScriptedHost host(hosting);
    Program program(billing);
    int number = 0;
    for (const Json& step : item["steps"]) {
      SCOPED_TRACE(what(item) + ", step " + std::to_string(number++));
      host.expect(step["host"]);
      ASSERT_NO_THROW(program.run(step)) << host.surprises();
      ASSERT_EQ(host.surprises(), "");
    }
    billing.close();  // before its program goes, whose consumer would tell the host
  }
}

// How many messages each write has, of a batch.
std::vector<std::size_t> writes_of(Node& host, Node& client, const std::vector<Value>& payloads) {
  std::vector<std::size_t> writes;
  host.serve("topics.publish", [&](const Request& request) -> Response {
    const auto messages = request.get<Array>("messages");
    writes.push_back(messages.size());
    return {{"lane", "x"}, {"offsets", std::vector<std::int64_t>(messages.size(), 7)}, {"repeated", Array()}};
  });
  EXPECT_EQ(client.topic("orders").publish_batch(payloads).size(), payloads.size());
  host.close();
  return writes;
}

TEST_F(TopicClient, a_batch_goes_in_writes_of_a_thousand) {
  const std::vector<Value> payloads(1001, Value(1));
  EXPECT_EQ(writes_of(hosting_, billing_, payloads), (std::vector<std::size_t>{1000, 1}));
}

TEST_F(TopicClient, a_write_holds_4_mebibytes) {
  const std::vector<Value> payloads(2, Value(Bytes(3 << 20)));
  EXPECT_EQ(writes_of(hosting_, billing_, payloads), (std::vector<std::size_t>{1, 1}));
}

// D-29: the properties of all messages that the host is given by a service of `client` that runs under a trace.
using Properties = std::map<std::string, std::string>;
const std::string trace_at_hand = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

std::vector<Properties> published_under_a_trace(Node& host, Node& client, const ServiceFunction& service) {
  std::vector<Properties> told;
  host.serve("topics.publish", [&](const Request& request) -> Response {
    for (const Value& message : request.get<Array>("messages")) {
      const Value& given = message["properties"];
      told.push_back(given.is_nil() ? Properties() : given.as<Properties>());
    }
    return {{"lane", "x"}, {"offsets", std::vector<std::int64_t>(told.size(), 7)}, {"repeated", Array()}};
  });
  client.serve("order", service);
  host.call("billing", "order", {}, {.traceparent = trace_at_hand});
  host.close();
  return told;
}

TEST_F(TopicClient, what_a_service_publishes_carries_its_trace_on) {
  const auto order = [this](const Request&) -> Response {
    billing_.topic("orders").publish(Value(1), {.properties = {{"a", "b"}}});
    return Value();
  };
  EXPECT_EQ(published_under_a_trace(hosting_, billing_, order),
            (std::vector<Properties>{{{"a", "b"}, {"traceparent", trace_at_hand}}}));
}

TEST_F(TopicClient, each_message_of_a_batch_carries_the_trace_on) {
  const auto order = [this](const Request&) -> Response {
    billing_.topic("orders").publish_batch({Value(1), Value(2)});
    return Value();
  };
  EXPECT_EQ(published_under_a_trace(hosting_, billing_, order),
            std::vector<Properties>(2, {{"traceparent", trace_at_hand}}));
}

TEST_F(TopicClient, a_trace_that_the_program_gives_stays) {
  const Properties own{{"traceparent", "of its own"}};
  const auto order = [&](const Request&) -> Response {
    billing_.topic("orders").publish(Value(1), {.properties = own});
    return Value();
  };
  EXPECT_EQ(published_under_a_trace(hosting_, billing_, order), std::vector<Properties>{own});
}

TEST_F(TopicClient, a_message_without_room_for_another_property_goes_without_its_trace) {
  Properties full;
  while (full.size() < wire::limits::max_topic_properties) full.emplace("property " + std::to_string(full.size()), "");
  const auto order = [&](const Request&) -> Response {
    billing_.topic("orders").publish(Value(1), {.properties = full});
    return Value();
  };
  EXPECT_EQ(published_under_a_trace(hosting_, billing_, order), std::vector<Properties>{full});
}

TEST_F(TopicClient, what_is_due_later_says_when) {
  std::int64_t due = 0;
  hosting_.serve("topics.publish", [&](const Request& request) -> Response {
    due = request.get<Array>("messages")[0]["due_ms"].as<std::int64_t>();
    return {{"lane", "x"}, {"offsets", Array{Value(0)}}, {"repeated", Array()}};
  });
  const std::int64_t before = fs::unix_ms();
  billing_.topic("orders").publish(Value(1), {.deliver_after = 1min});
  hosting_.close();
  EXPECT_GE(due, before + 60'000);
}

TEST_F(TopicClient, what_cannot_be_meant_is_refused_before_the_host_is_asked) {
  const Topic orders = billing_.topic("orders");
  EXPECT_THROW(orders.publish(Value(1), {.deliver_after = 1s, .deliver_at = Instant()}), ConfigurationError);
  EXPECT_THROW(orders.publish_batch({Value(1), Value(2)}, {.keys = {"one"}}), ConfigurationError);
}

TEST_F(TopicClient, a_host_that_is_away_is_waited_for_as_long_as_it_is_allowed) {
  EXPECT_THROW(billing_.topic("orders", "absent").consumer("billing", {.timeout = 200ms}), UnknownNodeError);
}

TEST_F(TopicClient, closing_ends_who_waits) {
  std::promise<void> asked;
  std::promise<void> left;
  hosting_.serve("topics.subscribe", [](const Request&) -> Response { return {{"lane", "x"}, {"cursor", 0}}; });
  hosting_.serve("topics.receive", [&](const Request& request) -> Response {
    asked.set_value();
    left.get_future().wait();
    return {{"lane", "x"}, {"batch", request.get<int>("got")}, {"messages", Array()}};
  });
  hosting_.serve("topics.leave", [&](const Request&) -> Response {
    left.set_value();
    return Value(Map());
  });
  Consumer consumer = billing_.topic("orders").consumer("billing");
  std::thread waits([&] { EXPECT_FALSE(consumer.receive().has_value()); });
  asked.get_future().wait();
  consumer.close();
  waits.join();
  hosting_.close();
}

TEST_F(TopicClient, a_consumer_that_is_closed_while_it_joins_again_has_left_in_the_end) {
  std::mutex lock;
  std::vector<std::string> asked;
  const auto note = [&](const char* what) {
    const std::lock_guard guard(lock);
    asked.emplace_back(what);
    return asked.size();
  };
  std::atomic<bool> has_joined = false;
  std::promise<void> joins_again;
  std::promise<void> left;
  hosting_.serve("topics.subscribe", [&](const Request&) -> Response {
    if (has_joined.exchange(true)) {
      joins_again.set_value();
      left.get_future().wait();
    }
    note("subscribe");
    return {{"lane", "x"}, {"cursor", 0}};
  });
  hosting_.serve("topics.receive", [](const Request&) { return Response::error("NOT_JOINED", "who is this?"); });
  hosting_.serve("topics.leave", [&](const Request&) -> Response {
    if (note("leave") == 2) left.set_value();
    return Value(Map());
  });
  Consumer consumer = billing_.topic("orders").consumer("billing");
  std::thread waits([&] { EXPECT_FALSE(consumer.receive().has_value()); });
  joins_again.get_future().wait();
  consumer.close();
  waits.join();
  hosting_.close();
  EXPECT_EQ(asked, (std::vector<std::string>{"subscribe", "leave", "subscribe", "leave"}));
}

// A subscription with four messages; who seeks gives it another epoch.
struct FourMessages {
  explicit FourMessages(Node& node) {
    node.serve("topics.subscribe",
               [](const Request&) -> Response { return {{"lane", "x"}, {"epoch", 1}, {"cursor", 0}}; });
    node.serve("topics.leave", [](const Request&) { return Response(Value(Map())); });
    node.serve("topics.receive", [this](const Request&) -> Response { return answer(); });
    node.serve("topics.begin", [this](const Request& request) -> Response {
      const auto offsets = request.get<std::vector<std::int64_t>>("offsets");
      const std::lock_guard guard(lock);
      begun.push_back(offsets);
      const bool is_now = request.get<std::int64_t>("epoch") == epoch;
      return {{"lane", "x"}, {"epoch", epoch}, {"begun", is_now ? offsets : std::vector<std::int64_t>()}};
    });
    node.serve("topics.acknowledge", [this](const Request& request) -> Response {
      const std::lock_guard guard(lock);
      const std::uint64_t count = request.get<std::int64_t>("epoch") == epoch ? 1 : 0;
      return {{"acknowledged", count}, {"stale", 1 - count}, {"lane", "x"}, {"epoch", epoch}};
    });
  }

  Response answer() {
    const std::lock_guard guard(lock);
    Array rows;
    for (std::int64_t offset = 0; offset < 4; ++offset) {
      rows.emplace_back(Array{Value(offset), Value(1), Value(0), Value(record)});
    }
    return {{"lane", "x"}, {"epoch", epoch}, {"batch", 1}, {"messages", rows}};
  }

  void seek() {
    const std::lock_guard guard(lock);
    ++epoch;
  }

  const Bytes record = bytes_of(cases("topics", "records_valid").front()["hex"]);
  std::mutex lock;
  std::int64_t epoch = 1;
  std::vector<std::vector<std::int64_t>> begun;
};

TEST_F(TopicClient, what_was_fetched_before_a_seek_is_not_handed_out) {
  FourMessages host(hosting_);
  Consumer consumer = billing_.topic("orders").consumer("billing");
  const TopicMessage before = consumer.receive(soon).value();
  host.seek();
  EXPECT_EQ(consumer.acknowledge(before), 0U);
  const TopicMessage after = consumer.receive(soon).value();
  EXPECT_EQ(after.offset, 0);
  EXPECT_EQ(after.epoch, 2);
  EXPECT_EQ(consumer.acknowledge({before, after}), 1U);
  consumer.close();
  hosting_.close();
}

TEST_F(TopicClient, the_host_is_told_of_each_message_before_the_program_gets_it) {
  FourMessages host(hosting_);
  Consumer consumer = billing_.topic("orders").consumer("billing");
  for (std::int64_t offset = 0; offset < 4; ++offset) {
    EXPECT_EQ(consumer.receive(soon).value().offset, offset);
    const std::lock_guard guard(host.lock);
    std::int64_t last = 0;
    for (const auto& offsets : host.begun) last = std::max(last, offsets.back());
    EXPECT_GE(last, offset);
  }
  consumer.close();
  hosting_.close();
}

TEST_F(TopicClient, who_has_no_grant_is_refused_at_once) {
  const TimePoint began = fs::monotonic_now();
  Node nobody("nobody", root_.options({"speedd.topics"}));
  EXPECT_THROW(nobody.topic("orders").publish(Value(1)), AccessDeniedError);
  EXPECT_THROW(nobody.topic("orders").consumer("billing"), AccessDeniedError);
  EXPECT_LT(fs::monotonic_now() - began, 5s) << "it waited for a host that has only just begun";
}

TEST_F(TopicClient, a_consumer_leaves_when_it_goes_or_is_replaced) {
  std::atomic<int> left = 0;
  hosting_.serve("topics.subscribe", [](const Request&) -> Response { return {{"lane", "x"}, {"cursor", 0}}; });
  hosting_.serve("topics.leave", [&](const Request&) -> Response {
    ++left;
    return Value(Map());
  });
  const Topic orders = billing_.topic("orders");
  {
    Consumer one = orders.consumer("billing");
    EXPECT_NE(one.name(), orders.consumer("billing").name());
    EXPECT_EQ(left, 1);
    one = orders.consumer("audit", {.name = "a-1"});
    EXPECT_EQ(left, 2);
    EXPECT_EQ(one.subscription() + "/" + one.name(), "audit/a-1");
  }
  EXPECT_EQ(left, 3);
}

TEST_F(TopicClient, what_outlives_the_node_says_that_it_is_closed) {
  hosting_.serve("topics.subscribe", [](const Request&) -> Response { return {{"lane", "x"}, {"cursor", 0}}; });
  const Topic orders = billing_.topic("orders");
  Consumer consumer = orders.consumer("billing");
  billing_.close();
  EXPECT_THROW(orders.publish(Value(1)), NodeClosedError);
  EXPECT_THROW(consumer.receive(soon), NodeClosedError);
  consumer.close();
  EXPECT_FALSE(consumer.receive(soon).has_value());
}

TEST_F(TopicClient, an_answer_of_another_shape_is_told) {
  hosting_.serve("topics.publish", [](const Request&) -> Response { return {{"lane", "x"}}; });
  hosting_.serve("topics.read", [](const Request&) -> Response {
    return {{"lane", "x"}, {"next", 1}, {"messages", Array{Value(Array{Value(1), Value("often")})}}};
  });
  const Topic orders = billing_.topic("orders");
  EXPECT_THROW(orders.publish(Value(1)), WireError);
  EXPECT_THROW(orders.reader(), WireError);
}

}  // namespace
}  // namespace speed
