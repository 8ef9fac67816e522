// The host of a durable topic, as its clients ask it (D-5 to D-14).
// Threads: may be asked by several.
#pragma once

#include "engine/runtime.hpp"
#include "speed/topic.hpp"
#include "wire/limits.hpp"
#include "wire/time.hpp"

namespace speed::engine {

inline constexpr Duration topic_wait = wire::limits::topic_wait;  // what the host is asked to wait, at most
inline constexpr Duration topic_grace = 5s;    // how much longer a call may take than the host waits
inline constexpr Duration topic_pause = 50ms;  // before a host that is away, or too busy to wait, is asked again
inline constexpr Duration topic_fresh_time = 20ms;  // so long a program gets what its host said it may have
inline constexpr std::size_t topic_most_begun = 64;  // messages that a program may get before the host is asked again

class TopicHost {
 public:
  TopicHost(std::shared_ptr<Runtime> node, std::string topic, std::string host)
      : node_(std::move(node)), topic_(std::move(topic)), host_(std::move(host)) {}

  const std::string& topic() const { return topic_; }
  const std::string& host() const { return host_; }

  // What it answers to `topics.<service>`; `arguments` stand behind the topic's name. It is asked again while it allows nobody,
  // as in the moment after its start.
  Value ask(const std::string& service, const Map& arguments, Seconds timeout = Seconds(30)) const;

  // The messages of an answer; WireError for what is none.
  std::vector<TopicMessage> messages(const Value& answer) const;

 private:
  bool allows_again(TimePoint ends) const;
  bool allows_others() const;

  std::shared_ptr<Runtime> node_;
  std::string topic_;
  std::string host_;
};

// A member of an answer; WireError BAD_PAYLOAD where it is missing, or something else.
template <class T>
T answered(const Value& answer, std::string_view name) {
  try {
    return answer.at(name).as<T>();
  } catch (const ConversionError& error) {
    throw WireError("BAD_PAYLOAD", std::string("the host's answer: ") + error.what());
  }
}

}  // namespace speed::engine
