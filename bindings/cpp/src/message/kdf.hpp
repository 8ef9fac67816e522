// HMAC-SHA256 and HKDF (RFC 5869) of secrets of any length.
#pragma once

#include <initializer_list>

#include "message/secret.hpp"

namespace speed::message {

using Hash = wire::Block<32>;
using Pieces = std::initializer_list<ByteView>;  // read one after the other

Hash sha256(Pieces data);
Hash hmac_sha256(ByteView key, Pieces data);

Secret hkdf_extract(ByteView salt, Pieces secret);
Secret hkdf_expand(ByteView key, Pieces info, std::size_t size);  // at most 32 bytes

}  // namespace speed::message
