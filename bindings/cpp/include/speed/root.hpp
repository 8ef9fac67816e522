// A root with its key, made where they are missing: what `speed root init` does, for programs as well.
#pragma once

#include <string>

#include "speed/export.hpp"

namespace speed {

// Makes a root, its registry and its key where they are missing, all for this user alone; the absolute path of the root,
// for NodeOptions::root. Safe to call again, and from many processes at once: what is there is checked and kept. Both are
// on disk when this returns. Thread-safe.
//   const std::string root = speed::init_root("/dev/shm/shop");
//   speed::Node billing("billing", {.root = root});
// `root`: the directory; empty: $SPEED_ROOT, else a directory of this user.
// `key`: the key file; empty: $SPEED_KEY, else <root>/speed.key.
// RootError: the directory cannot be made, or others than this user can change it. KeyFileError: the key file cannot be
// written, is damaged, or others can reach it.
SPEED_EXPORT std::string init_root(const std::string& root = {}, const std::string& key = {});

}  // namespace speed
