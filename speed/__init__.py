"""SPEED: secure filesystem IPC between unrelated processes.

``Node`` is the way in; every exception derives from ``SpeedError``. Importing starts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from speed.errors import (
    AccessDeniedError,
    ApplicationError,
    CallError,
    CallTimeoutError,
    CallWithdrawnError,
    ConfigurationError,
    DeliveryError,
    DurabilityError,
    Execution,
    ExecutionFailedError,
    ForkedNodeError,
    HostAwayError,
    IdentityChangedError,
    IdentityCopiedError,
    IdentityError,
    IdentityExpiredError,
    IdentityMissingError,
    IdentityRevokedError,
    IdentityUnvouchedError,
    InboxFullError,
    InternalError,
    InvalidArgumentsError,
    InvalidNameError,
    JournalDamagedError,
    JournalError,
    JournalExpiredError,
    JournalFullError,
    JournalRefusedError,
    JournalReplacedError,
    JournalTakenError,
    KeyFileError,
    LeaseLostError,
    NameTakenError,
    NodeClosedError,
    NodeLeavingError,
    NodeLeftError,
    NodeReplacedError,
    NodeStartingError,
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
    from speed.core.services import Request, Response, Service, ServiceError
    from speed.engine.message import Message, Published
    from speed.engine.options import CallRequest, Retry
    from speed.engine.tracing import current_trace, trace, traced
    from speed.fs.keyfile import init_root
    from speed.message.audit import AuditLog, TokenVerifier
    from speed.message.errors import MessageError
    from speed.message.keys import MessageKey, generate_key
    from speed.message.keystore import KeyStore
    from speed.message.options import PublishOptions
    from speed.message.schemas.registry import NamespaceSchemas, SchemaRegistry, SchemaUsage
    from speed.message.security import MessageSecurity
    from speed.node.client import named
    from speed.node.consumer import Consumer, TopicMessage
    from speed.node.node import Node
    from speed.node.streaming import ProgressBar, Stream
    from speed.node.topic import Reader, Topic
    from speed.wire.column import Column
    from speed.wire.entry import Entry
    from speed.wire.spc import Progress
    from speed.wire.topic import TopicOffset

__version__ = "0.1.0"

_LATER = {
    "Node": "speed.node.node",
    "Progress": "speed.wire.spc",
    "ProgressBar": "speed.node.streaming",
    "Stream": "speed.node.streaming",
    "CallRequest": "speed.engine.options",
    "Retry": "speed.engine.options",
    "Message": "speed.engine.message",
    "Request": "speed.core.services",
    "Response": "speed.core.services",
    "Service": "speed.core.services",
    "ServiceError": "speed.core.services",
    "Entry": "speed.wire.entry",
    "Column": "speed.wire.column",
    "AuditLog": "speed.message.audit",
    "KeyStore": "speed.message.keystore",
    "MessageError": "speed.message.errors",
    "MessageKey": "speed.message.keys",
    "MessageSecurity": "speed.message.security",
    "PublishOptions": "speed.message.options",
    "Published": "speed.engine.message",
    "NamespaceSchemas": "speed.message.schemas.registry",
    "SchemaRegistry": "speed.message.schemas.registry",
    "SchemaUsage": "speed.message.schemas.registry",
    "TokenVerifier": "speed.message.audit",
    "current_trace": "speed.engine.tracing",
    "generate_key": "speed.message.keys",
    "trace": "speed.engine.tracing",
    "traced": "speed.engine.tracing",
    "init_root": "speed.fs.keyfile",
    "named": "speed.node.client",
    "Consumer": "speed.node.consumer",
    "Reader": "speed.node.topic",
    "Topic": "speed.node.topic",
    "TopicMessage": "speed.node.consumer",
    "TopicOffset": "speed.wire.topic",
}
"""Names that are imported when first used, so that ``import speed`` stays quick."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _LATER:
        raise AttributeError(f"module 'speed' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    """All that is public, imported already or not: what a shell completes."""
    return sorted({*__all__, "columns", "column_services", "messages", "testing", "__doc__", "__name__", "__file__"})


__all__ = [
    "AccessDeniedError",
    "ApplicationError",
    "AuditLog",
    "CallError",
    "CallRequest",
    "CallTimeoutError",
    "CallWithdrawnError",
    "Column",
    "ConfigurationError",
    "Consumer",
    "DeliveryError",
    "DurabilityError",
    "Entry",
    "Execution",
    "ExecutionFailedError",
    "ForkedNodeError",
    "HostAwayError",
    "IdentityChangedError",
    "IdentityCopiedError",
    "IdentityError",
    "IdentityExpiredError",
    "IdentityMissingError",
    "IdentityRevokedError",
    "IdentityUnvouchedError",
    "InboxFullError",
    "InternalError",
    "InvalidArgumentsError",
    "InvalidNameError",
    "JournalDamagedError",
    "JournalError",
    "JournalExpiredError",
    "JournalFullError",
    "JournalRefusedError",
    "JournalReplacedError",
    "JournalTakenError",
    "KeyFileError",
    "KeyStore",
    "LeaseLostError",
    "Message",
    "MessageError",
    "MessageKey",
    "MessageSecurity",
    "NameTakenError",
    "NamespaceSchemas",
    "Node",
    "NodeClosedError",
    "NodeLeavingError",
    "NodeLeftError",
    "NodeReplacedError",
    "NodeStartingError",
    "NodeStateError",
    "NotAcknowledgedError",
    "PayloadTooLargeError",
    "Progress",
    "ProgressBar",
    "PublishOptions",
    "Published",
    "Reader",
    "RegistrationError",
    "Request",
    "Response",
    "Retry",
    "RootError",
    "SchemaRegistry",
    "SchemaUsage",
    "SegmentStoreError",
    "SegmentsLostError",
    "Service",
    "ServiceError",
    "ServiceExistsError",
    "ServiceNotFoundError",
    "SpeedError",
    "StorageError",
    "Stream",
    "TokenVerifier",
    "Topic",
    "TopicMessage",
    "TopicOffset",
    "UnknownNodeError",
    "UnserialisableError",
    "WireError",
    "__version__",
    "current_trace",
    "generate_key",
    "init_root",
    "named",
    "trace",
    "traced",
]
