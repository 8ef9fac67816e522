// What a frame of Zstandard must be beside decodable (M-23; RFC 8878, section 3.1.1). Its decoders read several frames
// for one and pass over some, and not all of them look at reserved bits and at the size that a frame states.
#pragma once

#include "speed/value.hpp"

namespace speed::message {

// Whether `data` is one frame, whole and nothing beside it, that states no other size, names no dictionary, sets no
// reserved bit, and keeps to the bounds of windows and blocks. Else what its blocks hold is not looked at.
bool is_one_zstd_frame(ByteView data, std::uint64_t size);

}  // namespace speed::message
