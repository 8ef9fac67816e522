// What this process has declared of the errors of services (speed/service_error.hpp).
#pragma once

#include <exception>

#include "speed/error.hpp"

namespace speed::core {

// As its class, if it is declared and fits that; else as it is.
std::exception_ptr as_declared(const ApplicationError& received);

}  // namespace speed::core
