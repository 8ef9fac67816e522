"""What a message says, read once for many: most differ from those before in id, time and payload only.

What M-4 and M-5 refuse was refused when they came; it is not looked for again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from speed.errors import WireError
from speed.wire.content import PROTOBUF, content_encoding_text, content_type_text
from speed.wire.message.maps import LABELS, text_map
from speed.wire.message.view import DEFAULT_PRIORITY, parse_records
from speed.wire.traceparent import are_trace_ids

VALUE_TAG = 0x12
"""What stands between the two lengths of a payload."""


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


def parse_message(message: bytes) -> Parsed:
    """One message. WireError(BAD_MESSAGE) for bytes that are no message, or one that lacks a part."""
    envelope = parse_records(message)
    metadata = envelope.metadata
    if not metadata.message_id or metadata.published_at_ms <= 0 or not envelope.HasField("payload"):
        raise WireError("BAD_MESSAGE", "metadata or payload: is required")
    return Parsed(
        _head(message, envelope), metadata.message_id.encode(), metadata.published_at_ms, envelope.payload.value
    )


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
