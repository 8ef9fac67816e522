// The security records of a message, taken apart and put together as raw bytes (M-16). Nothing here reads a record and
// writes it again: what is kept is kept byte for byte.
#pragma once

#include "wire/records.hpp"

namespace speed::wire {

// What a signature of this message covers. WireError BAD_MESSAGE for what breaks M-4.
Bytes signing_input(ByteView message);

// The message with `signature` as the last record of its security context, which has none yet.
Bytes with_signature(ByteView message, ByteView signature);

}  // namespace speed::wire
