#include "speed/topic.hpp"

#include <random>

#include "engine/span.hpp"
#include "engine/tracing.hpp"
#include "fs/clock.hpp"
#include "topics/topic_consumer.hpp"
#include "topics/topic_reader.hpp"
#include "wire/limits.hpp"
#include "wire/value/value_codec.hpp"

namespace speed {

namespace {

using engine::duration_of;

constexpr std::size_t batch_messages = 1000;
constexpr std::size_t batch_bytes = 4 << 20;

// What is said of one message that is published, beside its payload.
struct PublishedFields {
  const std::optional<std::string>& key;
  const std::map<std::string, std::string>& properties;
  std::int64_t due_ms;
  std::uint64_t sequence;
};

Map outgoing(const Value& payload, const PublishedFields& fields) {
  Map message{{"payload", wire::pack(payload, "payload")}};
  if (fields.key) message.set("key", *fields.key);
  if (!fields.properties.empty()) message.set("properties", fields.properties);
  if (fields.due_ms != 0) message.set("due_ms", fields.due_ms);
  if (fields.sequence != 0) message.set("sequence", fields.sequence);
  return message;
}

// Properties with the trace at hand, unless they have one, or no room for it (D-29).
std::map<std::string, std::string> traced(std::map<std::string, std::string> properties) {
  const auto& trace = engine::current_traceparent;
  if (trace && properties.size() < wire::limits::max_topic_properties) properties.try_emplace("traceparent", *trace);
  return properties;
}

std::int64_t due_ms(const PublishOptions& options) {
  using std::chrono::milliseconds;
  if (options.deliver_after && options.deliver_at) {
    throw ConfigurationError("deliver_after and deliver_at are both given: use one of them");
  }
  if (options.deliver_after) {
    return fs::unix_ms() + engine::in_milliseconds("deliver_after", *options.deliver_after);
  }
  return options.deliver_at ? std::chrono::floor<milliseconds>(*options.deliver_at).time_since_epoch().count() : 0;
}

// Who publishes, and how long the host may take.
struct Publisher {
  const std::string& producer;
  const std::string& owner;
  Seconds timeout;
};

// Publishes by one write; appends what came of each.
void publish(const engine::TopicHost& host, Array messages, const Publisher& publisher, std::vector<Kept>& kept) {
  Map question{{"messages", std::move(messages)}};
  if (!publisher.producer.empty()) question.set("producer", publisher.producer);
  if (!publisher.owner.empty()) question.set("owner", publisher.owner);
  const Value answer = host.ask("publish", question, publisher.timeout);
  const std::size_t first = kept.size();
  for (const auto offset : engine::answered<std::vector<std::int64_t>>(answer, "offsets")) {
    kept.push_back({offset, offset < 0});
  }
  for (const auto place : engine::answered<std::vector<std::size_t>>(answer, "repeated")) {
    if (place >= kept.size() - first) throw WireError("BAD_PAYLOAD", "the host's answer: a repetition of no message");
    kept[first + place].duplicate = true;
  }
}

Kept publish(const engine::TopicHost& host, Map message, const Publisher& publisher) {
  std::vector<Kept> kept;
  publish(host, Array{Value(std::move(message))}, publisher, kept);
  if (kept.size() != 1) throw WireError("BAD_PAYLOAD", "the host's answer: not one offset for one message");
  return kept.front();
}

std::string name_of(SubscriptionType type) {
  switch (type) {
    case SubscriptionType::exclusive: return "exclusive";
    case SubscriptionType::failover: return "failover";
    case SubscriptionType::shared: return "shared";
    case SubscriptionType::key_shared: return "key-shared";
  }
  throw ConfigurationError("type is no SubscriptionType: use one of its names");
}

// For a consumer that was given none.
std::string own_name() {
  std::random_device random;
  wire::Block<8> digits;
  wire::store<std::uint32_t>(digits.data(), random());
  wire::store<std::uint32_t>(digits.data() + 4, random());
  return "c-" + wire::to_hex(digits);
}

std::string dead_letters_of(const std::string& topic, const std::string& subscription, const ConsumerOptions& options) {
  if (!options.dead_letter) return "";
  return options.dead_letter->empty() ? topic + "-" + subscription + "-DLQ" : *options.dead_letter;
}

}  // namespace

Start Start::at(Instant time) {
  const auto milliseconds = std::chrono::floor<std::chrono::milliseconds>(time).time_since_epoch().count();
  return Start(Map{{"at_ms", milliseconds}});
}

// --- Topic ---

Topic::Topic(std::shared_ptr<const engine::TopicHost> host) : host_(std::move(host)) {}

const std::string& Topic::name() const { return host_->topic(); }
const std::string& Topic::host() const { return host_->host(); }

Kept Topic::publish(const Value& payload, const PublishOptions& options) const {
  const auto properties = traced(options.properties);
  Map message = outgoing(payload, {options.key, properties, due_ms(options), options.sequence});
  return speed::publish(*host_, std::move(message), {options.producer, options.owner, options.timeout});
}

Kept Topic::delete_key(const std::string& key, Seconds timeout) const {
  const std::string nobody;
  return speed::publish(*host_, {{"payload", Bytes()}, {"key", key}, {"tombstone", true}}, {nobody, nobody, timeout});
}

std::vector<Kept> Topic::publish_batch(const std::vector<Value>& payloads, const PublishBatchOptions& options) const {
  if (!options.keys.empty() && options.keys.size() != payloads.size()) {
    throw ConfigurationError("keys must be as many as the messages, or none: nullopt is for a message without one");
  }
  const std::optional<std::string> no_key;
  const auto properties = traced(options.properties);
  std::vector<Kept> kept;
  const Publisher publisher{options.producer, options.owner, options.timeout};
  Array batch;
  std::size_t size = 0;
  const auto write = [&] {
    if (!batch.empty()) speed::publish(*host_, std::exchange(batch, {}), publisher, kept);
    size = 0;
  };
  for (std::size_t at = 0; at < payloads.size(); ++at) {
    const std::uint64_t sequence = options.sequence == 0 ? 0 : options.sequence + at;
    const auto& key = options.keys.empty() ? no_key : options.keys[at];
    Map message = outgoing(payloads[at], {key, properties, 0, sequence});
    const std::size_t bytes = message.at("payload").get_if<Bytes>()->size();
    if (batch.size() >= batch_messages || size + bytes > batch_bytes) write();
    batch.emplace_back(std::move(message));
    size += bytes;
  }
  write();
  return kept;
}

Consumer Topic::consumer(const std::string& subscription, const ConsumerOptions& options) const {
  Map terms{{"type", name_of(options.type)},
            {"start", options.start.value()},
            {"max_deliveries", options.max_deliveries},
            {"ack_timeout_ms", engine::in_milliseconds("ack_timeout", options.ack_timeout)},
            {"dead_letter", dead_letters_of(name(), subscription, options)}};
  if (!options.durable) terms.set("durable", false);
  std::string name = options.name.empty() ? own_name() : options.name;
  return Consumer(std::make_shared<engine::TopicConsumer>(host_, subscription, std::move(name), std::move(terms),
                                                          options.prefetch, duration_of("timeout", options.timeout)));
}

Reader Topic::reader(const Start& start, const ReaderOptions& options) const {
  return Reader(std::make_unique<engine::TopicReader>(host_, start, options));
}

// --- Consumer ---

namespace {

std::optional<Duration> bound(std::optional<Seconds> timeout) {
  return timeout ? std::optional(duration_of("timeout", *timeout)) : std::nullopt;
}

}  // namespace

Consumer::Consumer(std::shared_ptr<engine::TopicConsumer> state) : state_(std::move(state)) {}

Consumer::~Consumer() { close(); }

Consumer::Consumer(Consumer&&) noexcept = default;

Consumer& Consumer::operator=(Consumer&& other) noexcept {
  Consumer ends(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

const std::string& Consumer::name() const { return state_->name(); }
const std::string& Consumer::subscription() const { return state_->subscription(); }

std::optional<TopicMessage> Consumer::receive(std::optional<Seconds> timeout) {
  return state_->receive(bound(timeout));
}

std::uint64_t Consumer::acknowledge(const TopicMessage& message) { return state_->acknowledge({message}); }
std::uint64_t Consumer::acknowledge(const std::vector<TopicMessage>& messages) { return state_->acknowledge(messages); }
std::uint64_t Consumer::acknowledge_until(const TopicMessage& message) { return state_->acknowledge_until(message); }

std::uint64_t Consumer::reject(const TopicMessage& message, std::optional<Seconds> delay) {
  return state_->reject({message}, delay);
}

std::uint64_t Consumer::reject(const std::vector<TopicMessage>& messages, std::optional<Seconds> delay) {
  return state_->reject(messages, delay);
}

void Consumer::close() noexcept {
  if (state_ != nullptr) state_->close();
}

// --- Reader ---

Reader::Reader(std::unique_ptr<engine::TopicReader> state) : state_(std::move(state)) {}
Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;

std::optional<TopicMessage> Reader::receive(std::optional<Seconds> timeout) { return state_->receive(bound(timeout)); }

}  // namespace speed
