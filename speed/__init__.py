"""SPEED: secure filesystem IPC between unrelated processes.

``Node`` is the way in; every exception derives from ``SpeedError``. Importing starts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from speed.errors import (
    AccessDeniedError,
    CallError,
    CallTimeoutError,
    ConfigurationError,
    DeliveryError,
    DurabilityError,
    ExecutionFailedError,
    ForkedNodeError,
    InboxFullError,
    InternalError,
    InvalidArgumentsError,
    InvalidNameError,
    JournalDamagedError,
    JournalError,
    JournalExpiredError,
    JournalFullError,
    JournalTakenError,
    KeyFileError,
    LeaseLostError,
    NameTakenError,
    NodeClosedError,
    NodeLeftError,
    NodeStateError,
    NotAcknowledgedError,
    PayloadTooLargeError,
    RegistrationError,
    RootError,
    SegmentsLostError,
    SegmentStoreError,
    ServiceExistsError,
    ServiceNotFoundError,
    SpeedError,
    StorageError,
    UnknownNodeError,
    UnserialisableError,
    WireError,
)

if TYPE_CHECKING:
    from speed.core.services import Request, Response, Service
    from speed.node import Node
    from speed.runtime.message import Message
    from speed.wire.column import Column
    from speed.wire.entry import Entry

__version__ = "0.1.0"

_LATER = {
    "Node": "speed.node",
    "Message": "speed.runtime.message",
    "Request": "speed.core.services",
    "Response": "speed.core.services",
    "Service": "speed.core.services",
    "Entry": "speed.wire.entry",
    "Column": "speed.wire.column",
}
"""Names that are imported when first used, so that ``import speed`` stays quick."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _LATER:
        raise AttributeError(f"module 'speed' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


__all__ = [
    "AccessDeniedError",
    "CallError",
    "CallTimeoutError",
    "Column",
    "ConfigurationError",
    "DeliveryError",
    "DurabilityError",
    "Entry",
    "ExecutionFailedError",
    "ForkedNodeError",
    "InboxFullError",
    "InternalError",
    "InvalidArgumentsError",
    "InvalidNameError",
    "JournalDamagedError",
    "JournalError",
    "JournalExpiredError",
    "JournalFullError",
    "JournalTakenError",
    "KeyFileError",
    "LeaseLostError",
    "Message",
    "NameTakenError",
    "Node",
    "NodeClosedError",
    "NodeLeftError",
    "NodeStateError",
    "NotAcknowledgedError",
    "PayloadTooLargeError",
    "RegistrationError",
    "Request",
    "Response",
    "RootError",
    "SegmentStoreError",
    "SegmentsLostError",
    "Service",
    "ServiceExistsError",
    "ServiceNotFoundError",
    "SpeedError",
    "StorageError",
    "UnknownNodeError",
    "UnserialisableError",
    "WireError",
    "__version__",
]
