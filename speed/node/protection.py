"""Messages of a node that are signed, encrypted or described: written before, and opened behind, its engine (M-25)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from speed.core.log import logger
from speed.engine import Engine
from speed.engine.message import Message, Published, is_large, publish_to
from speed.engine.options import MESSAGE_OPTIONS
from speed.engine.tracing import current_trace
from speed.errors import ConfigurationError, SpeedError, StorageError
from speed.message.audit import tell_refused
from speed.message.errors import AwayError, KeyUnavailableError, NotAvailableError
from speed.message.options import PublishOptions
from speed.message.schemas.registry import SchemasAwayError
from speed.message.security import Guard, MessageSecurity
from speed.message.view import MessageView
from speed.message.writing import encode_message, new_message_id
from speed.node.guard import Opening
from speed.wire.names import check_topic
from speed.wire.seal import random_bytes

log = logger("speed.messages")

WARN_SECONDS = 60.0
_NO_OPTIONS = PublishOptions()


class EncodedMessage(NamedTuple):
    """One message as it is sent; its time is in Unix milliseconds."""

    message_id: str
    data: bytes
    published_at_ms: int
    traceparent: str | None


def write(
    guard: Guard,
    payload: Any,
    options: PublishOptions | None,
    metadata: Mapping[str, Any],
    *,
    namespace: str,
    publisher_id: str | None,
    make_id: Callable[[int], str] | None = None,
) -> EncodedMessage:
    """One message, with all metadata in ``metadata``. Raises what ``Guard.write`` does.

    ``make_id`` makes its id of the time; without it, it is random.
    """
    chosen = options or _NO_OPTIONS
    unknown = metadata.keys() - MESSAGE_OPTIONS
    if unknown:
        raise ConfigurationError(f"no such message option: {', '.join(sorted(unknown))}; see PublishOptions")
    fields: dict[str, Any] = {"topic": "message", **metadata}
    fields.setdefault("traceparent", current_trace())
    now = time.time_ns() // 1_000_000
    message_id = new_message_id(now, random_bytes(16)) if make_id is None else make_id(now)
    fields |= {
        "namespace": namespace,
        "message_id": message_id,
        "published_at_ms": now,
        "publisher_id": publisher_id,
    }
    if is_large(payload):
        error = NotAvailableError("what no envelope holds is neither signed, encrypted nor described: send it in parts")
        guard.tell_not_written(error, chosen, fields)
        raise error
    if chosen.is_plain and not guard.security.protects:  # most are: no part of the guard has anything to do
        data = encode_message(payload, **fields)
    else:
        data = guard.write(payload, chosen, **fields)
    return EncodedMessage(message_id, data, now, fields["traceparent"])


class Protected(Opening):
    """The way of protected messages through an engine that carries them as bytes. Thread-safe."""

    def __init__(self, engine: Engine, name: str, namespace: str, security: MessageSecurity | None) -> None:
        super().__init__(engine)
        settings = MessageSecurity() if security is None else security
        self.protects = settings.protects
        self._name = name
        self._namespace = namespace
        self._guard = Guard(settings, name, partial(self._limiter.warn, log, seconds=WARN_SECONDS))

    # --- sending ---

    def encode(self, payload: Any, options: PublishOptions | None, metadata: Mapping[str, Any]) -> tuple[str, bytes]:
        """The id and the bytes of one message, with all metadata in ``metadata``."""
        written = write(self._guard, payload, options, metadata, namespace=self._namespace, publisher_id=self._name)
        return written.message_id, written.data

    def publish(self, topic: str, data: bytes, timeout: float, on_full: str) -> Published:
        """Send an encoded event to all who subscribe to it and allow this node."""
        check_topic(topic)

        def send(name: str, deadline: float) -> None:
            self._engine.forward(name, (data,), True, False, max(0.0, deadline - monotonic()))

        return publish_to(self._engine.nodes(), topic, self._name, send, timeout, waits=on_full == "wait")

    def end(self) -> None:
        """The node is closed: what was counted is written."""
        if self._guard.security.usage is not None:
            self._guard.security.usage.flush()

    # --- receiving ---

    def _look(self, message: Message) -> MessageView:
        try:
            return self._guard.open(message.metadata, message.source)
        except (KeyUnavailableError, SchemasAwayError, StorageError) as error:  # StorageError: of the audit log
            raise AwayError(f"{error.code}: {error}") from None

    def _tell_not_forwarded(self, data: bytes, error: SpeedError) -> None:
        tell_refused(self._guard.security.audit, "forward", data, error, self._name)
