// Keyword arguments as options of the core. Their names are checked by speed.engine.native; here their types are.
#pragma once

#include <nanobind/nanobind.h>

#include "speed/node.hpp"

namespace speed::python {

namespace nb = nanobind;

SendOptions send_options(const nb::dict& options, double timeout_seconds);  // WireError BAD_MESSAGE names the field
NodeOptions node_options(const nb::dict& given);  // what is None, or not there, is the contract's
segment::Limits segment_limits(const nb::dict& limits);  // those that are not named are the contract's

}  // namespace speed::python
