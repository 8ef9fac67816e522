// The file of an entry: read without trust, removed only while it is the one that was meant.
// Threads: may be called from any.
#pragma once

#include <functional>
#include <string>

namespace speed::fs {

// A regular file's bytes, at most as many as an entry may have; follows no link and never waits.
// Throws std::system_error; WireError for what is no such file.
std::string read_entry_file(const std::string& path);

// Removes the entry of `name` in `root` if `is_meant(path)` says so; false if it was none or another's. No call unlinks
// a file by its identity, and a new owner may publish at any time: so the file moves to a name that nobody else knows,
// is looked at there, and is put back if it became another's.
bool remove_entry_file(const std::string& root, const std::string& name,
                       const std::function<bool(const std::string& path)>& is_meant);

// std::system_error where the system keeps from seeing what is at the place of an entry: then it is not absent.
void check_reachable(const std::string& root, const std::string& name);

// Whether an error number says that the system failed, which tells nothing about a file.
bool is_failure(int error);

}  // namespace speed::fs
