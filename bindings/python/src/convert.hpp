// Python objects and values of the type table (W-15), both ways. The interpreter lock is held.
#pragma once

#include <nanobind/nanobind.h>

#include "speed/value.hpp"

namespace speed::python {

namespace nb = nanobind;

// UnserialisableError with the path to what has no representation; `what` is where the path begins.
Value to_value(nb::handle object, const char* what);
Map to_arguments(nb::handle object);  // a map with text keys

// Bytes become bytes, or where `as_views` says so memoryviews that nobody can write through: large ones of the memory in
// which they arrived, which stays for as long as anybody holds them.
nb::object to_object(const Value& value, bool as_views = false);
nb::object to_object(const Map& map);
nb::object bytes_of(ByteView data);
nb::object checked(PyObject* made);  // a new reference; nb::python_error where there is none

void prepare_conversions(nb::module_& module);  // once, at import

}  // namespace speed::python
