// Signatures over the exact bytes of a message (M-16 to M-18).
#pragma once

#include <functional>
#include <optional>

#include "speed/message_security.hpp"
#include "wire/message/message.hpp"

namespace speed::message {

// The message with a signature by `key`; its security context already names key and algorithm. KeyRefusedError for a
// key without its secret, or for encryption.
Bytes sign(ByteView message, const MessageKey& key);

// Whether the signature of `covered` verifies under the key; one of another length does not.
bool holds(const MessageKey& key, ByteView signature, ByteView covered);

using TrustedKeys = std::map<std::string, MessageKey, std::less<>>;  // by id

// Refuses a message that names a refused algorithm, whoever looks at its signature (M-24). WeakAlgorithmError,
// UnknownAlgorithmError.
void check_signature_algorithm(const wire::MessageView& view, FipsMode mode);

// Holds a message to a policy; the key that signed it, if it was looked at. Who is not trusted costs no look at the
// payload. SignatureError, UntrustedError, UnsignedError, WeakAlgorithmError.
std::optional<MessageKey> verify(const wire::MessageView& view, const TrustedKeys& trusted, SignaturePolicy policy,
                                 FipsMode mode);

}  // namespace speed::message
