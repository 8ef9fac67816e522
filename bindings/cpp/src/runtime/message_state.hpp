// What a Message shares with the parts that bring and finish it.
#pragma once

#include <atomic>
#include <functional>

#include "speed/message.hpp"
#include "wire/message.hpp"

namespace speed {

struct Message::State {
  wire::MessageView view;
  std::string source;
  std::uint64_t sequence;
  std::int64_t timestamp_ms;
  bool redelivered;
  std::function<void()> finish;
  std::atomic<bool> finished = false;

  void done() {
    if (!finished.exchange(true)) finish();
  }
};

}  // namespace speed
