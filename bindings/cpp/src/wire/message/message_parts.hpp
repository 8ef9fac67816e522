// The beginning of a message that is too large to be held: all that stands before the payload's value (G-18, M-2).
#pragma once

#include <string>

#include "wire/message/message.hpp"
#include "wire/value/buffer.hpp"
#include "wire/value/records.hpp"

namespace speed::wire {

struct MessageFront {
  MessageView head;       // the message with an empty value
  std::size_t start = 0;  // where the value begins, which ends with the message
};

// `data` are the first bytes of a message of `total`, at most max_segmented_head_bytes. WireError BAD_MESSAGE unless
// the payload comes last and begins within them.
MessageFront read_front(ByteView data, std::size_t total);

// What bytes that are no message look like, for a log: which parts are there and how large, and the id (M-35).

// The size of each part in bytes, how many others there are, and the message's id; no other value of it.
std::string outline(ByteView data);

// The security records of a message, taken apart and put together as raw bytes (M-16). Nothing here reads a record and
// writes it again: what is kept is kept byte for byte.

// What a signature of this message covers. WireError BAD_MESSAGE for what breaks M-4.
Bytes signing_input(ByteView message);

// The message with `signature` as the last record of its security context, which has none yet.
Bytes with_signature(ByteView message, ByteView signature);

}  // namespace speed::wire
