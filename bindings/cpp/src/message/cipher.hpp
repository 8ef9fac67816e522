// The two ciphers of payloads and data keys (M-19): the tag of 16 bytes follows the ciphertext.
#pragma once

#include "message/algorithms.hpp"
#include "message/secret.hpp"

namespace speed::message {

// Writes ciphertext and tag: `to` has 16 bytes more than `plain`. NotAvailableError.
void seal(CipherName cipher, ByteView key, ByteView iv, ByteView associated, ByteView plain, std::span<std::byte> to);

// Writes the plaintext: `to` has 16 bytes fewer than `sealed`. False if it does not open. NotAvailableError.
bool open(CipherName cipher, ByteView key, ByteView iv, ByteView associated, ByteView sealed, std::span<std::byte> to);

}  // namespace speed::message
