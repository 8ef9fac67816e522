// The file in which the owner of a root names who may look at all its nodes.
#pragma once

#include <string>
#include <vector>

namespace speed::fs {

// The names and families in it, none without the file. ConfigurationError for one that does not count: others could have
// written it, or it is wrong.
std::vector<std::string> observers_of(const std::string& root);

}  // namespace speed::fs
