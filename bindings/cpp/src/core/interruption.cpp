#include "speed/interruption.hpp"

#include <utility>

namespace speed {

namespace {

thread_local Interruptible* present = nullptr;

}  // namespace

Interruptible::Interruptible(IsInterrupted is_interrupted)
    : ask_(std::move(is_interrupted)), outer_(std::exchange(present, this)) {}

Interruptible::~Interruptible() { present = outer_; }

bool is_interruptible() { return present != nullptr && present->ask_; }

bool is_interrupted() {
  if (!is_interruptible()) return false;
  Interruptible* const scope = present;
  if (!scope->is_over_) scope->is_over_ = scope->ask_();
  return scope->is_over_;
}

void look_for_interruption() {
  if (is_interrupted()) throw Interrupted{};
}

}  // namespace speed
