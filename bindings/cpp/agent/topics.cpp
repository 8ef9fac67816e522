#include "topics.hpp"

#include <stdexcept>

namespace agent {

namespace {

std::string given(const Json& command, const char* key) { return command.value(key, std::string()); }

std::optional<std::string> key_of(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<std::string>());
}

Json shown(const speed::Kept& kept) { return {{"offset", kept.offset}, {"duplicate", kept.duplicate}}; }

speed::SubscriptionType type_of(const std::string& name) {
  if (name == "failover") return speed::SubscriptionType::failover;
  if (name == "shared") return speed::SubscriptionType::shared;
  if (name == "key-shared") return speed::SubscriptionType::key_shared;
  return speed::SubscriptionType::exclusive;
}

speed::Start start_of(const Json& start) {
  if (start.is_number()) return speed::Start::offset(start.get<std::int64_t>());
  if (start.is_object()) {
    return speed::Start::at(speed::Instant(std::chrono::milliseconds(start.at("at_ms").get<std::int64_t>())));
  }
  return start == "earliest" ? speed::Start::earliest() : speed::Start::latest();
}

speed::Seconds timeout_of(const Json& command, double otherwise) {
  return speed::Seconds(command.value("timeout", otherwise));
}

Json shown(const speed::TopicMessage& message) {
  Json origin;
  if (message.origin) origin = {message.origin->topic, message.origin->offset, message.origin->subscription};
  return {{"offset", message.offset},
          {"payload", json_of(message.payload)},
          {"key", text_or_null(message.key)},
          {"properties", json_of(message.properties)},
          {"publisher", message.publisher},
          {"attempts", message.attempts},
          {"producer", message.producer},
          {"sequence", message.sequence},
          {"is_tombstone", message.is_tombstone},
          {"origin", origin},
          {"failed_attempts", message.failed_attempts}};
}

}  // namespace

Json Topics::publish(const Json& command) {
  speed::PublishOptions options;
  options.key = key_of(command.value("key", Json()));
  options.properties = command.value("properties", options.properties);
  options.producer = given(command, "producer");
  options.owner = given(command, "owner");
  options.sequence = command.value("sequence", std::uint64_t{0});
  options.timeout = timeout_of(command, 30);
  if (command.contains("after")) options.deliver_after = speed::Seconds(command["after"].get<double>());
  return shown(node_.topic(given(command, "topic")).publish(value_of(command.at("payload")), options));
}

Json Topics::publish_batch(const Json& command) {
  speed::PublishBatchOptions options;
  for (const Json& key : command.value("keys", Json::array())) options.keys.push_back(key_of(key));
  options.producer = given(command, "producer");
  options.sequence = command.value("sequence", std::uint64_t{0});
  std::vector<speed::Value> payloads;
  for (const Json& payload : command.at("payloads")) payloads.push_back(value_of(payload));
  Json all = Json::array();
  for (const auto& kept : node_.topic(given(command, "topic")).publish_batch(payloads, options))
    all.push_back(shown(kept));
  return all;
}

Json Topics::delete_key(const Json& command) {
  return shown(node_.topic(given(command, "topic")).delete_key(given(command, "key")));
}

Json Topics::consume(const Json& command) {
  leave();
  speed::ConsumerOptions options;
  options.type = type_of(given(command, "type"));
  options.start = start_of(command.value("start", Json()));
  options.name = given(command, "consumer");
  options.prefetch = command.value("prefetch", options.prefetch);
  options.max_deliveries = command.value("max_deliveries", 0U);
  options.timeout = timeout_of(command, 30);
  options.durable = command.value("durable", true);
  if (command.contains("dead_letter")) options.dead_letter = given(command, "dead_letter");
  consumer_.emplace(node_.topic(given(command, "topic")).consumer(given(command, "subscription"), options));
  return consumer_->name();
}

Json Topics::receive(const Json& command) {
  if (!consumer_) throw std::invalid_argument("nothing is consumed");
  const auto message = consumer_->receive(timeout_of(command, 5));
  if (!message) return nullptr;
  received_.insert_or_assign(message->offset, *message);
  return shown(*message);
}

const speed::TopicMessage& Topics::received(const Json& command) const {
  const auto found = received_.find(command.at("offset").get<std::int64_t>());
  if (found == received_.end() || !consumer_) throw std::invalid_argument("nothing was received there");
  return found->second;
}

Json Topics::acknowledge(const Json& command) {
  const speed::TopicMessage& message = received(command);
  return command.value("until", false) ? consumer_->acknowledge_until(message) : consumer_->acknowledge(message);
}

Json Topics::reject(const Json& command) {
  const auto delay = command.find("delay");
  const bool is_given = delay != command.end() && !delay->is_null();
  return consumer_->reject(received(command),
                           is_given ? std::optional<speed::Seconds>(delay->get<double>()) : std::nullopt);
}

Json Topics::leave() {
  consumer_.reset();
  received_.clear();
  return nullptr;
}

Json Topics::read(const Json& command) {
  const speed::ReaderOptions options{.compacted = command.value("compacted", false)};
  const Json start = options.compacted ? Json("earliest") : command.value("start", Json());
  speed::Reader reader = node_.topic(given(command, "topic")).reader(start_of(start), options);
  Json messages = Json::array();
  while (messages.size() < command.at("count").get<std::size_t>()) {
    const auto message = reader.receive(timeout_of(command, 5));
    if (!message) break;
    messages.push_back(shown(*message));
  }
  return messages;
}

}  // namespace agent
