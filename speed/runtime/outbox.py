"""Outgoing messages and events: their envelopes, with ids, times and the trace at hand, and their way (M-2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any

from speed.core.access import granted
from speed.errors import ConfigurationError, UnknownNodeError
from speed.runtime.calls import Calls
from speed.runtime.context import Context, unix_ms
from speed.runtime.links import Links
from speed.runtime.message import FRONT_ROOM
from speed.runtime.options import MESSAGE_OPTIONS, WRITE_MESSAGES
from speed.runtime.published import Published, Sent
from speed.runtime.publishing import publish_to
from speed.runtime.tracing import current_trace
from speed.runtime.workers import place_given_up
from speed.wire import names
from speed.wire.entry import Entry
from speed.wire.envelope import EnvelopeType
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.seal import random_bytes

if TYPE_CHECKING:
    from speed.runtime.large_sender import LargeSender, Progress
    from speed.segment.source import Source

WRITE_BYTES = 64 << 10
"""What goes in one write at most; a large message goes alone."""


class Outbox:
    """Sends messages and publishes events for one node. Thread-safe."""

    def __init__(self, context: Context, links: Links, calls: Calls) -> None:
        self._context = context
        self._links = links
        self._calls = calls

    def send(
        self,
        target: str,
        payload: Any,
        acknowledged: bool,
        timeout_seconds: float,
        options: Any,
        unordered: bool = False,
    ) -> Sent:
        """Send one message, and with ``acknowledged`` wait for its acknowledgement; returns the message id."""
        message_id, encoded = self._encode(payload, {"topic": "message", **options})
        waiting = False
        if len(encoded) > MAX_PAYLOAD_BYTES or (unordered and self._links.is_cut(target)):
            waiting = self._send_large(target, _memory(encoded), acknowledged, timeout_seconds, None, unordered)
        elif acknowledged:
            waiting = self._calls.send_acknowledged(target, EnvelopeType.MESSAGE, encoded, timeout_seconds)
        else:
            deadline = monotonic() + timeout_seconds
            self._links.granted(target, deadline).send(EnvelopeType.MESSAGE, 0, encoded, deadline)
        return Sent(message_id, waiting=waiting)

    def send_large(
        self,
        target: str,
        payload: Any,
        acknowledged: bool,
        timeout_seconds: float,
        options: Any,
        progress: Progress | None,
        unordered: bool = False,
    ) -> Sent:
        """Send one message whose payload is a file or large bytes, in segments if need be; returns its id."""
        from speed.runtime.large_payload import Behind, source_of
        from speed.wire.message.large import large_front

        source = source_of(payload)
        if source.size <= MAX_PAYLOAD_BYTES - FRONT_ROOM:  # one envelope holds it
            whole = bytes(source.read(0, source.size))
            sent = self.send(target, whole, acknowledged, timeout_seconds, options, unordered)
            if progress is not None:
                progress(source.size, source.size)
            return sent
        message_id, metadata = self._metadata({"topic": "message", **options})
        source = Behind(large_front(source.size, **metadata), source)
        waiting = self._send_large(target, source, acknowledged, timeout_seconds, progress, unordered)
        return Sent(message_id, waiting=waiting)

    def _send_large(
        self,
        target: str,
        source: Source,
        acknowledged: bool,
        timeout_seconds: float,
        progress: Progress | None,
        unordered: bool,
    ) -> bool:
        """Whether it was acknowledged as one that waits there."""
        if acknowledged:
            return self._large.send_acknowledged(
                target, EnvelopeType.MESSAGE, source, timeout_seconds, progress, unordered
            )
        self._large.send(target, EnvelopeType.MESSAGE, source, timeout_seconds, progress, unordered)
        return False

    @cached_property
    def _large(self) -> LargeSender:
        from speed.runtime.large_sender import LargeSender

        return LargeSender(self._context, self._links)

    def send_all(self, target: str, payloads: Iterable[Any], timeout_seconds: float, options: Any) -> None:
        """Send messages in order, some in one write."""
        encoded = (self._encode(payload, {"topic": "message", **options})[1] for payload in payloads)
        self._send_batches(target, EnvelopeType.MESSAGE, encoded, monotonic() + timeout_seconds)

    def forward(
        self, target: str, messages: Sequence[bytes], event: bool, acknowledged: bool, timeout_seconds: float
    ) -> None:
        """Send messages that are encoded already; with ``acknowledged`` wait until the last one is."""
        type_ = EnvelopeType.EVENT if event else EnvelopeType.MESSAGE
        deadline = monotonic() + timeout_seconds
        self._send_batches(target, type_, messages[:-1] if acknowledged else messages, deadline)
        if acknowledged and messages:
            left = max(0.0, deadline - monotonic())
            self._calls.send_acknowledged(target, type_, messages[-1], left)

    def _send_batches(self, target: str, type_: int, messages: Iterable[bytes], deadline: float) -> None:
        batch: list[bytes] = []
        size = 0
        for encoded in messages:
            if batch and size + len(encoded) >= WRITE_BYTES:
                self._links.granted(target, deadline).send_all(type_, 0, batch, deadline)
                batch, size = [], 0
            batch.append(encoded)
            size += len(encoded)
            if len(batch) == WRITE_MESSAGES:  # now: the next one may not be encodable
                self._links.granted(target, deadline).send_all(type_, 0, batch, deadline)
                batch, size = [], 0
        if batch:
            self._links.granted(target, deadline).send_all(type_, 0, batch, deadline)

    def publish(self, topic: str, payload: Any, timeout_seconds: float, on_full: str, options: Any) -> Published:
        """Send an event to all who subscribe to it and allow this node."""
        names.check_topic(topic)
        _, encoded = self._encode(payload, {"topic": topic, **options})

        def send(name: str, deadline: float) -> None:
            if len(encoded) > MAX_PAYLOAD_BYTES:
                self._large.send(name, EnvelopeType.EVENT, _memory(encoded), max(0.0, deadline - monotonic()))
            else:
                self._links.granted(name).send(EnvelopeType.EVENT, 0, encoded, deadline)

        entries, me = self._context.registry.live_entries(), self._context.name
        published = publish_to(entries, topic, me, send, timeout_seconds, waits=on_full == "wait")
        if published.failed:
            self._context.stats.count("events_undelivered", len(published.failed))
        return published

    def _encode(self, payload: Any, metadata: dict[str, Any]) -> tuple[str, bytes]:
        """The id and the bytes of one message; ConfigurationError for metadata that does not exist."""
        from speed.wire.message import encode_message  # imported by those who send only

        message_id, metadata = self._metadata(metadata)
        return message_id, encode_message(payload, **metadata)

    def _metadata(self, metadata: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """A new id, and all metadata with it."""
        from speed.wire.message import new_message_id

        unknown = metadata.keys() - MESSAGE_OPTIONS
        if unknown:
            raise ConfigurationError(
                f"no such message option: {', '.join(sorted(unknown))}; there are {sorted(MESSAGE_OPTIONS)}"
            )
        now = unix_ms()
        message_id = new_message_id(now, random_bytes(16))
        metadata.setdefault("traceparent", current_trace())
        return message_id, {
            "namespace": self._context.namespace,
            "message_id": message_id,
            "published_at_ms": now,
            "publisher_id": self._context.name,
            **metadata,
        }


def _memory(payload: bytes) -> Source:
    from speed.segment.source import Memory

    return Memory(payload)


def wait_for(context: Context, target: str, timeout_seconds: float) -> Entry:
    """Wait until ``target`` is live and allows this node. UnknownNodeError in the end; StorageError without a root."""
    with place_given_up():
        return _wait_for(context, target, timeout_seconds)


def _wait_for(context: Context, target: str, timeout_seconds: float) -> Entry:
    deadline = monotonic() + timeout_seconds
    while True:
        entry = context.registry.live(target)
        if entry is not None and entry.status == "online" and granted(entry.allow, context.name):
            return entry
        if monotonic() >= deadline or context.stopping.wait(0.01):
            break
    context.registry.check_there()
    why = _why_not(context, entry)
    raise UnknownNodeError(f"{target!r} {why} after {timeout_seconds} s")


def _why_not(context: Context, entry: Entry | None) -> str:
    if entry is None:
        return "is not live"
    if entry.status == "starting":
        return "is still starting"
    return "is leaving" if entry.status == "leaving" else f"does not allow {context.name!r}"
