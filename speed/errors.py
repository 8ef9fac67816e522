"""Every exception SPEED raises, as one tree; codes, bases and texts are those of ``registry_spec/codes.json``.

SpeedError
├── ConfigurationError
│       KeyFileError RootError InvalidNameError DurabilityError ServiceExistsError
├── RegistrationError
│       NameTakenError LeaseLostError
├── NodeStateError
│       NodeClosedError ForkedNodeError
├── DeliveryError
│       UnknownNodeError NodeStartingError NodeLeftError (NodeLeavingError NodeReplacedError HostAwayError)
│       IdentityError (IdentityChangedError IdentityRevokedError IdentityExpiredError IdentityUnvouchedError
│       IdentityMissingError IdentityCopiedError) InboxFullError StorageError PayloadTooLargeError UnserialisableError
│       NotAcknowledgedError SegmentStoreError
├── CallError
│       ServiceNotFoundError AccessDeniedError InvalidArgumentsError ExecutionFailedError CallTimeoutError InternalError
│       SegmentsLostError CallWithdrawnError ApplicationError
├── JournalError
│       JournalTakenError JournalFullError JournalRefusedError JournalReplacedError JournalExpiredError
│       JournalDamagedError
└── WireError
"""

from __future__ import annotations

from enum import Enum
from typing import Any


class Execution(Enum):
    """What an error of a call says of its service."""

    NOT_BEGUN = "not begun"
    MAY_HAVE_RUN = "may have run"
    RAN = "ran"


class SpeedError(Exception):
    """Base of all SPEED errors. ``code`` is stable; the message says what happened and what to do.

    ``execution`` tells whether the service of a call ran; None for what is not about a call. ``node`` and ``service``
    are those that the call was for; None where no call ended with this error.
    """

    code: str = "SPEED_ERROR"
    execution: Execution | None = None
    node: str | None = None
    service: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made without ``__init__``, whose arguments are not kept."""
        return _made_again, (type(self), self.args, self.__dict__)


def fresh(error: SpeedError) -> SpeedError:
    """The same to be raised once more: an exception that many threads raise would collect the frames of all."""
    return _made_again(type(error), error.args, error.__dict__)


def _made_again(kind: type[SpeedError], args: tuple[Any, ...], state: dict[str, Any]) -> SpeedError:
    again = kind.__new__(kind, *args)
    again.args = args  # some built-in bases set them by __init__ only
    again.__dict__.update(state)
    return again


class CallError(SpeedError):
    """A call failed. ``details`` is what the other side added (a mapping, may be empty)."""

    code = "CALL_FAILED"

    def __init__(self, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details: dict[str, Any] = details or {}


class WireError(SpeedError):
    """Bytes of a peer break a rule; ``reason`` is a `wire` code of ``codes.json``."""

    code = "INTERNAL_ERROR"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason


# generated from registry_spec/codes.json by scripts/generate


class ConfigurationError(SpeedError):
    """A setting, argument or environment is wrong; nothing was started or sent."""

    code = "CONFIGURATION"


class KeyFileError(ConfigurationError):
    """The key file is missing, malformed, not private, or holds no such key."""

    code = "KEY_FILE"


class RootError(ConfigurationError):
    """The communication directory cannot be used."""

    code = "ROOT"


class InvalidNameError(ConfigurationError, ValueError):
    """A node, service, topic or pattern name breaks the naming rules."""

    code = "INVALID_NAME"


class DurabilityError(ConfigurationError):
    """The asked durability cannot be given on this filesystem."""

    code = "DURABILITY"


class ServiceExistsError(ConfigurationError):
    """A service of this name is already registered on this node."""

    code = "SERVICE_EXISTS"


class RegistrationError(SpeedError):
    """This node has no right, or no longer a right, to its name."""

    code = "INVALID_STATE"


class NameTakenError(RegistrationError):
    """A live node holds this name."""

    code = "NAME_TAKEN"


class LeaseLostError(RegistrationError):
    """This node could not renew its lease, or another process reclaimed its name."""

    code = "LEASE_LOST"


class NodeStateError(SpeedError):
    """The node object cannot be used in this state."""

    code = "INVALID_STATE"


class NodeClosedError(NodeStateError):
    """The node was closed."""

    code = "NODE_CLOSED"


class ForkedNodeError(NodeStateError):
    """The node belongs to the parent process; make a new one after fork."""

    code = "FORKED_NODE"


class DeliveryError(SpeedError):
    """The envelope was not handed over; the receiver accepted nothing."""

    code = "DELIVERY"


class UnknownNodeError(DeliveryError):
    """No live node of this name is in the registry."""

    code = "UNKNOWN_NODE"


class NodeStartingError(DeliveryError):
    """The node is starting and does not serve yet; nothing was written."""

    code = "NODE_STARTING"


class NodeLeftError(DeliveryError):
    """The node left, died or was replaced before it answered, or takes nothing more because it leaves.

    ``execution`` says whether a call had begun; that is final.
    """

    code = "NODE_LEFT"


class NodeLeavingError(CallError, NodeLeftError):
    """The other node is leaving and took nothing more: the call never began."""

    code = "LEAVING"


class NodeReplacedError(CallError, NodeLeftError):
    """The call was for a process that another one has replaced, which does not begin it."""

    code = "REPLACED"


class HostAwayError(NodeLeftError):
    """Another host cannot be reached, or was lost before it answered."""

    code = "HOST_AWAY"


class IdentityError(DeliveryError):
    """Another node is not who it is to be, or this node is not; nothing was written to it."""

    code = "IDENTITY"


class IdentityChangedError(IdentityError):
    """The node has another identity than the one that is known, granted or vouched for."""

    code = "IDENTITY_CHANGED"


class IdentityRevokedError(IdentityError):
    """An owner revoked the identity of the node."""

    code = "IDENTITY_REVOKED"


class IdentityExpiredError(IdentityError):
    """The owner's statement about the identity of the node is over."""

    code = "IDENTITY_EXPIRED"


class IdentityUnvouchedError(IdentityError):
    """No owner vouches for the identity of the node, or too many identities are remembered."""

    code = "IDENTITY_UNVOUCHED"


class IdentityMissingError(IdentityError):
    """The node comes without the identity that it is known to have."""

    code = "IDENTITY_MISSING"


class IdentityCopiedError(IdentityError):
    """Another node lives with this identity."""

    code = "IDENTITY_COPIED"


class InboxFullError(DeliveryError):
    """The receiver's lane stayed full for the whole timeout."""

    code = "INBOX_FULL"


class PayloadTooLargeError(DeliveryError, ValueError):
    """The payload exceeds ``max_payload_bytes``."""

    code = "PAYLOAD_TOO_LARGE"


class UnserialisableError(DeliveryError, TypeError):
    """A value has no representation in the type table of the contract; the message names the path to it."""

    code = "UNSERIALISABLE"


class NotAcknowledgedError(DeliveryError, TimeoutError):
    """No acknowledgement came in time; the message may still be handled."""

    code = "NOT_ACKNOWLEDGED"


class SegmentStoreError(DeliveryError):
    """What was received in segments cannot be kept or read: the store is locked, full or damaged."""

    code = "SEGMENT_STORE"


class ServiceNotFoundError(CallError):
    """The node has no service of this name."""

    code = "SERVICE_NOT_FOUND"


class AccessDeniedError(CallError, DeliveryError, PermissionError):
    """The other node, or one of its services, does not allow this node.

    Raised before any write when the published grant is missing, and when the receiver refuses.
    """

    code = "ACCESS_DENIED"


class InvalidArgumentsError(CallError, ValueError):
    """The service refused the arguments: wrong names, types or values."""

    code = "INVALID_ARGUMENTS"


class ExecutionFailedError(CallError):
    """The service raised, or returned what cannot be serialised."""

    code = "EXECUTION_FAILED"


class CallTimeoutError(CallError, TimeoutError):
    """The deadline passed; ``details["phase"]`` is ``queued``, ``running`` or ``unanswered``."""

    code = "TIMEOUT"


class InternalError(CallError):
    """The other side failed in a way that is not the service's fault."""

    code = "INTERNAL_ERROR"


class SegmentsLostError(CallError, DeliveryError):
    """The other side could not put a payload together from its segments: lost, expired, or no room."""

    code = "SEGMENTS_LOST"


class CallWithdrawnError(CallError):
    """The caller withdrew the call; ``details["phase"]`` is ``queued`` if it never began, else ``running``."""

    code = "WITHDRAWN"


class ApplicationError(CallError):
    """The service answered with an error of its own.

    ``code`` is the service's code, without the prefix that it travels with; ``details`` is what the service added.
    """

    code = "APPLICATION"

    def __init__(self, code: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message, details)
        self.code = code


class JournalError(SpeedError):
    """A journal cannot be written or read as asked."""

    code = "JOURNAL"


class JournalTakenError(JournalError):
    """Another process writes this journal."""

    code = "JOURNAL_TAKEN"


class JournalFullError(JournalError):
    """A journal has no lane left for this source: nothing of another topic of it is recorded."""

    code = "JOURNAL_FULL"


class JournalRefusedError(JournalError):
    """This is not recorded: the journal's configuration says so, or it is too large."""

    code = "JOURNAL_REFUSED"


class JournalReplacedError(JournalError):
    """A position is of another journal: this one was made anew, or restored from a copy."""

    code = "JOURNAL_REPLACED"


CALL_ERRORS: dict[str, type[CallError]] = {
    "SERVICE_NOT_FOUND": ServiceNotFoundError,
    "ACCESS_DENIED": AccessDeniedError,
    "INVALID_ARGUMENTS": InvalidArgumentsError,
    "EXECUTION_FAILED": ExecutionFailedError,
    "TIMEOUT": CallTimeoutError,
    "INTERNAL_ERROR": InternalError,
    "SEGMENTS_LOST": SegmentsLostError,
    "WITHDRAWN": CallWithdrawnError,
    "LEAVING": NodeLeavingError,
    "REPLACED": NodeReplacedError,
}
"""SPC error code -> exception raised on the caller's side."""


# end of what is generated


class StorageError(DeliveryError):
    """The filesystem refused the write (full, quota, I/O error, permission).

    ``envelopes_written`` of a batch were accepted before; it is 0 for a single envelope.
    """

    code = "STORAGE"
    envelopes_written: int = 0


class JournalExpiredError(JournalError):
    """Retention removed the records that were asked for; ``first`` is the first offset kept."""

    code = "JOURNAL_EXPIRED"

    def __init__(self, message: str, first: int = 0) -> None:
        super().__init__(message, first)
        self.first = first

    def __str__(self) -> str:
        return str(self.args[0])


class JournalDamagedError(JournalError):
    """Bytes of a journal are not what was written; ``offset`` is the first record that cannot be read."""

    code = "JOURNAL_DAMAGED"

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message, offset)
        self.offset = offset

    def __str__(self) -> str:
        return str(self.args[0])


EXIT_STATUS: dict[type[SpeedError], int] = {
    ConfigurationError: 3,
    NameTakenError: 3,
    JournalTakenError: 3,
    UnknownNodeError: 4,
    NodeLeftError: 4,
    AccessDeniedError: 5,
    CallTimeoutError: 6,
    NotAcknowledgedError: 6,
    CallError: 7,
    InboxFullError: 8,
    StorageError: 8,
    PayloadTooLargeError: 2,
    UnserialisableError: 2,
}
"""Exit status of the commands `speed` and `speedd`; the most specific class decides, 1 otherwise."""


def exit_status(error: SpeedError) -> int:
    """Exit status of a command that ended with ``error``."""
    return next((EXIT_STATUS[kind] for kind in type(error).__mro__ if kind in EXIT_STATUS), 1)
