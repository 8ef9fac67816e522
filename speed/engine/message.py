"""One message as a handler gets it, what every message says, and what became of one that was published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

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
from speed.wire.names import family_of, matches
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
        sender_identity: the fingerprint that the sender proved; empty where either node has no identity, and of what
            was a dead letter.
    """

    __slots__ = (
        "_after",
        "_finish",
        "_view",
        "deliveries",
        "redelivered",
        "sender_identity",
        "sequence",
        "source",
        "timestamp_ms",
    )

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
        sender_identity: str = "",
    ) -> None:
        self._view = view
        self._finish: Callable[[], None] | None = finish
        self._after: Callable[[], None] | None = None
        self.source = source
        self.sequence = sequence
        self.timestamp_ms = timestamp_ms
        self.redelivered = redelivered
        self.deliveries = deliveries
        self.sender_identity = sender_identity

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
            sender_identity=self.sender_identity,
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


class Subscribers(NamedTuple):
    """Who subscribes to a topic."""

    each: list[str]
    """Nodes that get each event."""
    shared: dict[str, list[str]]
    """Of a family those nodes of which one does (S-42)."""
    denied: list[str]
    """Nodes that do not allow the publisher, unless another one of their family does."""


def subscribers(entries: Iterable[Entry], topic: str, publisher: str) -> Subscribers:
    """Who subscribes to ``topic``, as the entries say."""
    found = Subscribers([], {}, [])
    passed_by: dict[str, str] = {}
    for entry in entries:
        if entry.name == publisher or entry.status == "leaving":
            continue
        covering = [pattern for pattern in entry.subscriptions if matches(pattern, topic)]
        if not covering:
            continue
        family = family_of(entry.name) if all(pattern in entry.shared for pattern in covering) else ""
        if not granted(entry, publisher):
            if entry.status == "online":  # one that is starting has not said yet whom it allows
                passed_by[entry.name] = family
        elif family:
            found.shared.setdefault(family, []).append(entry.name)
        else:
            found.each.append(entry.name)
    found.denied.extend(name for name, family in passed_by.items() if family not in found.shared)
    return found


class Turns:
    """Who of each family got the last event that its nodes share, of one publisher. Thread-safe: steps of a dict."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def order(self, family: str, able: Iterable[str]) -> list[str]:
        """Those of ``able`` behind the last one by name, then the others."""
        last = self._last.get(family, "")
        return sorted(able, key=lambda name: (name <= last, name))

    def took(self, family: str, name: str) -> None:
        if len(self._last) >= _MAX_FAMILIES and family not in self._last:
            self._last.clear()  # they begin anew
        self._last[family] = name


_MAX_FAMILIES = 1024
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.001, 0.05


def publish_to(
    entries: Iterable[Entry],
    topic: str,
    publisher: str,
    send: Send,
    timeout_seconds: float,
    turns: Turns,
    *,
    waits: bool,
) -> Published:
    """Send to all; who is full comes last, and is left out unless ``waits``."""
    found = subscribers(entries, topic, publisher)
    sending = _Sending(topic, send, turns, dict.fromkeys(found.denied, AccessDeniedError.code))
    waiting = [("", [name]) for name in found.each]
    waiting += [(family, turns.order(family, able)) for family, able in found.shared.items()]
    deadline = monotonic() + timeout_seconds
    waiting = [one for one in waiting if not sending.is_settled(*one, monotonic())]
    if waits:
        waiting = [one for one in waiting if not sending.is_settled_by(*one, deadline)]
    for _, names in waiting:
        sending.fail(names, InboxFullError("its inbox is full"))
    return Published(sending.delivered, sending.failed)


class _Sending:
    """One event on its way: who got it, and who did not."""

    def __init__(self, topic: str, send: Send, turns: Turns, failed: dict[str, str]) -> None:
        self._topic, self._send, self._turns = topic, send, turns
        self.delivered: list[str] = []
        self.failed = failed

    def is_settled(self, family: str, able: list[str], until: float) -> bool:
        """Whether one of ``able`` got it, or none can. Who had no room is left in ``able``."""
        errors: dict[str, SpeedError] = {}
        for name in tuple(able):
            try:
                self._send(name, until)
            except InboxFullError:
                continue
            except SpeedError as error:
                errors[name] = error
                able.remove(name)
            else:
                self.delivered.append(name)
                if family:
                    self._turns.took(family, name)
                return True
        if not able:
            for name, why in errors.items():
                self.fail([name], why)
        return not able

    def is_settled_by(self, family: str, able: list[str], deadline: float) -> bool:
        """The same until ``deadline``: of several, whichever has room first gets it."""
        pause = _FIRST_PAUSE_SECONDS
        while len(able) > 1 and (now := monotonic()) + pause < deadline:
            if self.is_settled(family, able, now + pause):
                return True
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return self.is_settled(family, able, deadline)

    def fail(self, names: Iterable[str], error: SpeedError) -> None:
        for name in names:
            self.failed[name] = error.code
            log.warning("an event of %s did not reach %s: %s", self._topic, name, error)


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
