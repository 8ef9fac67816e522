// The way to a key file: each step of it is one that no other user can change (W-14).
#pragma once

#include <string>

namespace speed::fs {

// Where the path leads once its links are followed. KeyFileError for a step that others can change.
std::string followed(const std::string& path);

}  // namespace speed::fs
