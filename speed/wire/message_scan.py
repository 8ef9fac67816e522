"""Many messages that a node accepted, read quickly: most differ from those before in id, time and payload only.

What M-4 and M-5 refuse was refused when they came; it is not looked for again. A message whose other bytes are those of
a head that is known is not parsed at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from speed.errors import WireError
from speed.wire.content import PROTOBUF, content_encoding_text, content_type_text
from speed.wire.message import DEFAULT_PRIORITY, parse_records
from speed.wire.records import LENGTH_DELIMITED, VARINT, read_varint, walk
from speed.wire.traceparent import are_trace_ids

_METADATA, _PAYLOAD, _MESSAGE_ID, _PUBLISHED_AT = 1, 99, 1, 4
_PAYLOAD_TAG, _VALUE_TAG = b"\x9a\x06", b"\x12"
_MAX_SHAPES, _MAX_KNOWN = 16, 4096
_MAX_LENGTH_BYTES, _MAX_TIME_BYTES = 5, 10


class Head(NamedTuple):
    """What a message says beside id, time and payload."""

    topic: str
    content_type: str
    content_encoding: str
    priority: int
    ttl_seconds: int | None
    correlation_id: str | None
    causality_parent: str | None
    trace_id: str | None
    labels: tuple[tuple[str, str], ...]
    is_encrypted: bool
    type_url: str

    def is_common(self) -> bool:
        """Whether other messages are likely to say the same."""
        return (self.correlation_id, self.causality_parent, self.trace_id) == (None, None, None) and not self.type_url


class Scanned(NamedTuple):
    """Messages, column by column; payloads as they travelled."""

    heads: list[Head]
    message_ids: list[bytes]
    published_at_ms: list[int]
    payloads: list[bytes]


class _Shape(NamedTuple):
    """The bytes of a head but for id and time, and where they lie in a message; ``end`` is behind the payload's tag."""

    head: Head
    before: bytes
    id_start: int
    id_end: int
    between: bytes
    time_start: int
    time_end: int
    after: bytes
    end: int


_NOTHING = Head("", "", "", 0, None, None, None, None, (), False, "")
_NO_SHAPE = _Shape(_NOTHING, b"\0", 0, 0, b"", 0, 0, b"", 0)
"""Of no message: none begins with a zero byte (M-4)."""
_NO_FRAME = b"\0" * 16
"""Of no payload: a frame begins with a length that is not zero."""


class MessageScan:
    """Reads messages one after the other. Its memory is bounded, whatever they hold. For one thread."""

    def __init__(self) -> None:
        self._shapes: list[_Shape] = []
        self._frames: dict[int, bytes] = {}
        self._times: dict[bytes, int] = {}

    def read(self, messages: Iterable[bytes]) -> Scanned:
        """Their parts. WireError(BAD_MESSAGE) for bytes that are no message, or one that lacks a part."""
        scanned = Scanned([], [], [], [])
        heads, ids, times, payloads = scanned
        frames, known_times = self._frames, self._times
        shape = self._shapes[0] if self._shapes else _NO_SHAPE
        head, before, id_start, id_end, between, time_start, time_end, after, end = shape
        for message in messages:
            starts = message.startswith
            if starts(before) and starts(between, id_end) and starts(after, time_end):
                frame = frames.get(len(message) - end, _NO_FRAME)
                time = known_times.get(message[time_start:time_end], 0)
                message_id = message[id_start:id_end]
                if time and starts(frame, end) and message_id.isascii():
                    heads.append(head)
                    ids.append(message_id)
                    times.append(time)
                    payloads.append(message[end + len(frame) :])
                    continue
            shape = self._read_one(message, shape, scanned)
            head, before, id_start, id_end, between, time_start, time_end, after, end = shape
        return scanned

    def _read_one(self, message: bytes, current: _Shape, scanned: Scanned) -> _Shape:
        """Add one message that is not like those before it; returns the shape that the next one may have."""
        starts = message.startswith
        for shape in self._shapes:
            head, before, id_start, id_end, between, time_start, time_end, after, end = shape
            if starts(before) and starts(between, id_end) and starts(after, time_end):
                message_id = message[id_start:id_end]
                time = self._read_time(message[time_start:time_end])
                start = self._payload_start(message, end)
                if time and start and message_id.isascii():
                    _add(scanned, head, message_id, time, message[start:])
                    return shape
                break
        head, message_id, time, payload = self._parse(message)
        _add(scanned, head, message_id, time, payload)
        return self._shapes[0] if self._shapes and self._shapes[0].head is head else current

    def _read_time(self, data: bytes) -> int:
        """The varint that fills ``data``; 0 for anything else."""
        try:
            value, end = read_varint(data, 0, _MAX_TIME_BYTES)
        except WireError:
            return 0
        if end != len(data) or value >= 1 << 63:
            return 0
        _bound(self._times)
        self._times[data] = value
        return value

    def _payload_start(self, message: bytes, end: int) -> int:
        """Where the payload's bytes begin that fill the message behind ``end``; 0 if they are framed in another way."""
        try:
            size, value = read_varint(message, end, _MAX_LENGTH_BYTES)
            if value + size != len(message) or message[value : value + 1] != _VALUE_TAG:
                return 0
            size, start = read_varint(message, value + 1, _MAX_LENGTH_BYTES)
        except WireError:
            return 0
        if start + size != len(message):
            return 0
        _bound(self._frames)
        self._frames[len(message) - end] = message[end:start]
        return start

    def _parse(self, message: bytes) -> tuple[Head, bytes, int, bytes]:
        envelope = parse_records(message)
        metadata = envelope.metadata
        if not metadata.message_id or metadata.published_at_ms <= 0 or not envelope.HasField("payload"):
            raise WireError("BAD_MESSAGE", "metadata or payload: is required")
        head = _head(envelope)
        if head.is_common():
            self._learn(message, head)
        return head, metadata.message_id.encode(), metadata.published_at_ms, envelope.payload.value

    def _learn(self, message: bytes, head: Head) -> None:
        """Remember how this message looks, if it looks as writers write them: each part once, the payload last."""
        records = _places(message, 0, len(message))
        parts = _places(message, *records[_METADATA][2:]) if _METADATA in records else {}
        if not {_MESSAGE_ID, _PUBLISHED_AT} <= parts.keys() or _PAYLOAD not in records:
            return
        id_kind, _, id_start, id_end = parts[_MESSAGE_ID]
        time_kind, _, time_start, time_end = parts[_PUBLISHED_AT]
        tag = records[_PAYLOAD][1]
        end = tag + len(_PAYLOAD_TAG)
        is_usual = (id_kind, time_kind, message[tag:end]) == (LENGTH_DELIMITED, VARINT, _PAYLOAD_TAG)
        if not is_usual or not id_end < time_start < tag or not self._payload_start(message, end):
            return
        before, between, after = message[:id_start], message[id_end:time_start], message[time_end:end]
        shape = _Shape(head, before, id_start, id_end, between, time_start, time_end, after, end)
        self._shapes = [shape, *(known for known in self._shapes if known != shape)][:_MAX_SHAPES]


def _head(envelope: Any) -> Head:
    metadata, trace = envelope.metadata, envelope.observability
    has = metadata.HasField
    return Head(
        topic=metadata.topic,
        content_type=content_type_text(metadata.content_type, metadata.content_type_custom),
        content_encoding=content_encoding_text(metadata.content_encoding, metadata.content_encoding_custom),
        priority=metadata.priority or DEFAULT_PRIORITY,
        ttl_seconds=metadata.ttl_seconds or None,
        correlation_id=metadata.correlation_id if has("correlation_id") else None,
        causality_parent=metadata.causality_parent if has("causality_parent") else None,
        trace_id=trace.trace_id if are_trace_ids(trace.trace_id, trace.span_id) else None,
        labels=tuple(trace.labels.items()),
        is_encrypted=envelope.HasField("security") and envelope.security.HasField("encryption"),
        type_url=envelope.payload.type_url if metadata.content_type == PROTOBUF else "",
    )


def _add(scanned: Scanned, head: Head, message_id: bytes, published_at_ms: int, payload: bytes) -> None:
    scanned.heads.append(head)
    scanned.message_ids.append(message_id)
    scanned.published_at_ms.append(published_at_ms)
    scanned.payloads.append(payload)


def _places(message: bytes, begin: int, end: int) -> dict[int, tuple[int, int, int, int]]:
    """(wire type, start, start of the value, end) of each record by its field; nothing if one comes twice."""
    found: dict[int, tuple[int, int, int, int]] = {}
    for field, kind, start, value, stop in walk(message[begin:end]):
        if field in found:
            return {}
        found[field] = kind, begin + start, begin + value, begin + stop
    return found


def _bound(known: dict[Any, Any]) -> None:
    if len(known) >= _MAX_KNOWN:
        known.clear()
