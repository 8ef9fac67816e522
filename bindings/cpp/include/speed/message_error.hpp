// Why a message cannot be protected, or was refused; codes are those of the list `message` in registry_spec/codes.json.
//
// MessageError
// ├── SignatureError UnsignedError UntrustedError
// ├── EncryptionError NoRecipientKeyError NotEncryptedError CompressionError ClearanceError
// ├── AlgorithmError   WeakAlgorithmError UnknownAlgorithmError NotAvailableError
// └── MessageKeyError  KeyUnavailableError KeyRefusedError KeyExhaustedError
//
// Threads: plain data, as all errors. Neither key nor payload is ever in the text.
#pragma once

#include "speed/error.hpp"

namespace speed {

#define SPEED_MESSAGE_ERROR_CLASS(Name, Base, text_code)                             \
  class Name : public Base {                                                         \
   public:                                                                           \
    explicit Name(const std::string& message) : Name(text_code, message) {}          \
                                                                                     \
   protected:                                                                        \
    Name(std::string_view code, const std::string& message) : Base(code, message) {} \
  }

SPEED_MESSAGE_ERROR_CLASS(MessageError, Error, "MESSAGE");

// The signature does not verify, or there are several (M-16, M-17).
SPEED_MESSAGE_ERROR_CLASS(SignatureError, MessageError, "BAD_SIGNATURE");
// A signature is required and there is none (M-18).
SPEED_MESSAGE_ERROR_CLASS(UnsignedError, MessageError, "UNSIGNED");
// The named key is not trusted for this message (M-17).
SPEED_MESSAGE_ERROR_CLASS(UntrustedError, MessageError, "UNTRUSTED");

// The payload or its data key does not open, or what describes it is malformed (M-20 to M-22).
SPEED_MESSAGE_ERROR_CLASS(EncryptionError, MessageError, "BAD_ENCRYPTION");
// The payload is encrypted for others (M-21).
SPEED_MESSAGE_ERROR_CLASS(NoRecipientKeyError, MessageError, "NO_RECIPIENT_KEY");
// A confidential or restricted message is not encrypted (M-28).
SPEED_MESSAGE_ERROR_CLASS(NotEncryptedError, MessageError, "NOT_ENCRYPTED");
// A compressed payload is not what it says, or too large (M-23).
SPEED_MESSAGE_ERROR_CLASS(CompressionError, MessageError, "BAD_COMPRESSION");
// The message is classified above the reader's clearance (M-28).
SPEED_MESSAGE_ERROR_CLASS(ClearanceError, MessageError, "NOT_CLEARED");

// An algorithm cannot be used.
SPEED_MESSAGE_ERROR_CLASS(AlgorithmError, MessageError, "MESSAGE");
// Deprecated, too short, or not allowed by the FIPS mode (M-24).
SPEED_MESSAGE_ERROR_CLASS(WeakAlgorithmError, AlgorithmError, "WEAK_ALGORITHM");
// No algorithm of the contract has this name (M-24).
SPEED_MESSAGE_ERROR_CLASS(UnknownAlgorithmError, AlgorithmError, "UNKNOWN_ALGORITHM");
// The libraries at hand lack it; the text says which one has it (M-24).
SPEED_MESSAGE_ERROR_CLASS(NotAvailableError, AlgorithmError, "NOT_AVAILABLE");

// A key cannot be used; the text names its id.
SPEED_MESSAGE_ERROR_CLASS(MessageKeyError, MessageError, "MESSAGE");
// There is no such key (M-26).
SPEED_MESSAGE_ERROR_CLASS(KeyUnavailableError, MessageKeyError, "KEY_UNAVAILABLE");
// The key is malformed, or not for this use (M-26).
SPEED_MESSAGE_ERROR_CLASS(KeyRefusedError, MessageKeyError, "KEY_REFUSED");
// The key was used as often as it may be: rotate it (M-26).
SPEED_MESSAGE_ERROR_CLASS(KeyExhaustedError, MessageKeyError, "KEY_EXHAUSTED");

#undef SPEED_MESSAGE_ERROR_CLASS

}  // namespace speed
