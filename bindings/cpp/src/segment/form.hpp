// The bytes of one segment (G-1), into memory that is used again.
#pragma once

#include "speed/segment.hpp"
#include "wire/value/buffer.hpp"

namespace speed::segment {

void write_segment(const Segment& segment, wire::Buffer& out);  // appends it

}  // namespace speed::segment
