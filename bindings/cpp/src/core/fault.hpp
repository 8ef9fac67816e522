// Whose fault an exception is that leaves a service (S-8).
// Threads: free functions.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "speed/value.hpp"

namespace speed::core {

// The class of an exception for people, such as `std::runtime_error`.
std::string kind_of(const std::exception& error);

struct Fault {
  // What the service said itself: INVALID_ARGUMENTS of this call, or a code of its own; else EXECUTION_FAILED. As long as
  // the exception lives.
  std::string_view code;
  Map details;
  bool is_own = false;  // what the service said, and in its words
};

// What a call that the service made ended with is its own failure: the caller gave it nothing wrong.
Fault fault_of(const std::exception& error);

}  // namespace speed::core
