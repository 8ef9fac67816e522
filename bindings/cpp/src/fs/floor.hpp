// The file of the floor: read by who claims a name, raised by who forgets one.
// Threads: may be called from any.
#pragma once

#include <string>

#include "wire/keyring.hpp"

namespace speed::fs {

// The highest generation that may have been forgotten of `name`. WireError if the file is not authentic.
std::uint32_t floor_of(const std::string& root, const std::string& name, const wire::Keyring& keyring);

// Nothing of the lives of `name` up to this generation is accepted any more (L-15). WireError, std::system_error.
std::uint32_t forgotten_up_to(const std::string& root, const std::string& name, const wire::Keyring& keyring);

inline constexpr double floor_lock_seconds = 1;  // who renews a lease waits for it

// Makes it `generation` at least; it is on disk when this returns. StorageError while others hold the lock for so long;
// WireError, std::system_error.
void raise_floor(const std::string& root, const std::string& name, std::uint32_t generation,
                 const wire::Keyring& keyring, double lock_seconds = floor_lock_seconds);

// Has the floor made by the first key, so that an older one can be retired. Errors likewise.
void seal_floor_anew(const std::string& root, const wire::Keyring& keyring);

}  // namespace speed::fs
