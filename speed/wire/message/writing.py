"""Messages as they are written: the records of the head, then the payload, whose bytes are copied once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from speed.errors import WireError
from speed.wire import lazily
from speed.wire.content import CUSTOM, ENCODING_NUMBERS, Content, encode_content
from speed.wire.message.rules import check_metadata
from speed.wire.records import varint
from speed.wire.traceparent import TraceParent, are_trace_ids, parse_traceparent

PAYLOAD_TAG = b"\x9a\x06"
_URL_TAG, _VALUE_TAG = b"\x0a", b"\x12"
"""Unix ms of 1971: varints of the times since then have one length."""


def encode_message(payload: Any, *, content_type: str | None = None, **metadata: Any) -> bytes:
    """The bytes of one message; ``metadata`` as of ``encode_head``. ``content_type`` is inferred unless given (M-8).

    A ``payload`` that is a Content is written as it is. Raises what ``encode_head`` raises, UnserialisableError for the
    payload.
    """
    content = payload if type(payload) is Content else encode_content(payload, content_type)
    head = encode_head(content, **metadata)
    frame = frame_of(len(content.data), content.type_url or "")
    return b"".join((head, frame, content.data))  # the one copy of the payload's bytes


def encode_head(
    content: Content,
    *,
    topic: str,
    namespace: str,
    message_id: str,
    published_at_ms: int,
    priority: int | None = None,
    ttl_seconds: int | None = None,
    correlation_id: str | None = None,
    causality_parent: str | None = None,
    traceparent: str | None = None,
    parent_span_id: str | None = None,
    publisher_id: str | None = None,
    labels: Mapping[str, str] | None = None,
    baggage: Mapping[str, str] | None = None,
    extensions: Mapping[str, bytes] | None = None,
    security: bytes | None = None,
    schema: Mapping[str, Any] | None = None,
    content_encoding: str | None = None,
    uncompressed_bytes: int | None = None,
) -> bytes:
    """What stands before the payload's record; times in Unix ms.

    ``security`` is a serialized SecurityContext, to which ``publisher_id`` is added; ``schema`` maps fields of M-29 to
    values. Raises WireError(BAD_MESSAGE) naming the field that breaks a rule.
    """
    head = lazily.load("speed.wire.message.message_pb2").MessageEnvelope()
    _assign(
        head.metadata,
        (
            ("message_id", message_id),
            ("topic", topic),
            ("namespace", namespace),
            ("published_at_ms", published_at_ms),
            ("content_type", content.number),
            ("content_type_custom", content.custom),
            ("priority", priority),
            ("ttl_seconds", ttl_seconds),
            ("correlation_id", correlation_id),
            ("causality_parent", causality_parent),
            *_encoding(content_encoding),
            ("uncompressed_bytes", uncompressed_bytes),
        ),
    )
    check_metadata(head.metadata)
    if security:
        head.security.MergeFromString(security)
    if publisher_id is not None:
        _assign(head.security, (("publisher_id", publisher_id),))
    if traceparent is not None:
        _set_trace(head.observability, parse_traceparent(traceparent), parent_span_id)
    if labels or baggage:
        _update(head.observability.labels, "labels", labels)
        _update(head.observability.baggage, "baggage", baggage)
    if schema:
        _set_schema(head.schema, schema)
    _update(head.extensions, "extensions", extensions)
    encoded: bytes = head.SerializeToString()
    return encoded


def frame_of(size: int, type_url: str = "") -> bytes:
    """What stands before a payload of ``size`` bytes."""
    fields = _VALUE_TAG + varint(size)
    if type_url:
        url = type_url.encode()
        fields = _URL_TAG + varint(len(url)) + url + fields
    return PAYLOAD_TAG + varint(len(fields) + size) + fields


def _assign(message: Any, fields: tuple[tuple[str, Any], ...]) -> None:
    name = ""
    try:
        for name, value in fields:
            if value is not None:
                setattr(message, name, value)
    except (TypeError, ValueError) as error:
        raise WireError("BAD_MESSAGE", f"{name}: {error}") from error


def _update(target: Any, name: str, items: Mapping[str, Any] | None) -> None:
    if items:
        try:
            for key, value in items.items():
                target[key] = value
        except (TypeError, ValueError) as error:
            raise WireError("BAD_MESSAGE", f"{name}: {error}") from error


def _encoding(name: str | None) -> tuple[tuple[str, Any], ...]:
    """The metadata fields that say an encoding (M-9)."""
    if name is None or name == "none":
        return ()
    number = ENCODING_NUMBERS.get(name)
    if number is not None:
        return (("content_encoding", number),)
    return (("content_encoding", CUSTOM), ("content_encoding_custom", name))


def _set_schema(context: Any, fields: Mapping[str, Any]) -> None:
    """The fields of M-29; ``deprecated_fields_used`` is a list of texts."""
    plain = {name: value for name, value in fields.items() if name != "deprecated_fields_used"}
    unknown = plain.keys() - context.DESCRIPTOR.fields_by_name.keys()
    if unknown:
        raise WireError("BAD_MESSAGE", f"schema: has no field {min(unknown)!r}")
    _assign(context, tuple(plain.items()))
    context.deprecated_fields_used.extend(fields.get("deprecated_fields_used", ()))


def _set_trace(context: Any, trace: TraceParent, parent_span_id: str | None) -> None:
    context.trace_id, context.span_id, context.trace_flags = trace
    if parent_span_id is None:
        return
    if not are_trace_ids(trace.trace_id, parent_span_id):
        raise WireError("BAD_MESSAGE", "parent_span_id: is not 16 lower-case hex digits, or all zero")
    context.parent_span_id = parent_span_id
