// Every error SPEED throws, as one tree; codes are those of registry_spec/codes.json.
//
// Error
// ├── ConfigurationError   KeyFileError RootError InvalidNameError DurabilityError ServiceExistsError
// ├── RegistrationError    NameTakenError LeaseLostError
// ├── NodeStateError       NodeClosedError ForkedNodeError
// ├── DeliveryError        UnknownNodeError NodeLeftError (NodeLeavingError) InboxFullError StorageError PayloadTooLargeError
// │                        UnserialisableError NotAcknowledgedError SegmentStoreError
// ├── CallError            ServiceNotFoundError AccessDeniedError InvalidArgumentsError ExecutionFailedError
// │                        CallTimeoutError InternalError SegmentsLostError CallWithdrawnError
// └── WireError            bytes of a peer break a rule of registry_spec/
//
// Threads: an error is plain data; the one that a call, future or callback throws belongs to whoever catches it.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "speed/value.hpp"

namespace speed {

// Whether the service of a call that failed has run: whether it is safe to call again (S-8).
enum class Execution {
  not_begun,     // nothing ran: call again
  may_have_run,  // look before you repeat it
  ran,
};

// Base of all. `code` is stable; the message says what happened and what to do, never a key or a payload.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : Error("SPEED_ERROR", message) {}
  std::string_view code() const noexcept { return code_; }
  std::optional<Execution> execution() const noexcept { return execution_; }  // null unless it ended a call
  void set_execution(Execution execution) noexcept { execution_ = execution; }

 protected:
  Error(std::string_view code, const std::string& message) : std::runtime_error(message), code_(code) {}

 private:
  std::string_view code_;  // a literal
  std::optional<Execution> execution_;
};

// One class: its name, its base, its code, and what it means.
#define SPEED_ERROR_CLASS(Name, Base, text_code)                               \
  class Name : public Base {                                                   \
   public:                                                                     \
    explicit Name(const std::string& message) : Name(text_code, message) {}    \
                                                                               \
   protected:                                                                  \
    Name(std::string_view code, const std::string& message) : Base(code, message) {} \
  }

// A setting, argument or environment is wrong; nothing was started or sent.
SPEED_ERROR_CLASS(ConfigurationError, Error, "CONFIGURATION");
SPEED_ERROR_CLASS(KeyFileError, ConfigurationError, "KEY_FILE");
SPEED_ERROR_CLASS(RootError, ConfigurationError, "ROOT");
SPEED_ERROR_CLASS(InvalidNameError, ConfigurationError, "INVALID_NAME");
SPEED_ERROR_CLASS(DurabilityError, ConfigurationError, "DURABILITY");
SPEED_ERROR_CLASS(ServiceExistsError, ConfigurationError, "SERVICE_EXISTS");

// This node has no right, or no longer a right, to its name.
SPEED_ERROR_CLASS(RegistrationError, Error, "INVALID_STATE");
SPEED_ERROR_CLASS(NameTakenError, RegistrationError, "NAME_TAKEN");
SPEED_ERROR_CLASS(LeaseLostError, RegistrationError, "LEASE_LOST");

// The node object cannot be used in this state.
SPEED_ERROR_CLASS(NodeStateError, Error, "INVALID_STATE");
SPEED_ERROR_CLASS(NodeClosedError, NodeStateError, "NODE_CLOSED");
SPEED_ERROR_CLASS(ForkedNodeError, NodeStateError, "FORKED_NODE");

// The envelope was not handed over; the receiver accepted nothing.
SPEED_ERROR_CLASS(DeliveryError, Error, "DELIVERY");
SPEED_ERROR_CLASS(UnknownNodeError, DeliveryError, "UNKNOWN_NODE");
SPEED_ERROR_CLASS(NodeLeftError, DeliveryError, "NODE_LEFT");
SPEED_ERROR_CLASS(NodeLeavingError, NodeLeftError, "LEAVING");  // it takes nothing more: the call never began
SPEED_ERROR_CLASS(InboxFullError, DeliveryError, "INBOX_FULL");
SPEED_ERROR_CLASS(PayloadTooLargeError, DeliveryError, "PAYLOAD_TOO_LARGE");
SPEED_ERROR_CLASS(UnserialisableError, DeliveryError, "UNSERIALISABLE");
SPEED_ERROR_CLASS(NotAcknowledgedError, DeliveryError, "NOT_ACKNOWLEDGED");
// What was received in segments cannot be kept or read: the store is locked, full or damaged.
SPEED_ERROR_CLASS(SegmentStoreError, DeliveryError, "SEGMENT_STORE");

#undef SPEED_ERROR_CLASS

// The filesystem refused a write. `envelopes_written` of a batch were accepted before.
class StorageError : public DeliveryError {
 public:
  explicit StorageError(const std::string& message, std::size_t envelopes_written = 0)
      : DeliveryError("STORAGE", message), envelopes_written_(envelopes_written) {}
  std::size_t envelopes_written() const noexcept { return envelopes_written_; }

 private:
  std::size_t envelopes_written_;
};

// A call failed; `details` is what the other side added.
class CallError : public Error {
 public:
  explicit CallError(const std::string& message, Map details = {}) : CallError("CALL_FAILED", message, std::move(details)) {}
  const Map& details() const noexcept { return details_; }

 protected:
  CallError(std::string_view code, const std::string& message, Map details)
      : Error(code, message), details_(std::move(details)) {}

 private:
  Map details_;
};

#define SPEED_CALL_ERROR_CLASS(Name, text_code)                           \
  class Name : public CallError {                                        \
   public:                                                               \
    explicit Name(const std::string& message, Map details = {})          \
        : CallError(text_code, message, std::move(details)) {}           \
  }

SPEED_CALL_ERROR_CLASS(ServiceNotFoundError, "SERVICE_NOT_FOUND");
SPEED_CALL_ERROR_CLASS(AccessDeniedError, "ACCESS_DENIED");  // also before any write, when the grant is missing
SPEED_CALL_ERROR_CLASS(InvalidArgumentsError, "INVALID_ARGUMENTS");
SPEED_CALL_ERROR_CLASS(ExecutionFailedError, "EXECUTION_FAILED");
SPEED_CALL_ERROR_CLASS(CallTimeoutError, "TIMEOUT");  // details: phase = queued, running or unanswered
SPEED_CALL_ERROR_CLASS(InternalError, "INTERNAL_ERROR");
// The other side could not put a payload together from its segments: lost, expired, or no room.
SPEED_CALL_ERROR_CLASS(SegmentsLostError, "SEGMENTS_LOST");
// The caller took the call back; details: phase = queued (it never began) or running (it was told to end).
SPEED_CALL_ERROR_CLASS(CallWithdrawnError, "WITHDRAWN");

#undef SPEED_CALL_ERROR_CLASS

// Bytes of a peer break a rule; `reason` is a `wire` code of codes.json.
class WireError : public Error {
 public:
  WireError(std::string_view reason, const std::string& message)
      : Error("INTERNAL_ERROR", std::string(reason) + ": " + message), reason_(reason) {}
  std::string_view reason() const noexcept { return reason_; }

 private:
  std::string_view reason_;  // a literal
};

}  // namespace speed
