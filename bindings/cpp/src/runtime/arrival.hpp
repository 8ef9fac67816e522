// A message on its way from the reader to whoever handles it, and how its sender is told what became of it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/message_state.hpp"

namespace speed::runtime {

using Arrival = std::shared_ptr<Message::State>;

// To a sender that wants an answer.
struct Replies {
  std::function<void(const Message::State&, bool waiting)> acknowledge;
  std::function<void(const Message::State&, std::string_view code, const std::string& text)> refuse;
};

}  // namespace speed::runtime
