// Why a message cannot be protected, or was refused; codes are those of the list `message` in registry_spec/codes.json.
//
// MessageError
// ├── SignatureError
// ├── UnsignedError
// ├── UntrustedError
// ├── EncryptionError
// ├── NoRecipientKeyError
// ├── NotEncryptedError
// ├── CompressionError
// ├── AlgorithmError
// │       WeakAlgorithmError UnknownAlgorithmError NotAvailableError
// ├── MessageKeyError
// │       KeyUnavailableError KeyRefusedError KeyExhaustedError
// ├── SchemaError
// ├── ClearanceError
// ├── NamespaceError
// └── BatchError
//
// Threads: plain data, as all errors. Neither key nor payload is ever in the text.
#pragma once

#include "speed/error.hpp"
#include "speed/export.hpp"

namespace speed {

// generated from registry_spec/codes.json by scripts/generate

// A message is not as its rules ask. Neither key, token nor payload is ever in the text.
class SPEED_EXPORT MessageError : public Error {
 public:
  explicit MessageError(const std::string& message) : Error("MESSAGE", message) {}

 protected:
  MessageError(std::string_view code, const std::string& message) : Error(code, message) {}
};

// The signature does not verify, or there are several.
class SPEED_EXPORT SignatureError : public MessageError {
 public:
  explicit SignatureError(const std::string& message) : MessageError("BAD_SIGNATURE", message) {}
};

// A signature is required and there is none.
class SPEED_EXPORT UnsignedError : public MessageError {
 public:
  explicit UnsignedError(const std::string& message) : MessageError("UNSIGNED", message) {}
};

// The named key is not trusted for this message.
class SPEED_EXPORT UntrustedError : public MessageError {
 public:
  explicit UntrustedError(const std::string& message) : MessageError("UNTRUSTED", message) {}
};

// The payload or its data key does not open, or what describes it is malformed.
class SPEED_EXPORT EncryptionError : public MessageError {
 public:
  explicit EncryptionError(const std::string& message) : MessageError("BAD_ENCRYPTION", message) {}
};

// The payload is encrypted for others.
class SPEED_EXPORT NoRecipientKeyError : public MessageError {
 public:
  explicit NoRecipientKeyError(const std::string& message) : MessageError("NO_RECIPIENT_KEY", message) {}
};

// A confidential or restricted message is not encrypted.
class SPEED_EXPORT NotEncryptedError : public MessageError {
 public:
  explicit NotEncryptedError(const std::string& message) : MessageError("NOT_ENCRYPTED", message) {}
};

// A compressed payload is not what it says, or too large.
class SPEED_EXPORT CompressionError : public MessageError {
 public:
  explicit CompressionError(const std::string& message) : MessageError("BAD_COMPRESSION", message) {}
};

// An algorithm cannot be used.
class SPEED_EXPORT AlgorithmError : public MessageError {
 public:
  explicit AlgorithmError(const std::string& message) : MessageError("MESSAGE", message) {}

 protected:
  AlgorithmError(std::string_view code, const std::string& message) : MessageError(code, message) {}
};

// Deprecated, too short, or not allowed by the FIPS mode.
class SPEED_EXPORT WeakAlgorithmError : public AlgorithmError {
 public:
  explicit WeakAlgorithmError(const std::string& message) : AlgorithmError("WEAK_ALGORITHM", message) {}
};

// No algorithm of the contract has this name.
class SPEED_EXPORT UnknownAlgorithmError : public AlgorithmError {
 public:
  explicit UnknownAlgorithmError(const std::string& message) : AlgorithmError("UNKNOWN_ALGORITHM", message) {}
};

// The libraries at hand lack it; the text says which one has it.
class SPEED_EXPORT NotAvailableError : public AlgorithmError {
 public:
  explicit NotAvailableError(const std::string& message) : AlgorithmError("NOT_AVAILABLE", message) {}
};

// A key cannot be used; the text names its id.
class SPEED_EXPORT MessageKeyError : public MessageError {
 public:
  explicit MessageKeyError(const std::string& message) : MessageError("MESSAGE", message) {}

 protected:
  MessageKeyError(std::string_view code, const std::string& message) : MessageError(code, message) {}
};

// There is no such key, or its provider cannot be reached.
class SPEED_EXPORT KeyUnavailableError : public MessageKeyError {
 public:
  explicit KeyUnavailableError(const std::string& message) : MessageKeyError("KEY_UNAVAILABLE", message) {}
};

// The provider refuses the key, it is malformed, or not for this use.
class SPEED_EXPORT KeyRefusedError : public MessageKeyError {
 public:
  explicit KeyRefusedError(const std::string& message) : MessageKeyError("KEY_REFUSED", message) {}
};

// The key was used as often as it may be: rotate it.
class SPEED_EXPORT KeyExhaustedError : public MessageKeyError {
 public:
  explicit KeyExhaustedError(const std::string& message) : MessageKeyError("KEY_EXHAUSTED", message) {}
};

// A schema is missing, is another one, or the payload does not fit it.
class SPEED_EXPORT SchemaError : public MessageError {
 public:
  explicit SchemaError(const std::string& message) : MessageError("BAD_SCHEMA", message) {}
};

// The message is classified above the reader's clearance.
class SPEED_EXPORT ClearanceError : public MessageError {
 public:
  explicit ClearanceError(const std::string& message) : MessageError("NOT_CLEARED", message) {}
};

// The message is of a namespace that the receiver does not take.
class SPEED_EXPORT NamespaceError : public MessageError {
 public:
  explicit NamespaceError(const std::string& message) : MessageError("OTHER_NAMESPACE", message) {}
};

// A batch lies about its payloads.
class SPEED_EXPORT BatchError : public MessageError {
 public:
  explicit BatchError(const std::string& message) : MessageError("BAD_BATCH", message) {}
};

// end of what is generated

}  // namespace speed
