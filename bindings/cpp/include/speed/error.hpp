// Every error SPEED throws, as one tree; codes are those of registry_spec/codes.json.
//
// Error
// ├── ConfigurationError
// │       KeyFileError RootError InvalidNameError DurabilityError ServiceExistsError
// ├── RegistrationError
// │       NameTakenError LeaseLostError
// ├── NodeStateError
// │       NodeClosedError ForkedNodeError
// ├── DeliveryError
// │       UnknownNodeError NodeStartingError NodeLeftError (NodeLeavingError NodeReplacedError HostAwayError)
// │       IdentityError (IdentityChangedError IdentityRevokedError IdentityExpiredError IdentityUnvouchedError
// │       IdentityMissingError IdentityCopiedError) InboxFullError StorageError PayloadTooLargeError
// │       UnserialisableError NotAcknowledgedError SegmentStoreError
// ├── CallError
// │       ServiceNotFoundError AccessDeniedError InvalidArgumentsError ExecutionFailedError CallTimeoutError
// │       InternalError SegmentsLostError CallWithdrawnError ApplicationError
// └── WireError
//
// Threads: an error is plain data; the one that a call, future or callback throws belongs to whoever catches it.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "speed/export.hpp"
#include "speed/value.hpp"

namespace speed {

// Whether the service of a call that failed has run: whether it is safe to call again.
enum class Execution {
  not_begun,     // nothing ran: call again
  may_have_run,  // look before you repeat it
  ran,
};

// Base of all. `code` is stable; the message says what happened and what to do, never a key or a payload.
class SPEED_EXPORT Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : Error("SPEED_ERROR", message) {}
  std::string_view code() const noexcept { return code_; }
  std::optional<Execution> execution() const noexcept { return execution_; }  // null unless it ended a call
  void set_execution(Execution execution) noexcept { execution_ = execution; }
  // The node and service whose call ended with this; empty where it ended no call.
  const std::string& node() const noexcept { return node_; }
  const std::string& service() const noexcept { return service_; }
  void set_called(const std::string& node, const std::string& service) {
    node_ = node;
    service_ = service;
  }

 protected:
  Error(std::string_view code, const std::string& message) : std::runtime_error(message), code_(code) {}

 private:
  std::string_view code_;  // a literal, or kept by the error
  std::optional<Execution> execution_;
  std::string node_;
  std::string service_;
};

// A call failed; `details` is what the other side added.
class SPEED_EXPORT CallError : public Error {
 public:
  explicit CallError(const std::string& message, Map details = {})
      : CallError("CALL_FAILED", message, std::move(details)) {}
  const Map& details() const noexcept { return details_; }

 protected:
  CallError(std::string_view code, const std::string& message, Map details)
      : Error(code, message), details_(std::move(details)) {}

 private:
  Map details_;
};

// Bytes of a peer break a rule; `reason` is a `wire` code of codes.json.
class SPEED_EXPORT WireError : public Error {
 public:
  WireError(std::string_view reason, const std::string& message)
      : Error("INTERNAL_ERROR", std::string(reason) + ": " + message), reason_(reason) {}
  std::string_view reason() const noexcept { return reason_; }

 private:
  std::string_view reason_;  // a literal
};

// generated from registry_spec/codes.json by scripts/generate

// A setting, argument or environment is wrong; nothing was started or sent.
class SPEED_EXPORT ConfigurationError : public Error {
 public:
  explicit ConfigurationError(const std::string& message) : Error("CONFIGURATION", message) {}

 protected:
  ConfigurationError(std::string_view code, const std::string& message) : Error(code, message) {}
};

// The key file is missing, malformed, not private, or holds no such key.
class SPEED_EXPORT KeyFileError : public ConfigurationError {
 public:
  explicit KeyFileError(const std::string& message) : ConfigurationError("KEY_FILE", message) {}
};

// The communication directory cannot be used.
class SPEED_EXPORT RootError : public ConfigurationError {
 public:
  explicit RootError(const std::string& message) : ConfigurationError("ROOT", message) {}
};

// A node, service, topic or pattern name breaks the naming rules.
class SPEED_EXPORT InvalidNameError : public ConfigurationError {
 public:
  explicit InvalidNameError(const std::string& message) : ConfigurationError("INVALID_NAME", message) {}
};

// The asked durability cannot be given on this filesystem.
class SPEED_EXPORT DurabilityError : public ConfigurationError {
 public:
  explicit DurabilityError(const std::string& message) : ConfigurationError("DURABILITY", message) {}
};

// A service of this name is already registered on this node.
class SPEED_EXPORT ServiceExistsError : public ConfigurationError {
 public:
  explicit ServiceExistsError(const std::string& message) : ConfigurationError("SERVICE_EXISTS", message) {}
};

// This node has no right, or no longer a right, to its name.
class SPEED_EXPORT RegistrationError : public Error {
 public:
  explicit RegistrationError(const std::string& message) : Error("INVALID_STATE", message) {}

 protected:
  RegistrationError(std::string_view code, const std::string& message) : Error(code, message) {}
};

// A live node holds this name.
class SPEED_EXPORT NameTakenError : public RegistrationError {
 public:
  explicit NameTakenError(const std::string& message) : RegistrationError("NAME_TAKEN", message) {}
};

// This node could not renew its lease, or another process reclaimed its name.
class SPEED_EXPORT LeaseLostError : public RegistrationError {
 public:
  explicit LeaseLostError(const std::string& message) : RegistrationError("LEASE_LOST", message) {}
};

// The node object cannot be used in this state.
class SPEED_EXPORT NodeStateError : public Error {
 public:
  explicit NodeStateError(const std::string& message) : Error("INVALID_STATE", message) {}

 protected:
  NodeStateError(std::string_view code, const std::string& message) : Error(code, message) {}
};

// The node was closed.
class SPEED_EXPORT NodeClosedError : public NodeStateError {
 public:
  explicit NodeClosedError(const std::string& message) : NodeStateError("NODE_CLOSED", message) {}
};

// The node belongs to the parent process; make a new one after fork.
class SPEED_EXPORT ForkedNodeError : public NodeStateError {
 public:
  explicit ForkedNodeError(const std::string& message) : NodeStateError("FORKED_NODE", message) {}
};

// The envelope was not handed over; the receiver accepted nothing.
class SPEED_EXPORT DeliveryError : public Error {
 public:
  explicit DeliveryError(const std::string& message) : Error("DELIVERY", message) {}

 protected:
  DeliveryError(std::string_view code, const std::string& message) : Error(code, message) {}
};

// No live node of this name is in the registry.
class SPEED_EXPORT UnknownNodeError : public DeliveryError {
 public:
  explicit UnknownNodeError(const std::string& message) : DeliveryError("UNKNOWN_NODE", message) {}
};

// The node is starting and does not serve yet; nothing was written.
class SPEED_EXPORT NodeStartingError : public DeliveryError {
 public:
  explicit NodeStartingError(const std::string& message) : DeliveryError("NODE_STARTING", message) {}
};

// The node left, died or was replaced before it answered, or takes nothing more because it leaves. `execution` says
// whether a call had begun; that is final.
class SPEED_EXPORT NodeLeftError : public DeliveryError {
 public:
  explicit NodeLeftError(const std::string& message) : DeliveryError("NODE_LEFT", message) {}

 protected:
  NodeLeftError(std::string_view code, const std::string& message) : DeliveryError(code, message) {}
};

// The other node is leaving and took nothing more: the call never began.
class SPEED_EXPORT NodeLeavingError : public NodeLeftError {
 public:
  explicit NodeLeavingError(const std::string& message) : NodeLeftError("LEAVING", message) {}
};

// The call was for a process that another one has replaced, which does not begin it.
class SPEED_EXPORT NodeReplacedError : public NodeLeftError {
 public:
  explicit NodeReplacedError(const std::string& message) : NodeLeftError("REPLACED", message) {}
};

// Another host cannot be reached, or was lost before it answered.
class SPEED_EXPORT HostAwayError : public NodeLeftError {
 public:
  explicit HostAwayError(const std::string& message) : NodeLeftError("HOST_AWAY", message) {}
};

// Another node is not who it is to be, or this node is not; nothing was written to it.
class SPEED_EXPORT IdentityError : public DeliveryError {
 public:
  explicit IdentityError(const std::string& message) : DeliveryError("IDENTITY", message) {}

 protected:
  IdentityError(std::string_view code, const std::string& message) : DeliveryError(code, message) {}
};

// The node has another identity than the one that is known, granted or vouched for.
class SPEED_EXPORT IdentityChangedError : public IdentityError {
 public:
  explicit IdentityChangedError(const std::string& message) : IdentityError("IDENTITY_CHANGED", message) {}
};

// An owner revoked the identity of the node.
class SPEED_EXPORT IdentityRevokedError : public IdentityError {
 public:
  explicit IdentityRevokedError(const std::string& message) : IdentityError("IDENTITY_REVOKED", message) {}
};

// The owner's statement about the identity of the node is over.
class SPEED_EXPORT IdentityExpiredError : public IdentityError {
 public:
  explicit IdentityExpiredError(const std::string& message) : IdentityError("IDENTITY_EXPIRED", message) {}
};

// No owner vouches for the identity of the node, or too many identities are remembered.
class SPEED_EXPORT IdentityUnvouchedError : public IdentityError {
 public:
  explicit IdentityUnvouchedError(const std::string& message) : IdentityError("IDENTITY_UNVOUCHED", message) {}
};

// The node comes without the identity that it is known to have.
class SPEED_EXPORT IdentityMissingError : public IdentityError {
 public:
  explicit IdentityMissingError(const std::string& message) : IdentityError("IDENTITY_MISSING", message) {}
};

// Another node lives with this identity.
class SPEED_EXPORT IdentityCopiedError : public IdentityError {
 public:
  explicit IdentityCopiedError(const std::string& message) : IdentityError("IDENTITY_COPIED", message) {}
};

// The receiver's lane stayed full for the whole timeout.
class SPEED_EXPORT InboxFullError : public DeliveryError {
 public:
  explicit InboxFullError(const std::string& message) : DeliveryError("INBOX_FULL", message) {}
};

// The payload exceeds `max_payload_bytes`.
class SPEED_EXPORT PayloadTooLargeError : public DeliveryError {
 public:
  explicit PayloadTooLargeError(const std::string& message) : DeliveryError("PAYLOAD_TOO_LARGE", message) {}
};

// A value has no representation in the type table of the contract; the message names the path to it.
class SPEED_EXPORT UnserialisableError : public DeliveryError {
 public:
  explicit UnserialisableError(const std::string& message) : DeliveryError("UNSERIALISABLE", message) {}
};

// No acknowledgement came in time; the message may still be handled.
class SPEED_EXPORT NotAcknowledgedError : public DeliveryError {
 public:
  explicit NotAcknowledgedError(const std::string& message) : DeliveryError("NOT_ACKNOWLEDGED", message) {}
};

// What was received in segments cannot be kept or read: the store is locked, full or damaged.
class SPEED_EXPORT SegmentStoreError : public DeliveryError {
 public:
  explicit SegmentStoreError(const std::string& message) : DeliveryError("SEGMENT_STORE", message) {}
};

// The node has no service of this name.
class SPEED_EXPORT ServiceNotFoundError : public CallError {
 public:
  explicit ServiceNotFoundError(const std::string& message, Map details = {})
      : CallError("SERVICE_NOT_FOUND", message, std::move(details)) {}
};

// The other node, or one of its services, does not allow this node. Raised before any write when the published grant is
// missing, and when the receiver refuses.
class SPEED_EXPORT AccessDeniedError : public CallError {
 public:
  explicit AccessDeniedError(const std::string& message, Map details = {})
      : CallError("ACCESS_DENIED", message, std::move(details)) {}
};

// The service refused the arguments: wrong names, types or values.
class SPEED_EXPORT InvalidArgumentsError : public CallError {
 public:
  explicit InvalidArgumentsError(const std::string& message, Map details = {})
      : CallError("INVALID_ARGUMENTS", message, std::move(details)) {}
};

// The service raised, or returned what cannot be serialised.
class SPEED_EXPORT ExecutionFailedError : public CallError {
 public:
  explicit ExecutionFailedError(const std::string& message, Map details = {})
      : CallError("EXECUTION_FAILED", message, std::move(details)) {}
};

// The deadline passed; `details["phase"]` is `queued`, `running` or `unanswered`.
class SPEED_EXPORT CallTimeoutError : public CallError {
 public:
  explicit CallTimeoutError(const std::string& message, Map details = {})
      : CallError("TIMEOUT", message, std::move(details)) {}
};

// The other side failed in a way that is not the service's fault.
class SPEED_EXPORT InternalError : public CallError {
 public:
  explicit InternalError(const std::string& message, Map details = {})
      : CallError("INTERNAL_ERROR", message, std::move(details)) {}
};

// The other side could not put a payload together from its segments: lost, expired, or no room.
class SPEED_EXPORT SegmentsLostError : public CallError {
 public:
  explicit SegmentsLostError(const std::string& message, Map details = {})
      : CallError("SEGMENTS_LOST", message, std::move(details)) {}
};

// The caller withdrew the call; `details["phase"]` is `queued` if it never began, else `running`.
class SPEED_EXPORT CallWithdrawnError : public CallError {
 public:
  explicit CallWithdrawnError(const std::string& message, Map details = {})
      : CallError("WITHDRAWN", message, std::move(details)) {}
};

// The service answered with an error of its own. `code` is the service's code, without the prefix that it travels with;
// `details` is what the service added.
class SPEED_EXPORT ApplicationError : public CallError {
 public:
  explicit ApplicationError(std::string code, const std::string& message, Map details = {})
      : ApplicationError(std::make_shared<const std::string>(std::move(code)), message, std::move(details)) {}

 private:
  ApplicationError(std::shared_ptr<const std::string> code, const std::string& message, Map details)
      : CallError(*code, message, std::move(details)), kept_(std::move(code)) {}

  std::shared_ptr<const std::string> kept_;  // what `code` looks at, shared by all copies
};

// end of what is generated

// Not generated: a ConversionError is no situation of its own between nodes, and other languages have none. Its code is
// INVALID_ARGUMENTS. A StorageError counts.

// A value is of another kind than asked for, or has no exact counterpart there (conversion.hpp). `Request::get` tells the
// caller of its argument; of another value, a service that lets it go has failed itself.
class SPEED_EXPORT ConversionError : public InvalidArgumentsError {
 public:
  explicit ConversionError(const std::string& message, Map details = {})
      : InvalidArgumentsError(message, std::move(details)) {}
};

// A column was read as one of another kind. A service that lets it go tells its caller of its argument if the column is
// one; else it has failed itself.
class SPEED_EXPORT WrongKindError : public ConversionError {
 public:
  WrongKindError(const std::string& message, const void* column) : ConversionError(message), column_(column) {}
  const void* column() const noexcept { return column_; }  // where its body begins, which copies share

 private:
  const void* column_;
};

// The filesystem refused a write. `envelopes_written` of a batch were accepted before.
class SPEED_EXPORT StorageError : public DeliveryError {
 public:
  explicit StorageError(const std::string& message, std::size_t envelopes_written = 0)
      : DeliveryError("STORAGE", message), envelopes_written_(envelopes_written) {}
  std::size_t envelopes_written() const noexcept { return envelopes_written_; }

 private:
  std::size_t envelopes_written_;
};

}  // namespace speed
