// Durable topics: messages that a host, such as speedd, keeps for subscriptions; `node.topic("orders")` is the way in. The
// host does the work; what is here sends calls to it.
// Threads: a Topic and a Consumer are for all threads, a Reader is for one at a time. They may outlive the node: then they throw
// NodeClosedError.
// Errors: what `Node::call` throws, and ApplicationError with the host's own codes: UNKNOWN_TOPIC, UNKNOWN_SUBSCRIPTION, TAKEN,
// FULL, DAMAGED, DENIED, STORAGE (the root is full), NOT_WRITTEN (to try again is right).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "speed/conversion.hpp"
#include "speed/export.hpp"
#include "speed/seconds.hpp"
#include "speed/value.hpp"

namespace speed {

namespace engine {
class TopicHost;
class TopicConsumer;
class TopicReader;
}  // namespace engine

// Where a new subscription, or a reader, begins.
class SPEED_EXPORT Start {
 public:
  static Start latest() { return Start("latest"); }  // with what is published from now on
  static Start earliest() { return Start("earliest"); }  // with the oldest message that is kept
  static Start offset(std::int64_t offset) { return Start(offset); }
  static Start at(Instant time);  // with the first message that was recorded then, or later

  const Value& value() const noexcept { return value_; }  // as it travels

 private:
  explicit Start(Value value) : value_(std::move(value)) {}

  Value value_;
};

// Who gets the messages of a subscription.
enum class SubscriptionType {
  exclusive,  // its one consumer, all in order
  failover,  // the consumer that joined first of those that are there, in order
  shared,  // whoever asks; no order
  key_shared,  // whoever asks; each key in order, with one consumer at a time
};

// One message of a topic.
struct TopicMessage {
  // Where a dead letter came from.
  struct Origin {
    std::string topic;
    std::int64_t offset = 0;
    std::string subscription;
    friend bool operator==(const Origin&, const Origin&) = default;
  };

  std::string topic;
  std::int64_t offset = 0;  // its place; offsets only grow
  Value payload;  // what was published; nil of a tombstone
  std::optional<std::string> key;
  std::map<std::string, std::string> properties;  // what its publisher wrote beside it
  std::string publisher;  // the authenticated node that published it
  std::int64_t recorded_at_ms = 0;  // Unix time
  std::uint32_t attempts = 0;  // how often it was delivered to its subscription, this time included; 0 for readers
  std::string lane;  // of its topic, as the host calls it: a topic that is made anew has another one
  std::int64_t epoch = 0;  // of its subscription: one that began anew, by a seek, has another one
  std::string producer;  // what its publisher gave for recognising repetitions, as the next
  std::uint64_t sequence = 0;
  bool is_tombstone = false;  // its key has no value any more
  std::optional<Origin> origin;  // of a dead letter
  std::uint32_t failed_attempts = 0;  // of a dead letter: how often it had been delivered there

  // It was delivered before, and may have been handled then.
  bool redelivered() const noexcept { return attempts > 1; }
};

// Where a published message is kept.
struct Kept {
  std::int64_t offset = -1;  // of a repetition that of the message that is kept; -1 if the host does not remember it
  bool duplicate = false;  // it was there before: nothing was kept again
  friend bool operator==(const Kept&, const Kept&) = default;
};

struct PublishOptions {
  std::optional<std::string> key = {};
  std::map<std::string, std::string> properties = {};
  // Shared and key-shared subscriptions get it no earlier; one of the two, or ConfigurationError.
  std::optional<Seconds> deliver_after = {};
  std::optional<Instant> deliver_at = {};
  // With both, a message whose sequence is not above the last one of this producer is a repetition, and not kept again:
  // after an error, publishing again under the same sequence is safe. Each node has producers of its own; `owner` is a family
  // that this node is in, whose nodes share them: "shop" for "shop.1" and "shop.2".
  std::string producer = {};
  std::string owner = {};
  std::uint64_t sequence = 0;
  Seconds timeout{30};
};

struct PublishBatchOptions {
  std::vector<std::optional<std::string>> keys = {};  // one for each message, or none at all; ConfigurationError
  std::map<std::string, std::string> properties = {};  // of each
  std::string producer = {};
  std::string owner = {};
  std::uint64_t sequence = 0;  // of the first one; those behind it count on
  Seconds timeout{30};  // of each write
};

struct ConsumerOptions {
  SubscriptionType type = SubscriptionType::exclusive;
  Start start = Start::latest();  // where a new subscription begins
  std::string name = {};  // of this consumer; one of its own if it is empty
  std::size_t prefetch = 100;  // how many messages are fetched at once
  std::uint32_t max_deliveries = 0;  // how often a message is delivered at most; 0: no bound
  Seconds ack_timeout{0};  // what is not acknowledged in that time comes again; 0: never
  // Keep what was delivered so often aside, in the topic of this name; if it is empty, in {topic}-{subscription}-DLQ. Without
  // it, such messages are dropped.
  std::optional<std::string> dead_letter = {};
  // Whether a new subscription outlives its consumers. One that does not is gone with the last of them, or with the host; they
  // join a new one then, at `start`.
  bool durable = true;
  Seconds timeout{30};  // how long a host that is away, or begins anew, is waited for
};

struct ReaderOptions {
  std::size_t prefetch = 100;
  // With Start::earliest(), of what is there now: only the last message of each key, none of a key that was deleted, and all
  // messages without a key. They are held in memory until they are received. What is published later comes as it is.
  bool compacted = false;
};

// One consumer of a subscription. What it was given and has not acknowledged comes again, to it or to another one, when it is
// closed or its process dies. It is closed at the latest when it is destroyed.
//
//     auto consumer = node.topic("orders").consumer("billing", {.type = speed::SubscriptionType::shared});
//     while (const auto message = consumer.receive(5s)) {
//       bill(message->payload);
//       consumer.acknowledge(*message);
//     }
class SPEED_EXPORT Consumer {
 public:
  ~Consumer();
  Consumer(Consumer&&) noexcept;
  Consumer& operator=(Consumer&&) noexcept;  // what is assigned to is closed first
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  const std::string& name() const;
  const std::string& subscription() const;

  // The next message; null after the timeout, or when the consumer is closed. Waits while the host is away, and joins again
  // when it is back.
  std::optional<TopicMessage> receive(std::optional<Seconds> timeout = std::nullopt);

  // These are handled, and do not come again. How many were not acknowledged before; messages from before a seek, or from
  // before the topic was made anew, count as none. InvalidArgumentsError for messages of another topic, ConfigurationError for
  // none. After another error, trying again is right.
  std::uint64_t acknowledge(const TopicMessage& message);
  std::uint64_t acknowledge(const std::vector<TopicMessage>& messages);
  // All up to this one are handled; for exclusive and failover, else InvalidArgumentsError.
  std::uint64_t acknowledge_until(const TopicMessage& message);
  // These could not be handled: they come again after the delay, or a back-off of the host's. How many this consumer had.
  // Their order is given up.
  std::uint64_t reject(const TopicMessage& message, std::optional<Seconds> delay = std::nullopt);
  std::uint64_t reject(const std::vector<TopicMessage>& messages, std::optional<Seconds> delay = std::nullopt);

  // Leaves; what it was given and is not acknowledged goes to others. Ends whoever waits in `receive`. Throws nothing: a
  // host that is away knows no consumers when it is back.
  void close() noexcept;

 private:
  friend class Topic;
  explicit Consumer(std::shared_ptr<engine::TopicConsumer> state);

  std::shared_ptr<engine::TopicConsumer> state_;
};

// Messages of a topic from a place on, without a subscription.
class SPEED_EXPORT Reader {
 public:
  ~Reader();
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;

  // The next message; null after the timeout.
  std::optional<TopicMessage> receive(std::optional<Seconds> timeout = std::nullopt);

 private:
  friend class Topic;
  explicit Reader(std::unique_ptr<engine::TopicReader> state);

  std::unique_ptr<engine::TopicReader> state_;
};

// A durable topic; `Node::topic` makes it, and asks its host nothing.
//
//     const speed::Topic orders = node.topic("orders");
//     orders.publish({{"id", 1}, {"amount", 20.5}}, {.key = "customer 7"});
class SPEED_EXPORT Topic {
 public:
  const std::string& name() const;
  const std::string& host() const;

  // Publishes one message: it is kept when this returns.
  Kept publish(const Value& payload, const PublishOptions& options = {}) const;
  Kept publish(const Map& payload, const PublishOptions& options = {}) const {
    return publish(Value(payload), options);
  }
  // Publishes many in their order, up to 1,000 or 4 MiB in one write. On an error those before the write that failed are
  // kept: with a producer, publish all again.
  std::vector<Kept> publish_batch(const std::vector<Value>& payloads, const PublishBatchOptions& options = {}) const;
  // Publishes a tombstone: this key has no value any more.
  Kept delete_key(const std::string& key, Seconds timeout = Seconds(30)) const;

  // Joins a subscription, which is made if it is not there. UnknownNodeError, NodeLeftError, CallTimeoutError once the host
  // was away for the timeout.
  Consumer consumer(const std::string& subscription, const ConsumerOptions& options = {}) const;
  // Reads without a subscription.
  Reader reader(const Start& start = Start::latest(), const ReaderOptions& options = {}) const;

 private:
  friend class Node;
  explicit Topic(std::shared_ptr<const engine::TopicHost> host);

  std::shared_ptr<const engine::TopicHost> host_;
};

}  // namespace speed
