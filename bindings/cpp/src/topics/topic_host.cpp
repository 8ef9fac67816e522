#include "topics/topic_host.hpp"

#include "engine/call/calling.hpp"
#include "engine/span.hpp"
#include "fs/clock.hpp"
#include "wire/value/topic_record.hpp"
#include "wire/value/value_codec.hpp"

namespace speed::engine {

namespace {

template <class T>
T member_of(const Map& about, std::string_view name) {
  const Value* const value = about.find(name);
  return value == nullptr ? T() : value->as<T>();
}

std::optional<TopicMessage::Origin> origin_of(const wire::TopicRecord& record) {
  const Value* const origin = record.about.find("origin");
  if (record.type != wire::TopicRecordType::dead_letter || origin == nullptr) return std::nullopt;
  return TopicMessage::Origin{origin->at(0).as<std::string>(), origin->at(1).as<std::int64_t>(),
                              origin->at(2).as<std::string>()};
}

TopicMessage message_of(const Value& row) {
  const auto data = row.at(3).as<Bytes>();
  const wire::TopicRecord record = wire::read_topic_record(data);
  TopicMessage message;
  message.offset = row.at(0).as<std::int64_t>();
  message.attempts = row.at(1).as<std::uint32_t>();
  message.recorded_at_ms = row.at(2).as<std::int64_t>();
  message.payload = record.payload.empty() ? Value() : wire::unpack(record.payload);
  message.key = member_of<std::optional<std::string>>(record.about, "key");
  message.properties = member_of<std::map<std::string, std::string>>(record.about, "properties");
  message.publisher = member_of<std::string>(record.about, "publisher");
  message.producer = member_of<std::string>(record.about, "producer");
  message.sequence = record.sequence;
  message.is_tombstone = record.type == wire::TopicRecordType::tombstone;
  message.origin = origin_of(record);
  message.failed_attempts = record.attempts;
  return message;
}

}  // namespace

Value TopicHost::ask(const std::string& service, const Map& arguments, Seconds timeout) const {
  std::vector<Member> members{{"topic", topic_}};
  members.insert(members.end(), arguments.begin(), arguments.end());
  const Map all = Map::from_pairs(std::move(members));
  const TimePoint ends = fs::monotonic_now() + std::min(duration_of("timeout", timeout), topic_grace);
  for (;;) {
    node_->check_usable();
    try {
      return call(*node_, host_, "topics." + service, all, {.timeout = timeout});
    } catch (const AccessDeniedError&) {
      if (!allows_again(ends)) throw;
    }
  }
}

// False if the host goes on so: then it never allowed this node, or does no more.
bool TopicHost::allows_again(TimePoint ends) const {
  const Duration left = ends - fs::monotonic_now();
  if (left <= Duration::zero() || allows_others()) return false;
  try {
    node_->wait_for(host_, left);
    return true;
  } catch (const UnknownNodeError&) {
    return false;
  }
}

// Whether it says whom it allows, and this node is not among them: to wait would change nothing.
bool TopicHost::allows_others() const {
  if (host_.find('@') != std::string::npos) return false;
  const fs::EntryPtr entry = node_->context.registry->live(host_);
  const bool is_granting = entry != nullptr && !(entry->allow.empty() && entry->identities.empty());
  return is_granting && !node_->context.is_granted_by(*entry);
}

std::vector<TopicMessage> TopicHost::messages(const Value& answer) const {
  const auto lane = answered<std::string>(answer, "lane");
  const Value* const epoch = answer.get_if<Map>() == nullptr ? nullptr : answer.get_if<Map>()->find("epoch");
  std::vector<TopicMessage> found;
  try {
    for (const Value& row : answer.at("messages").items()) {
      found.push_back(message_of(row));
      found.back().topic = topic_;
      found.back().lane = lane;
      if (epoch != nullptr) found.back().epoch = epoch->as<std::int64_t>();
    }
  } catch (const ConversionError& error) {
    throw WireError("BAD_PAYLOAD", std::string("a message of the host: ") + error.what());
  }
  return found;
}

}  // namespace speed::engine
