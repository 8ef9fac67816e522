// One event on its way to all who subscribe: to those with room at once, then to the others (S-5).
#pragma once

#include <deque>

#include "runtime/runtime.hpp"

namespace speed::runtime {

class Publishing {
 public:
  Publishing(Runtime& node, const std::string& topic, ByteView event, const SendOptions& options)
      : node_(node), topic_(topic), event_(event), options_(options) {}

  Published publish();

 private:
  bool wants(const wire::Entry& entry) const;
  bool try_send(const std::string& target);
  void wait_for_room(std::deque<std::string> full, double deadline);
  void send_large(const std::string& target);
  void fail(const std::string& target, std::string_view code, const std::string& text);

  Runtime& node_;
  const std::string& topic_;
  const ByteView event_;
  const SendOptions& options_;
  Published result_;
};

}  // namespace speed::runtime
