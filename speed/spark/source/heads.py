"""What a message says, read once for many: most differ from those before in id, time and payload only.

What M-4 and M-5 refuse was refused when they came; it is not looked for again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from speed.errors import WireError
from speed.wire.content import PROTOBUF, content_encoding_text, content_type_text
from speed.wire.message.maps import LABELS, text_map
from speed.wire.message.view import DEFAULT_PRIORITY, parse_records
from speed.wire.records import LENGTH_DELIMITED, VARINT, walk
from speed.wire.traceparent import are_trace_ids

_METADATA, _PAYLOAD, _MESSAGE_ID, _PUBLISHED_AT = 1, 99, 1, 4
_PAYLOAD_TAG = b"\x9a\x06"
VALUE_TAG = 0x12
"""What stands between the two lengths of a payload."""
_MAX_HEAD_BYTES = 1024
_MAX_TIME_BYTES = 9
"""So that a time fits into 63 bits."""


class Head(NamedTuple):
    """What a message says beside id, time and payload."""

    topic: str
    content_type: str
    content_encoding: str
    uncompressed_bytes: int
    priority: int
    ttl_seconds: int | None
    correlation_id: str | None
    causality_parent: str | None
    trace_id: str | None
    labels: tuple[tuple[str, str], ...]
    is_encrypted: bool
    type_url: str
    schema_name: str = ""
    schema_version: str = ""
    schema_hash: str = ""

    def is_common(self) -> bool:
        """Whether other messages are likely to say the same."""
        return (self.correlation_id, self.causality_parent, self.trace_id) == (None, None, None) and not self.type_url


class Parsed(NamedTuple):
    """One message; the payload as it travelled."""

    head: Head
    message_id: bytes
    published_at_ms: int
    payload: bytes


class Shape(NamedTuple):
    """How the messages of a head lie: ``before`` id ``between`` time ``after``; then come the payload's two lengths.

    ``after`` ends with the payload's tag, which ends at ``end``.
    """

    head: Head
    before: bytes
    id_start: int
    id_end: int
    between: bytes
    time_start: int
    time_end: int
    after: bytes
    end: int


def parse_message(message: bytes) -> Parsed:
    """One message. WireError(BAD_MESSAGE) for bytes that are no message, or one that lacks a part."""
    envelope = parse_records(message)
    metadata = envelope.metadata
    if not metadata.message_id or metadata.published_at_ms <= 0 or not envelope.HasField("payload"):
        raise WireError("BAD_MESSAGE", "metadata or payload: is required")
    return Parsed(
        _head(message, envelope), metadata.message_id.encode(), metadata.published_at_ms, envelope.payload.value
    )


def shape_of(message: bytes, head: Head) -> Shape | None:
    """How a message lies, if others may say the same and it looks as writers write it: parts once, the payload last."""
    if not head.is_common():
        return None
    records = _places(message, 0, len(message))
    parts = _places(message, *records[_METADATA][2:]) if _METADATA in records else {}
    if not {_MESSAGE_ID, _PUBLISHED_AT} <= parts.keys() or _PAYLOAD not in records:
        return None
    id_kind, _, id_start, id_end = parts[_MESSAGE_ID]
    time_kind, _, time_start, time_end = parts[_PUBLISHED_AT]
    tag = records[_PAYLOAD][1]
    end = tag + len(_PAYLOAD_TAG)
    is_usual = (id_kind, time_kind, message[tag:end]) == (LENGTH_DELIMITED, VARINT, _PAYLOAD_TAG)
    is_last = records[_PAYLOAD][3] == len(message)
    if not (is_usual and is_last and id_end < time_start < tag):
        return None
    if end > _MAX_HEAD_BYTES or time_end - time_start > _MAX_TIME_BYTES:
        return None
    before, between, after = message[:id_start], message[id_end:time_start], message[time_end:end]
    return Shape(head, before, id_start, id_end, between, time_start, time_end, after, end)


def _head(message: bytes, envelope: Any) -> Head:
    metadata, trace, schema = envelope.metadata, envelope.observability, envelope.schema
    has = metadata.HasField
    return Head(
        topic=metadata.topic,
        content_type=content_type_text(metadata.content_type, metadata.content_type_custom),
        content_encoding=content_encoding_text(metadata.content_encoding, metadata.content_encoding_custom),
        uncompressed_bytes=metadata.uncompressed_bytes,
        priority=metadata.priority or DEFAULT_PRIORITY,
        ttl_seconds=metadata.ttl_seconds or None,
        correlation_id=metadata.correlation_id if has("correlation_id") else None,
        causality_parent=metadata.causality_parent if has("causality_parent") else None,
        trace_id=trace.trace_id if are_trace_ids(trace.trace_id, trace.span_id) else None,
        labels=tuple(text_map(message, LABELS).items()) if envelope.HasField("observability") else (),
        is_encrypted=envelope.HasField("security") and envelope.security.HasField("encryption"),
        type_url=envelope.payload.type_url if metadata.content_type == PROTOBUF else "",
        schema_name=schema.schema_name,
        schema_version=schema.schema_version,
        schema_hash=schema.schema_hash,
    )


def _places(message: bytes, begin: int, end: int) -> dict[int, tuple[int, int, int, int]]:
    """(wire type, start, start of the value, end) of each record by its field; nothing if one comes twice."""
    found: dict[int, tuple[int, int, int, int]] = {}
    for field, kind, start, value, stop in walk(message[begin:end]):
        if field in found:
            return {}
        found[field] = kind, begin + start, begin + value, begin + stop
    return found
