// What kind of filesystem a directory lies on, and whether FIFOs work there (L-7, L-22).
#pragma once

#include <string>

#include "wire/time.hpp"

namespace speed::fs {

struct Filesystem {
  bool is_memory = false;
  bool is_remote = false;
  bool supports_fifo = false;
  Duration late = {};  // how long after a change on another host it may be seen here
};

// Describes the filesystem of an existing, writable directory; tries a FIFO there and removes it. Where
// it is remote none is tried: bells ring on one machine. RootError if the system failed to make one.
Filesystem filesystem_of(const std::string& path);

}  // namespace speed::fs
