"""Outgoing messages and events: their envelopes, with ids, times and the trace at hand, and their way (M-2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any

from speed.core import counters
from speed.core.access import granted
from speed.engine.message import FRONT_ROOM, Published, Sent, described, is_large, publish_to
from speed.engine.options import WRITE_MESSAGES, SendRequest
from speed.engine.python.calls import Calls
from speed.engine.python.context import Context
from speed.engine.python.links import Links
from speed.engine.workers import place_given_up
from speed.errors import UnknownNodeError
from speed.wire import names
from speed.wire.entry import Entry
from speed.wire.envelope import EnvelopeType
from speed.wire.limits import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from speed.engine.python.segments import LargeSender, Progress
    from speed.segment.form import ByteSource

WRITE_BYTES = 64 << 10
"""What goes in one write at most; a large message goes alone."""


class Outbox:
    """Sends messages and publishes events for one node. Thread-safe."""

    def __init__(self, context: Context, links: Links, calls: Calls) -> None:
        self._context = context
        self._links = links
        self._calls = calls

    def send(self, request: SendRequest) -> Sent:
        """Send one message, in segments where it is large, and wait for an acknowledgement that was asked for."""
        self._context.check_open()
        return self._send_file(request) if is_large(request.payload) else self._send(request)

    def _send(self, request: SendRequest) -> Sent:
        target, payload, acknowledged, timeout_seconds, metadata, _, unordered = request
        message_id, encoded = self._encode(payload, metadata)
        waiting = False
        if len(encoded) > MAX_PAYLOAD_BYTES or (unordered and self._links.is_cut(target)):
            waiting = self._send_large(target, _memory(encoded), acknowledged, timeout_seconds, None, unordered)
        elif acknowledged:
            waiting = self._calls.send_acknowledged(target, EnvelopeType.MESSAGE, encoded, timeout_seconds)
        else:
            deadline = monotonic() + timeout_seconds
            self._links.granted(target, deadline).send(EnvelopeType.MESSAGE, 0, encoded, deadline)
        return Sent(message_id, waiting=waiting)

    def _send_file(self, request: SendRequest) -> Sent:
        """A file or large bytes, in segments if need be."""
        from speed.engine.large_payload import PrefixedSource, large_front, source_of

        target, payload, acknowledged, timeout_seconds, metadata, progress, unordered = request
        source = source_of(payload)
        if source.size <= MAX_PAYLOAD_BYTES - FRONT_ROOM:  # one envelope holds it
            whole = bytes(source.read(0, source.size))
            sent = self._send(request._replace(payload=whole))
            if progress is not None:
                progress(source.size, source.size)
            return sent
        message_id, metadata = self._metadata(metadata)
        source = PrefixedSource(large_front(source.size, **metadata), source)
        waiting = self._send_large(target, source, acknowledged, timeout_seconds, progress, unordered)
        return Sent(message_id, waiting=waiting)

    def _send_large(
        self,
        target: str,
        source: ByteSource,
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
        from speed.engine.python.segments import LargeSender  # few nodes send what no envelope holds

        return LargeSender(self._context, self._links)

    def send_all(self, target: str, payloads: Iterable[Any], timeout: float, options: dict[str, Any]) -> None:
        """Send messages in order, some in one write."""
        self._context.check_open()
        encoded = (self._encode(payload, options)[1] for payload in payloads)
        self._send_batches(target, EnvelopeType.MESSAGE, encoded, monotonic() + timeout)

    def forward(self, target: str, messages: Sequence[bytes], event: bool, ack: bool, timeout: float) -> None:
        """Send messages that are encoded already; with ``ack`` wait until the last one is acknowledged."""
        self._context.check_open()
        type_ = EnvelopeType.EVENT if event else EnvelopeType.MESSAGE
        deadline = monotonic() + timeout
        self._send_batches(target, type_, messages[:-1] if ack else messages, deadline)
        if ack and messages:
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

    def publish(self, topic: str, payload: Any, timeout: float, on_full: str, options: dict[str, Any]) -> Published:
        """Send an event to all who subscribe to it and allow this node."""
        self._context.check_open()
        names.check_topic(topic)
        _, encoded = self._encode(payload, {**options, "topic": topic})

        def send(name: str, deadline: float) -> None:
            if len(encoded) > MAX_PAYLOAD_BYTES:
                self._large.send(name, EnvelopeType.EVENT, _memory(encoded), max(0.0, deadline - monotonic()))
            else:
                self._links.granted(name).send(EnvelopeType.EVENT, 0, encoded, deadline)

        entries, me = self._context.registry.live_entries(), self._context.name
        published = publish_to(entries, topic, me, send, timeout, waits=on_full == "wait")
        if published.failed:
            self._context.stats.count(counters.EVENTS_UNDELIVERED, len(published.failed))
        return published

    def _encode(self, payload: Any, metadata: dict[str, Any]) -> tuple[str, bytes]:
        """The id and the bytes of one message; ConfigurationError for metadata that does not exist."""
        from speed.message.writing import encode_message  # imported by those who send only

        message_id, metadata = self._metadata(metadata)
        return message_id, encode_message(payload, **metadata)

    def _metadata(self, metadata: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """A new id, and all metadata with it."""
        complete = described(metadata, self._context.name, self._context.namespace)
        return complete["message_id"], complete


def _memory(payload: bytes) -> ByteSource:
    from speed.segment.form import Memory

    return Memory(payload)


def wait_for(context: Context, target: str, timeout_seconds: float) -> Entry:
    """Wait until ``target`` is live and allows this node. UnknownNodeError in the end; StorageError without a root."""
    with place_given_up():
        return _wait_for(context, target, timeout_seconds)


def _wait_for(context: Context, target: str, timeout_seconds: float) -> Entry:
    deadline = monotonic() + timeout_seconds
    while True:
        entry = context.registry.live(target)
        if entry is not None and entry.status == "online" and granted(entry, context.name):
            return entry
        if monotonic() >= deadline or context.stopping.wait(0.01):
            break
    context.registry.check_readable(target)
    why = _why_not(context, entry)
    raise UnknownNodeError(f"{target!r} {why} after {timeout_seconds} s")


def _why_not(context: Context, entry: Entry | None) -> str:
    if entry is None:
        return "is not live"
    if entry.status == "starting":
        return "is still starting"
    return "is leaving" if entry.status == "leaving" else f"does not allow {context.name!r}"
