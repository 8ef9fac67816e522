// What the agent does with durable topics: it publishes, reads, and is one consumer at a time.
#pragma once

#include "json_value.hpp"
#include "speed/node.hpp"

namespace agent {

class Topics {
 public:
  explicit Topics(speed::Node& node) : node_(node) {}

  Json publish(const Json& command);
  Json publish_batch(const Json& command);
  Json delete_key(const Json& command);
  Json consume(const Json& command);
  Json receive(const Json& command);
  Json acknowledge(const Json& command);
  Json reject(const Json& command);
  Json leave();
  Json read(const Json& command);

 private:
  const speed::TopicMessage& received(const Json& command) const;

  speed::Node& node_;
  std::optional<speed::Consumer> consumer_;
  std::map<std::int64_t, speed::TopicMessage> received_;  // by offset, since `consume`
};

}  // namespace agent
