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
    from speed.core.services import Request, Response, Service
    from speed.fs.init import init_root
    from speed.message.errors import MessageError
    from speed.message.keys import MessageKey, generate_key
    from speed.message.options import PublishOptions
    from speed.node import Node
    from speed.runtime.message import Message
    from speed.runtime.published import Published
    from speed.runtime.tracing import current_trace, trace, traced
    from speed.topic import Reader, Topic
    from speed.topic_consumer import Consumer
    from speed.topic_host import TopicMessage, TopicOffset
    from speed.trust.audit import AuditLog
    from speed.trust.keystore import KeyStore
    from speed.trust.namespaces import NamespaceSchemas
    from speed.trust.schemas import SchemaRegistry
    from speed.trust.security import MessageSecurity
    from speed.trust.tokens import TokenVerifier
    from speed.trust.usage import SchemaUsage
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
    "AuditLog": "speed.trust.audit",
    "KeyStore": "speed.trust.keystore",
    "MessageError": "speed.message.errors",
    "MessageKey": "speed.message.keys",
    "MessageSecurity": "speed.trust.security",
    "PublishOptions": "speed.message.options",
    "Published": "speed.runtime.published",
    "NamespaceSchemas": "speed.trust.namespaces",
    "SchemaRegistry": "speed.trust.schemas",
    "SchemaUsage": "speed.trust.usage",
    "TokenVerifier": "speed.trust.tokens",
    "current_trace": "speed.runtime.tracing",
    "generate_key": "speed.message.keys",
    "trace": "speed.runtime.tracing",
    "traced": "speed.runtime.tracing",
    "init_root": "speed.fs.init",
    "Consumer": "speed.topic_consumer",
    "Reader": "speed.topic",
    "Topic": "speed.topic",
    "TopicMessage": "speed.topic_host",
    "TopicOffset": "speed.topic_host",
}
"""Names that are imported when first used, so that ``import speed`` stays quick."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _LATER:
        raise AttributeError(f"module 'speed' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


__all__ = [
    "AccessDeniedError",
    "ApplicationError",
    "AuditLog",
    "CallError",
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
    "PublishOptions",
    "Published",
    "Reader",
    "RegistrationError",
    "Request",
    "Response",
    "RootError",
    "SchemaRegistry",
    "SchemaUsage",
    "SegmentStoreError",
    "SegmentsLostError",
    "Service",
    "ServiceExistsError",
    "ServiceNotFoundError",
    "SpeedError",
    "StorageError",
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
    "trace",
    "traced",
]
