// Errors of the core as exceptions of speed.errors, by their stable codes, and failures of Python code as errors of the
// core. The interpreter lock is held.
#pragma once

#include <nanobind/nanobind.h>

#include "speed/error.hpp"

namespace speed::python {

namespace nb = nanobind;

nb::object to_exception(const std::exception_ptr& error);

// What a handler raised, as its sender is to read it: the text of a SpeedError, "Kind: text" of any other.
std::string described(const nb::python_error& error);

bool is_wire_error(const nb::python_error& error);
bool is_away(
    const nb::python_error&
        error);  // what a message is judged by cannot be reached for the moment  // the message broke a rule when the handler looked at it
WireError wire_error(const nb::python_error& error);  // the same, with its reason

void translate_errors();  // once, at import

}  // namespace speed::python
