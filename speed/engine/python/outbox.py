"""Outgoing messages and events (M-2), also in segments where no envelope holds them (G-18 to G-20)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from time import monotonic
from typing import Any

from speed.core.access import granted
from speed.engine.futures import OneAnswer, Waiter
from speed.engine.message import FRONT_ROOM, Published, Sent, described, is_large, publish_to
from speed.engine.options import WRITE_MESSAGES, SendRequest
from speed.engine.python.calls import Calls
from speed.engine.python.context import Context
from speed.engine.python.links import Links
from speed.engine.python.outgoing import OutgoingLink
from speed.engine.workers import place_given_up
from speed.errors import ConfigurationError, UnknownNodeError
from speed.segment.form import MAX_HEAD_BYTES, ByteSource, Segment, write_segment
from speed.segment.splitter import Splitter, splitter_for
from speed.wire import names
from speed.wire.entry import Entry
from speed.wire.envelope import FLAG_ACK_REQUESTED, FLAG_SEGMENT, EnvelopeType
from speed.wire.limits import MAX_PAYLOAD_BYTES, MAX_SEGMENTED_BYTES, RECONSTRUCTION_SECONDS

# Payloads that go out in segments because no envelope holds them: streamed, acknowledged once (G-18 to G-20).

Progress = Callable[[int, int], object]
"""Called with the bytes of the payload that were written so far, and all of them."""


class LargeSender:
    """Sends payloads in segments. Thread-safe."""

    def __init__(self, context: Context, links: Links) -> None:
        self._context, self._links = context, links

    def send(
        self,
        target: str,
        type_: int,
        source: ByteSource,
        timeout_seconds: float,
        progress: Progress | None = None,
        unordered: bool = False,
    ) -> None:
        """Send one payload; each segment waits for room as long as ``timeout_seconds``."""
        link = self._links.granted(target, monotonic() + timeout_seconds)
        for segment in self._segments(link, source, unordered):
            link.send(type_, FLAG_SEGMENT, write_segment(segment), monotonic() + timeout_seconds)
            _report(progress, segment, source)

    def send_acknowledged(
        self,
        target: str,
        type_: int,
        source: ByteSource,
        timeout_seconds: float,
        progress: Progress | None = None,
        unordered: bool = False,
    ) -> bool:
        """As ``send``, then wait for the acknowledgement, as long as ``timeout_seconds`` from the last segment on."""
        link = self._links.granted(target, monotonic() + timeout_seconds)
        waiter = Waiter()
        answer = OneAnswer(waiter.complete)
        flags = FLAG_SEGMENT | FLAG_ACK_REQUESTED
        tracked: list[int] = []

        def track(sequence: int) -> None:
            tracked.append(sequence)
            far = monotonic() + RECONSTRUCTION_SECONDS
            self._context.pending.add(sequence, far, target, answer)

        try:
            for segment in self._segments(link, source, unordered):
                if waiter.done:
                    break  # the receiver has given it up
                link.send_tracked(type_, flags, write_segment(segment), monotonic() + timeout_seconds, track)
                _report(progress, segment, source)
            deadline = monotonic() + timeout_seconds
            for sequence in tracked:
                if not answer.given:
                    self._context.pending.add(sequence, deadline, target, answer)
            self._context.waker.wake_by(deadline)
            return bool(waiter.result())
        finally:
            for sequence in tracked:
                self._context.pending.forget(target, sequence)

    def _segments(self, link: OutgoingLink, source: ByteSource, unordered: bool) -> Iterator[Segment]:
        link.check_takes(source.size, MAX_SEGMENTED_BYTES)
        return (link.splitter or splitter_for(source.size)).split(source, unordered=unordered)


def link_splitter(segment_size: int, parity_rate: float) -> Splitter:
    """What cuts all that goes out on a link. ConfigurationError for a size that no envelope holds."""
    if segment_size > MAX_PAYLOAD_BYTES - MAX_HEAD_BYTES:
        most = MAX_PAYLOAD_BYTES - MAX_HEAD_BYTES
        raise ConfigurationError(f"segment_size {segment_size} cannot be used: an envelope holds at most {most}")
    return Splitter(segment_size, parity_rate)


def _report(progress: Progress | None, segment: Segment, source: ByteSource) -> None:
    if progress is not None and not segment.is_parity:
        full = len(segment.payload) if not segment.is_last_data else 0
        progress((segment.index + 1) * full or source.size, source.size)


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
            self._context.stats.count("events_undelivered", len(published.failed))
        return published

    def _encode(self, payload: Any, metadata: dict[str, Any]) -> tuple[str, bytes]:
        """The id and the bytes of one message; ConfigurationError for metadata that does not exist."""
        from speed.message.writing import encode_message  # imported by those who send only

        message_id, metadata = self._metadata(metadata)
        return message_id, encode_message(payload, **metadata)

    def _metadata(self, metadata: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """A new id, and all metadata with it."""
        told = described(metadata, self._context.name, self._context.namespace)
        return told["message_id"], told


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
        if entry is not None and entry.status == "online" and granted(entry.allow, context.name):
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
