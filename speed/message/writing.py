"""Messages as they are written: the records of the head, then the payload, whose bytes are copied once.

Nothing here parses a record and writes it again: what is kept is kept byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from speed.errors import WireError
from speed.message.view import check_metadata
from speed.wire import lazily
from speed.wire.records import (
    LENGTH_DELIMITED,
    ContentEncoding,
    MessageEnvelope,
    ProtobufAny,
    SecurityContext,
    tag_of,
    varint,
    walk,
)
from speed.wire.text import TraceParent, are_trace_ids, parse_traceparent
from speed.wire.value import ENCODING_NUMBERS, Content, encode_content

# Ids of messages (rule M-13).

_MAX_ROW = 1 << 48


def new_message_id(unix_ms: int, random16: bytes) -> str:
    """A UUIDv7 (RFC 9562, 5.7) of a time in Unix ms and 16 random bytes, of which the last 10 are used."""
    if len(random16) != 16 or not 0 <= unix_ms < 1 << 48:
        raise WireError("BAD_MESSAGE", "message_id: needs 16 random bytes and a time of 48 bits")
    bits = unix_ms << 80 | int.from_bytes(random16[6:], "big")
    bits = bits & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class MessageIds:
    """The ids of the messages that one part of a repeatable work makes: the same again when it is done again (M-13).

    They are UUIDv8: a hash of the work's names, and the number of the message in the last 48 bits.
    """

    def __init__(self, *names: str) -> None:
        digest = bytearray(sha256(b"".join(varint(len(name.encode())) + name.encode() for name in names)).digest()[:10])
        digest[6] = digest[6] & 0x0F | 0x80
        digest[8] = digest[8] & 0x3F | 0x80
        text = digest.hex()
        self._prefix = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-"

    def take(self, first: int, count: int) -> list[bytes]:
        """The ids of the messages from number ``first``."""
        if first + count > _MAX_ROW:
            raise WireError("BAD_MESSAGE", "message_id: one part of a work makes at most 2^48 messages")
        form = (self._prefix + "%012x").encode()
        return [form % number for number in range(first, first + count)]


# Security records of a message, taken apart and put together as raw bytes (rules M-16, M-27).


class SignedParts(NamedTuple):
    """What a signature covers, and the signatures found (M-16 allows one). Nothing outside ``security`` is copied."""

    spans: list[tuple[int, int]]
    """Where the records outside the security context lie."""
    security: bytes
    signatures: tuple[bytes, ...]
    has_token: bool


def signed_parts(data: bytes | memoryview) -> SignedParts:
    """Split a message; raises WireError(BAD_MESSAGE) for what breaks M-4."""
    spans, values = _split(data)
    kept: list[bytes] = []
    signatures: list[bytes] = []
    has_token = False
    for field, wire_type, start, value, end in walk(values):
        if wire_type == LENGTH_DELIMITED and field == SecurityContext.SIGNATURE:
            signatures.append(values[value:end])
        elif wire_type == LENGTH_DELIMITED and field == SecurityContext.AUTH_TOKEN:
            has_token = True
        else:
            kept.append(values[start:end])
    return SignedParts(spans, b"".join(kept), tuple(signatures), has_token)


def with_signature(data: bytes, signature: bytes) -> bytes:
    """The message with ``signature`` as the last record of its security context, which replaces any other."""
    spans, values = _split(data)
    return _put(
        data, spans, _without(values, SecurityContext.SIGNATURE) + _record(SecurityContext.SIGNATURE, signature)
    )


def with_security(data: bytes, more: bytes) -> bytes:
    """The message with the records of ``more`` added to its security context; of equal fields the later counts."""
    spans, values = _split(data)
    return _put(data, spans, values + more)


def without_token(data: bytes) -> bytes:
    """The message without any ``auth_token``; without a copy if there is none."""
    spans, values = _split(data)
    kept = _without(values, SecurityContext.AUTH_TOKEN)
    return data if kept == values else _put(data, spans, kept)


def has_token(data: bytes | memoryview) -> bool:
    """Whether an ``auth_token`` is in the security context; WireError(BAD_MESSAGE) for what cannot be read."""
    return any(
        field == MessageEnvelope.SECURITY and wire_type == LENGTH_DELIMITED and _holds_token(data[value:end])
        for field, wire_type, _, value, end in walk(data)
    )


def _holds_token(context: bytes | memoryview) -> bool:
    return any(
        field == SecurityContext.AUTH_TOKEN and wire_type == LENGTH_DELIMITED for field, wire_type, *_ in walk(context)
    )


def _split(data: bytes | memoryview) -> tuple[list[tuple[int, int]], bytes]:
    """Spans of the records outside the security context, neighbours joined, and that context's records."""
    spans: list[tuple[int, int]] = []
    values: list[bytes] = []
    for field, wire_type, start, value, end in walk(data):
        if field == MessageEnvelope.SECURITY and wire_type == LENGTH_DELIMITED:
            values.append(bytes(data[value:end]))
        elif spans and spans[-1][1] == start:
            spans[-1] = spans[-1][0], end
        else:
            spans.append((start, end))
    return spans, b"".join(values)


def _put(data: bytes, spans: list[tuple[int, int]], security: bytes) -> bytes:
    """The records in ``spans`` with one security record after the metadata, where a writer has it (M-2)."""
    record = _record(MessageEnvelope.SECURITY, security) if security else b""
    start, stop = spans[0] if spans else (0, 0)
    first = next(walk(data[start:stop]), None)
    place = start + first[4] if first is not None and first[0] == MessageEnvelope.METADATA else start
    parts = [data[start:place], record, data[place:stop]]
    return b"".join(parts + [data[begin:finish] for begin, finish in spans[1:]])


def _without(values: bytes, unwanted: int) -> bytes:
    return b"".join(
        [
            values[start:end]
            for field, wire_type, start, _, end in walk(values)
            if field != unwanted or wire_type != LENGTH_DELIMITED
        ]
    )


def _record(field: int, value: bytes) -> bytes:
    return tag_of(field) + varint(len(value)) + value


PAYLOAD_TAG = tag_of(MessageEnvelope.PAYLOAD)
URL_TAG, VALUE_TAG = tag_of(ProtobufAny.TYPE_URL), tag_of(ProtobufAny.VALUE)


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
    head = lazily.load("speed.message.message_pb2").MessageEnvelope()
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
    fields = VALUE_TAG + varint(size)
    if type_url:
        url = type_url.encode()
        fields = URL_TAG + varint(len(url)) + url + fields
    return PAYLOAD_TAG + varint(len(fields) + size) + fields


def _assign(message: Any, fields: tuple[tuple[str, Any], ...]) -> None:
    name = ""
    try:
        for name, value in fields:
            if value is not None:
                setattr(message, name, value)
    except (TypeError, ValueError) as error:
        raise WireError("BAD_MESSAGE", f"{name}: has a type that does not fit") from error


def _update(target: Any, name: str, items: Mapping[str, Any] | None) -> None:
    if items:
        try:
            for key, value in items.items():
                target[key] = value
        except (TypeError, ValueError) as error:
            raise WireError("BAD_MESSAGE", f"{name}: has a type that does not fit") from error


def _encoding(name: str | None) -> tuple[tuple[str, Any], ...]:
    """The metadata fields that say an encoding (M-9)."""
    if name is None or name == "none":
        return ()
    number = ENCODING_NUMBERS.get(name)
    if number is not None:
        return (("content_encoding", number),)
    return (("content_encoding", ContentEncoding.CUSTOM), ("content_encoding_custom", name))


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
