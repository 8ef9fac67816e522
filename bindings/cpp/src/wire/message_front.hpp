// The beginning of a message that is too large to be held: all that stands before the payload's value (G-18, M-2).
#pragma once

#include "wire/message.hpp"

namespace speed::wire {

struct MessageFront {
  MessageView head;       // the message with an empty value
  std::size_t start = 0;  // where the value begins, which ends with the message
};

// `data` are the first bytes of a message of `total`, at most max_segmented_head_bytes. WireError BAD_MESSAGE unless
// the payload comes last and begins within them.
MessageFront read_front(ByteView data, std::size_t total);

}  // namespace speed::wire
