// The bytes of one segment around its payload (G-1), so that the payload need not be copied to be sent.
#pragma once

#include "speed/segment.hpp"
#include "wire/buffer.hpp"

namespace speed::segment {

void write_head(const Segment& segment, wire::Buffer& out);  // all that stands before the payload's bytes
void write_tail(const Segment& segment, wire::Buffer& out);  // and behind them

}  // namespace speed::segment
