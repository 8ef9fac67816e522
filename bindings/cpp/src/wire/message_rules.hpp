// What the metadata of a message must look like: one check for writer and reader (M-5, M-6, M-8, M-9).
#pragma once

#include "message.pb.h"

namespace speed::wire {

// WireError BAD_MESSAGE names the field.
void check_metadata(const message::v1::MessageMetadata& metadata);

}  // namespace speed::wire
