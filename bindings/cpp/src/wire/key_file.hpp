// The text of a key file (W-14).
#pragma once

#include <string>
#include <vector>

#include "wire/aead.hpp"

namespace speed::wire {

// The keys, the sealing one first; KeyFileError names the line, never its content.
std::vector<Key> parse_key_file(std::string_view text);
std::string format_key_file(const std::vector<Key>& keys);

std::string to_base64(ByteView bytes);

}  // namespace speed::wire
