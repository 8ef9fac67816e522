// Python objects and values of the type table (W-15), both ways. The interpreter lock is held.
#pragma once

#include <nanobind/nanobind.h>

#include "speed/value.hpp"

namespace speed::python {

namespace nb = nanobind;

// UnserialisableError with the path to what has no representation; `what` is where the path begins.
Value to_value(nb::handle object, const char* what);
Map to_arguments(nb::handle object);  // a map with text keys

nb::object to_object(const Value& value);
nb::object to_object(const Map& map);
nb::object bytes_of(ByteView data);
nb::object checked(PyObject* made);  // a new reference; nb::python_error where there is none

void prepare_conversions();  // once, at import

}  // namespace speed::python
