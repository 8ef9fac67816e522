// Messages behind the guard of their node: what is refused reaches no handler, and its sender is told the code (M-18).
// Threads: for the worker that is to handle the message, or the thread that fetches it.
#pragma once

#include "engine/context.hpp"
#include "engine/deliver/message_state.hpp"
#include "speed/embedding.hpp"

namespace speed::engine {

// Checks and opens a message. False if it was refused: it is answered and finished. Throws Unavailable when
// what it is to be checked or opened with is away for the moment: it is tried again (S-17).
bool open_message(Context& context, const Replies& replies, Message::State& message);

}  // namespace speed::engine
