// A root is made private, and trusted only whole: with all that lies above it, and its registry.
#pragma once

#include <string>

namespace speed::fs {

// Makes root and registry directories where they are missing; RootError says what is wrong and what to do.
void prepare_root(const std::string& root);

// RootError unless only root and this user can change what is there, or a group that shares it. One that is not there yet
// can be made.
void check_root(const std::string& root);

// What to say of a root that was prepared, and whose registry is not there any more; empty while it is.
std::string registry_gone(const std::string& root);

// Whether a directory is this user's, and nobody else has a right to it.
bool is_private(const std::string& path);

}  // namespace speed::fs
