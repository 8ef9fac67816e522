// What this implementation makes of bytes: "OK", or the wire code under which it refuses them. Keys and lane are those
// of the vectors: analytics to billing, two accepted keys.
#pragma once

#include <string>

#include "speed/value.hpp"

namespace agent {

// std::invalid_argument for an unknown kind.
std::string verdict(const std::string& kind, const speed::Bytes& data);

}  // namespace agent
