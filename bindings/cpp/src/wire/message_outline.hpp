// What bytes that are no message look like, for a log: which parts are there and how large, and the id (M-35).
#pragma once

#include <string>

#include "wire/buffer.hpp"

namespace speed::wire {

// The size of each part in bytes, how many others there are, and the message's id; no other value of it.
std::string outline(ByteView data);

}  // namespace speed::wire
