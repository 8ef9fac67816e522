// Fences: what a sender that lost its name writes afterwards is never accepted (L-18).
#pragma once

#include <string>

#include "wire/keyring.hpp"

namespace speed::fs {

// Ends all lanes that older generations of `source` left anywhere. Called by the new owner after it won its claim and
// before its entry appears. std::system_error when a fence cannot be written.
void fence_lanes(const std::string& root, const std::string& source, std::uint32_t generation,
                 const wire::Keyring& keyring);

// Whether a receiver has yet to open a lane of `source`; one that cannot be looked into counts as such.
bool has_unopened_lanes(const std::string& root, const std::string& source, const wire::Keyring& keyring);

// The newest generation of a name that the files it left tell of; 0 for one that left nothing. For a name whose claims
// somebody removed: what it sent in a generation that was used would be taken for repeated.
std::uint32_t generation_left(const std::string& root, const std::string& name, const wire::Keyring& keyring);

}  // namespace speed::fs
