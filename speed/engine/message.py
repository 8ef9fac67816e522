"""One message as a handler gets it, what every message says, and what became of one that was published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from speed.core.access import granted
from speed.core.log import logger
from speed.engine.options import MESSAGE_OPTIONS
from speed.engine.tracing import current_trace, trace_context_of
from speed.errors import AccessDeniedError, ConfigurationError, InboxFullError, SpeedError
from speed.fs.identity import unix_ms
from speed.message.view import MessageView
from speed.wire import lazily
from speed.wire.entry import Entry
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.names import matches
from speed.wire.seal import random_bytes
from speed.wire.value import BATCH_TYPE

if TYPE_CHECKING:
    from typing_extensions import Self


# What a handler or ``receive`` gets: one message with its envelope's metadata.

FRONT_ROOM = 1 << 16
"""What the limit of an envelope leaves for all of a message but its payload."""


def is_large(payload: Any) -> bool:
    """Whether a payload goes in segments by its kind or size: a file, or bytes that no envelope holds."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return memoryview(payload).nbytes > MAX_PAYLOAD_BYTES - FRONT_ROOM
    return hasattr(payload, "read") and hasattr(payload, "seek")


class Message:
    """One received message or event.

    It is finished when its handler returns, when the next one is asked for with ``receive``, or by ``done()``. A
    message that was not finished comes again when the node starts the next time.

    Attributes:
        source: name of the node that sent it, which is authenticated.
        sequence: number of its envelope; grows from each sender, and is the same when the message comes again.
        timestamp_ms: when it was sent, by the sender's clock, in Unix milliseconds.
        redelivered: whether an earlier process of this name may already have handled it.
        deliveries: how often it was begun, this time included.
    """

    __slots__ = ("_after", "_finish", "_view", "deliveries", "redelivered", "sequence", "source", "timestamp_ms")

    def __init__(
        self,
        view: MessageView,
        *,
        source: str,
        sequence: int,
        timestamp_ms: int,
        redelivered: bool,
        finish: Callable[[], None],
        deliveries: int = 1,
    ) -> None:
        self._view = view
        self._finish: Callable[[], None] | None = finish
        self._after: Callable[[], None] | None = None
        self.source = source
        self.sequence = sequence
        self.timestamp_ms = timestamp_ms
        self.redelivered = redelivered
        self.deliveries = deliveries

    @property
    def payload(self) -> Any:
        """The value that the sender gave: map, list, str, bytes, number, …, decoded when it is first asked for.

        A payload that came in segments is a seekable binary file, readable until the message is finished.
        """
        return self._view.payload

    @property
    def payload_bytes(self) -> memoryview:
        """The payload as it travelled, without a copy."""
        return self._view.payload_bytes

    @property
    def payloads(self) -> list[Any]:
        """The values of a batch, else the one payload. Raises BatchError, and WireError as ``payload`` does."""
        if self._view.content_type != BATCH_TYPE:
            return [self._view.payload]
        with lazily.guard:
            from speed.message.options import decode_batch

        return decode_batch(self._view.plain_bytes)

    def trace_context(self) -> Any:
        """The publisher's trace as an OpenTelemetry context, to start a span in; an empty one if there is none."""
        return trace_context_of(self._view.traceparent, self._view.baggage)

    def with_view(self, view: MessageView) -> Message:
        """The same message seen another way; finishing either finishes both."""
        return Message(
            view,
            source=self.source,
            sequence=self.sequence,
            timestamp_ms=self.timestamp_ms,
            redelivered=self.redelivered,
            finish=self.done,
            deliveries=self.deliveries,
        )

    @property
    def metadata(self) -> MessageView:
        """What the message says beside its payload: ids, times, labels, signer; parsed when it is asked for."""
        return self._view

    @property
    def topic(self) -> str:
        """The topic of an event; of a message ``message``, unless its sender gave one."""
        return self._view.topic

    @property
    def message_id(self) -> str:
        """The id that ``send`` returned; it is unique, and the same when the message comes again."""
        return self._view.message_id

    @property
    def traceparent(self) -> str | None:
        """The sender's trace, as a W3C ``traceparent``."""
        return self._view.traceparent

    def done(self) -> None:
        """Finish the message; calling it again does nothing."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        after, self._after = self._after, None
        if after is not None:
            after()

    @property
    def is_done(self) -> bool:
        """Whether it is finished."""
        return self._finish is None

    def when_done(self, after: Callable[[], None] | None) -> None:
        """Have ``after`` run once it is finished."""
        self._after = after

    def __repr__(self) -> str:
        return f"<Message from {self.source} sequence={self.sequence:#x} redelivered={self.redelivered}>"


BatchHandler = Callable[[Sequence[Message]], Mapping[int, SpeedError] | None]
"""Takes a batch; the messages at the places it returns are refused, and their senders told."""


# What became of one message or event: who got it, and how far it came.


class Published(int):
    """How many nodes got an event; an ``int``.

    Attributes:
        delivered: the names of these nodes.
        failed: the names of the other subscribers, each with the code of the error that kept it from them.
    """

    delivered: tuple[str, ...]
    failed: Mapping[str, str]

    def __new__(cls, delivered: Iterable[str] = (), failed: Mapping[str, str] = MappingProxyType({})) -> Self:
        names = tuple(delivered)
        made = super().__new__(cls, len(names))
        made.delivered = names
        made.failed = MappingProxyType(dict(failed))
        return made


def publish_each(
    publish: Callable[..., Published], payloads: Mapping[str, Any], *, timeout: float = 5.0, **how: Any
) -> dict[str, Published]:
    """Publish one event for each topic, one after the other, within one bound (seconds) for all."""
    ends = monotonic() + timeout
    return {
        topic: publish(topic, payload, timeout=max(0.0, ends - monotonic()), **how)
        for topic, payload in payloads.items()
    }


class Sent(str):
    """The id of a message that was sent. ``waiting``: it was acknowledged, and nothing takes it there yet."""

    __slots__ = ("waiting",)
    waiting: bool

    def __new__(cls, message_id: str, *, waiting: bool = False) -> Self:
        made = super().__new__(cls, message_id)
        made.waiting = waiting
        return made


# One event to many nodes: who has room gets it at once, the others within one bound for all.

log = logger("speed.messages")

Send = Callable[[str, float], object]
"""Sends the event to one node, waiting for room until a time (monotonic seconds)."""


def subscribers(entries: Iterable[Entry], topic: str, publisher: str) -> tuple[list[str], list[str]]:
    """Nodes that subscribe to ``topic``: those that allow the publisher, and those that do not."""
    allowed: list[str] = []
    denied: list[str] = []
    for entry in entries:
        if entry.name == publisher or entry.status == "leaving":
            continue
        if any(matches(pattern, topic) for pattern in entry.subscriptions):
            if granted(entry, publisher):
                allowed.append(entry.name)
            elif entry.status == "online":  # one that is starting has not said yet whom it allows
                denied.append(entry.name)
    return allowed, denied


def publish_to(
    entries: Iterable[Entry], topic: str, publisher: str, send: Send, timeout_seconds: float, *, waits: bool
) -> Published:
    """Send to all; who is full comes last, and is left out unless ``waits``."""
    deadline = monotonic() + timeout_seconds
    allowed, denied = subscribers(entries, topic, publisher)
    failed = dict.fromkeys(denied, AccessDeniedError.code)
    delivered: list[str] = []
    full: list[str] = []

    def try_to_send(name: str, until: float) -> None:
        try:
            send(name, until)
        except InboxFullError:
            full.append(name)
        except SpeedError as error:
            failed[name] = error.code
            log.warning("an event of %s did not reach %s: %s", topic, name, error)
        else:
            delivered.append(name)

    for name in allowed:
        try_to_send(name, monotonic())
    if waits:
        retried, full = full, []
        for name in retried:
            try_to_send(name, deadline)
    for name in full:
        failed[name] = InboxFullError.code
        log.warning("an event of %s did not reach %s: its inbox is full", topic, name)
    return Published(delivered, failed)


def described(options: Mapping[str, Any], name: str, namespace: str) -> dict[str, Any]:
    """The arguments of ``encode_message``, with a new ``message_id``; ConfigurationError for no message option."""
    with lazily.guard:
        from speed.message.writing import new_message_id  # imported by those who send only

    unknown = options.keys() - MESSAGE_OPTIONS
    if unknown:
        raise ConfigurationError(
            f"no such message option: {', '.join(sorted(unknown))}; there are {sorted(MESSAGE_OPTIONS)}"
        )
    now = unix_ms()
    return {
        "topic": "message",
        "namespace": namespace,
        "message_id": new_message_id(now, random_bytes(16)),
        "published_at_ms": now,
        "publisher_id": name,
        **options,
        "traceparent": options["traceparent"] if "traceparent" in options else current_trace(),
    }
