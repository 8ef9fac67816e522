"""The payload of MESSAGE and EVENT, made in one pass: its bytes are copied once (registry_spec/messages.md, M-n)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from speed.wire.content import Content, encode_content
from speed.wire.message_frame import frame_of
from speed.wire.message_head import encode_head


def encode_message(
    payload: Any,
    *,
    topic: str,
    namespace: str,
    message_id: str,
    published_at_ms: int,
    content_type: str | None = None,
    priority: int | None = None,
    ttl_seconds: int | None = None,
    correlation_id: str | None = None,
    causality_parent: str | None = None,
    traceparent: str | None = None,
    publisher_id: str | None = None,
    labels: Mapping[str, str] | None = None,
    baggage: Mapping[str, str] | None = None,
    extensions: Mapping[str, bytes] | None = None,
    security: bytes | None = None,
    schema: Mapping[str, Any] | None = None,
    content_encoding: str | None = None,
    uncompressed_bytes: int | None = None,
) -> bytes:
    """The bytes of one message; times in Unix ms. ``content_type`` is inferred unless given (M-8).

    A ``payload`` that is a Content is written as it is. ``security`` is a serialized SecurityContext, to which
    ``publisher_id`` is added; ``schema`` maps fields of M-29 to values.

    Raises WireError(BAD_MESSAGE) naming the field that breaks a rule, UnserialisableError for the payload.
    """
    content = payload if type(payload) is Content else encode_content(payload, content_type)
    head = encode_head(
        content,
        topic=topic,
        namespace=namespace,
        message_id=message_id,
        published_at_ms=published_at_ms,
        priority=priority,
        ttl_seconds=ttl_seconds,
        publisher_id=publisher_id,
        correlation_id=correlation_id,
        causality_parent=causality_parent,
        traceparent=traceparent,
        labels=labels,
        baggage=baggage,
        extensions=extensions,
        security=security,
        schema=schema,
        content_encoding=content_encoding,
        uncompressed_bytes=uncompressed_bytes,
    )
    frame = frame_of(len(content.data), content.type_url or "")
    return b"".join((head, frame, content.data))  # the one copy of the payload's bytes
