// Waits that end when the runtime of another language interrupts them, as Python's signal handlers do.
// Threads: each scope belongs to the thread that made it.
#pragma once

#include <functional>

#include "speed/export.hpp"

namespace speed {

// Thrown by a wait that its caller interrupted. What was sent stays sent; a call is withdrawn; a close has ended the node.
struct SPEED_EXPORT Interrupted{};

// Asked now and then while a call waits: whether to end the wait. It may use any node, and close the one that waits.
using IsInterrupted = std::function<bool()>;

SPEED_EXPORT bool is_interruptible();  // whether somebody is to be asked
SPEED_EXPORT bool is_interrupted();  // asks; once it is true it stays so for the scope. No lock may be held
SPEED_EXPORT void look_for_interruption();  // the same; throws Interrupted

// While it lives, all waits of this thread ask; with an empty one nobody is asked.
class SPEED_EXPORT Interruptible {
 public:
  explicit Interruptible(IsInterrupted is_interrupted);
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible();

 private:
  friend bool is_interruptible();
  friend bool is_interrupted();
  IsInterrupted ask_;
  bool is_over_ = false;
  Interruptible* const outer_;
};

}  // namespace speed
