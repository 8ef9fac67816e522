// The commands of the interop agent: one JSON object in, one result out.
#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <stop_token>

#include "json_value.hpp"
#include "protected.hpp"
#include "speed/node.hpp"
#include "topics.hpp"

namespace agent {

// What callbacks brought since it was last asked for.
class Seen {
 public:
  void add(Json item);
  Json take();                     // all, as a list
  Json next(double seconds);       // one, or null

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<Json> items_;
};

class Commands {
 public:
  Commands(speed::Node& node, const speed::NodeOptions& options, bool watch);

  // Throws what the node throws; std::invalid_argument for an unknown command.
  Json run(const Json& command);
  bool is_over() const { return over_; }

 private:
  using Command = Json (Commands::*)(const Json&);

  // A call that goes on beside the commands.
  struct Started {
    std::stop_source withdrawal;
    std::future<speed::Value> result;
  };

  Json allow(const Json& command);
  Json deny(const Json& command);
  Json segment(const Json& command);
  Json send(const Json& command);
  Json receive(const Json& command);
  Json finish(const Json& command);
  Json call(const Json& command);
  Json stream(const Json& command);
  Json progress(const Json& command);
  Json start(const Json& command);
  Json withdraw(const Json& command);
  Json outcome(const Json& command);
  Json pipeline(const Json& command);
  Json large(const Json& command);
  Json publish(const Json& command);
  Json publish_batch(const Json& command);
  Json subscribe(const Json& command);
  Json event(const Json& command);
  Json ping(const Json& command);
  Json services(const Json& command);
  Json info(const Json& command);
  Json stats(const Json& command);
  Json nodes(const Json& command);
  Json wait_for(const Json& command);
  Json joins(const Json& command);
  Json leaves(const Json& command);
  Json burst(const Json& command);
  Json drain(const Json& command);
  Json race(const Json& command);
  Json release(const Json& command);
  Json protect(const Json& command);
  Json protected_send(const Json& command);
  Json protected_receive(const Json& command);
  Json unprotect(const Json& command);
  Json topic_publish(const Json& command);
  Json topic_publish_batch(const Json& command);
  Json topic_delete_key(const Json& command);
  Json topic_consume(const Json& command);
  Json topic_receive(const Json& command);
  Json topic_acknowledge(const Json& command);
  Json topic_reject(const Json& command);
  Json topic_leave(const Json& command);
  Json topic_read(const Json& command);
  Json decode(const Json& command);
  Json close(const Json& command);

  static const std::map<std::string, Command> table;

  speed::Node& node_;
  speed::NodeOptions options_;
  std::unique_ptr<speed::Node> prize_;
  std::unique_ptr<ProtectedNode> protected_;
  std::optional<speed::Message> in_hand_;
  Topics topics_;
  std::map<std::int64_t, Started> started_;  // by the numbers that the commands gave them
  Seen events_;
  Seen joins_;
  Seen leaves_;
  bool over_ = false;
};

}  // namespace agent
