"""Messages as they are read: lazily, without a copy of the payload (registry_spec/messages.md).

The protobuf runtime of Python drops an entry that holds an unknown field; those of other languages keep it.

The protobuf runtime handles only the small head (metadata, contexts, extensions), imported at first use.
The payload record is found by hand, and its bytes are never copied.
"""

from __future__ import annotations

import re
from typing import Any

from speed.errors import WireError
from speed.wire import lazily
from speed.wire.limits import MAX_MESSAGE_ID_BYTES, MAX_NAMESPACE_BYTES, MAX_TOPIC_BYTES
from speed.wire.records import (
    LENGTH_DELIMITED,
    MESSAGE_PARTS,
    ContentEncoding,
    ContentType,
    MapEntry,
    MessageEnvelope,
    ObservabilityContext,
    ProtobufAny,
    SecurityContext,
    begins_value,
    check_nested,
    plain_records,
    read_varint,
    tag_of,
    walk,
)
from speed.wire.text import TraceParent, are_trace_ids
from speed.wire.value import content_encoding_text, content_type_text, decode_content

# Where the parts of a message lie (M-2, M-4): in one look where it has the form that writers give it.

_PAYLOAD_TAG = tuple(tag_of(MessageEnvelope.PAYLOAD))
_MAX_LENGTH_BYTES = 5
(_METADATA_TAG,), (_SECURITY_TAG,) = tag_of(MessageEnvelope.METADATA), tag_of(MessageEnvelope.SECURITY)
_OTHER_TAGS = tag_of(MessageEnvelope.METADATA) + tag_of(MessageEnvelope.OBSERVABILITY) + tag_of(MessageEnvelope.SCHEMA)

Span = tuple[int, int]
Form = tuple[list[Span], list[Span]]
"""Byte ranges of all other records, neighbours joined, and of the payload records' values."""


def form_of(data: bytes | memoryview) -> Form:
    """Raises WireError(BAD_MESSAGE) for what breaks M-4, at every depth but the payload's."""
    head, payload = _usual(data)
    if head:
        return [(0, head)], [(payload, len(data))]
    others: list[Span] = []
    payloads: list[Span] = []
    for field, wire_type, start, value, end in walk(data):
        if field == MessageEnvelope.PAYLOAD and wire_type == LENGTH_DELIMITED:
            payloads.append((value, end))
            continue
        if wire_type == LENGTH_DELIMITED and field in MESSAGE_PARTS:
            check_nested(data[value:end], MESSAGE_PARTS[field])
        if others and others[-1][1] == start:
            others[-1] = others[-1][0], end
        else:
            others.append((start, end))
    return others, payloads


def has_publisher_only(data: bytes | memoryview) -> bool:
    """Whether the name of the publisher is all that a message holds of security. False for an unusual form."""
    return _usual(data, is_for_security=True)[0] > 0


def _usual(data: bytes | memoryview, is_for_security: bool = False) -> Span:
    """Where the payload record begins, and its value, if it is the last one and the others are plain metadata and the
    name of the publisher; else (0, 0). Anything in doubt is left to ``walk``. For security, no other is looked into."""
    position, size = 0, len(data)
    while position + 3 < size:
        tag, length = data[position], data[position + 1]
        if tag == _PAYLOAD_TAG[0]:
            if length != _PAYLOAD_TAG[1]:
                return 0, 0
            length, value = read_varint(data, position + 2, _MAX_LENGTH_BYTES)
            return (position, value) if value + length == size else (0, 0)
        start = position + 2
        if length > 0x7F:
            length, start = length & 0x7F | data[start] << 7, start + 1
            if length >= 1 << 14:
                return 0, 0
        end = start + length
        if end > size:
            return 0, 0
        if tag == _SECURITY_TAG:
            if begins_value(memoryview(data)[start:end], SecurityContext.PUBLISHER_ID) == 0:
                return 0, 0
        elif is_for_security:
            if tag not in _OTHER_TAGS:
                return 0, 0
        elif tag != _METADATA_TAG or plain_records(data[start:end]) != length:
            return 0, 0
        position = end
    return 0, 0


# The maps of a message, read record by record (M-4, M-12).


def text_map(message: bytes | memoryview, field: int) -> dict[str, str]:
    """A map of the ObservabilityContext of a message that protobuf has parsed: then all text is UTF-8."""
    entries = _entries(message, (MessageEnvelope.OBSERVABILITY, field))
    return {key: str(value, "utf-8") for key, value in entries.items()}


def extensions(message: bytes | memoryview) -> dict[str, bytes]:
    """All extensions, known or not."""
    return {key: bytes(value) for key, value in _entries(message, (MessageEnvelope.EXTENSIONS,)).items()}


def _entries(data: bytes | memoryview, path: tuple[int, ...]) -> dict[str, bytes | memoryview]:
    """The map that lies at a path of field numbers, merged from all records of it."""
    field, *inner = path
    found: dict[str, bytes | memoryview] = {}
    for number, kind, _, value, end in walk(data):
        if number != field or kind != LENGTH_DELIMITED:
            continue
        if inner:
            found.update(_entries(data[value:end], tuple(inner)))
        else:
            key, content = _entry(data[value:end])
            found[key] = content
    return found


def _entry(data: bytes | memoryview) -> tuple[str, bytes | memoryview]:
    """Key and value; what is absent is empty, and of repeated ones the last counts."""
    parts: dict[int, bytes | memoryview] = {}
    for number, kind, _, value, end in walk(data):
        if kind == LENGTH_DELIMITED:
            parts[number] = data[value:end]
    return str(parts.get(MapEntry.KEY, b""), "utf-8"), parts.get(MapEntry.VALUE, b"")


# What the metadata of a message must look like; the same check on both sides (rules M-5, M-6, M-8, M-9).

MAX_PRIORITY = 10

_TOPIC = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*").fullmatch


def check_metadata(metadata: Any) -> None:
    """Check a MessageMetadata, parsed or about to be written; WireError(BAD_MESSAGE) names the field."""
    _check_text("message_id", metadata.message_id, MAX_MESSAGE_ID_BYTES)
    _check_names(metadata.topic, metadata.namespace)
    if metadata.published_at_ms <= 0:
        raise WireError("BAD_MESSAGE", "published_at_ms: is required and greater than zero")
    if not 0 <= metadata.priority <= MAX_PRIORITY:
        raise WireError("BAD_MESSAGE", f"priority: is outside 0..{MAX_PRIORITY}")
    if metadata.ttl_seconds < 0:
        raise WireError("BAD_MESSAGE", "ttl_seconds: is negative")
    if metadata.content_type == ContentType.CUSTOM and not metadata.content_type_custom:
        raise WireError("BAD_MESSAGE", "content_type_custom: is required when content_type is CUSTOM")
    if metadata.content_encoding == ContentEncoding.CUSTOM and not metadata.content_encoding_custom:
        raise WireError("BAD_MESSAGE", "content_encoding_custom: is required when content_encoding is CUSTOM")


def _check_names(topic: str, namespace: str) -> None:
    _check_text("topic", topic, MAX_TOPIC_BYTES)
    if not _TOPIC(topic):
        raise WireError("BAD_MESSAGE", "topic: is not dot-separated parts of letters, digits, '_' and '-'")
    _check_text("namespace", namespace, MAX_NAMESPACE_BYTES)


def _check_text(field: str, text: str, limit: int) -> None:
    if not text:
        raise WireError("BAD_MESSAGE", f"{field}: is required and not empty")
    if len(text) > limit or (not text.isascii() and len(text.encode()) > limit):
        raise WireError("BAD_MESSAGE", f"{field}: is longer than {limit} bytes")


DEFAULT_TOPIC = "message"  # of a message sent to one node without a topic
DEFAULT_NAMESPACE = "default"
DEFAULT_PRIORITY = 5


class MessageView:
    """A received message. Nothing is parsed before it is asked for; finding the payload copies nothing.

    Every property may raise WireError(BAD_MESSAGE); after ``validate()`` only ``payload`` still may.
    """

    __slots__ = ("_data", "_head", "_payload", "_spans", "_type_url")

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data
        self._spans: Form | None = None
        self._head: Any = None
        self._payload: memoryview | None = None
        self._type_url = ""

    def validate(self) -> MessageView:
        """Check every rule that needs no decoded payload; return self."""
        head = self._parsed()
        if not head.HasField("metadata"):
            raise WireError("BAD_MESSAGE", "metadata: is required")
        check_metadata(head.metadata)
        self._find_payload()
        if head.metadata.content_type == ContentType.PROTOBUF and not self._type_url:
            raise WireError("BAD_MESSAGE", "payload.type_url: is required for application/protobuf")
        return self

    @property
    def data(self) -> bytes | memoryview:
        """The bytes received, without a copy."""
        return self._data

    def to_bytes(self) -> bytes:
        """Exactly the bytes received, unknown fields included."""
        return bytes(self._data)

    @property
    def size(self) -> int:
        """Bytes of the whole message."""
        return len(self._data)

    @property
    def message_id(self) -> str:
        """Unique id of the message."""
        return str(self._parsed().metadata.message_id)

    @property
    def topic(self) -> str:
        """Topic it was published under."""
        topic: str = self._parsed().metadata.topic
        return topic

    @property
    def namespace(self) -> str:
        """Tenant or application it belongs to."""
        namespace: str = self._parsed().metadata.namespace
        return namespace

    @property
    def published_at_ms(self) -> int:
        """Publisher's clock, Unix ms."""
        return int(self._parsed().metadata.published_at_ms)

    @property
    def content_type(self) -> str:
        """Media type of the payload, such as ``application/msgpack``."""
        metadata = self._parsed().metadata
        return content_type_text(metadata.content_type, metadata.content_type_custom)

    @property
    def content_encoding(self) -> str:
        """``none``, ``gzip``, ``snappy``, ``zstd`` or a custom name."""
        metadata = self._parsed().metadata
        return content_encoding_text(metadata.content_encoding, metadata.content_encoding_custom)

    @property
    def payload_encoding(self) -> str:
        """The encoding that ``payload_bytes`` are in: ``none`` where it was taken off here."""
        return self.content_encoding

    @property
    def priority(self) -> int:
        """1..10; absent or zero reads as 5."""
        return self._parsed().metadata.priority or DEFAULT_PRIORITY

    @property
    def ttl_seconds(self) -> int:
        """Seconds after publishing at which it expires; 0 is never."""
        return int(self._parsed().metadata.ttl_seconds)

    def is_expired(self, now_ms: int) -> bool:
        """True when its time to live has passed at ``now_ms`` (Unix ms)."""
        ttl = self.ttl_seconds
        return ttl > 0 and now_ms >= self.published_at_ms + ttl * 1000

    @property
    def correlation_id(self) -> str | None:
        """Id that ties an answer to its question."""
        return _optional(self._parsed().metadata, "correlation_id")

    @property
    def causality_parent(self) -> str | None:
        """message_id of the message that caused this one."""
        return _optional(self._parsed().metadata, "causality_parent")

    @property
    def publisher_id(self) -> str | None:
        """Who the publisher says it is; the authenticated name is the envelope's source."""
        return _optional(self._parsed().security, "publisher_id")

    @property
    def signed_by(self) -> str | None:
        """Id of the key whose signature was checked here, and holds; None where none was."""
        return None

    @property
    def opened_by(self) -> str | None:
        """Id of the key that decrypted the payload; None where none did."""
        return None

    @property
    def traceparent(self) -> str | None:
        """W3C traceparent, or None when absent or not valid."""
        head = self._parsed()
        if not head.HasField("observability"):
            return None
        trace = head.observability
        if not are_trace_ids(trace.trace_id, trace.span_id) or not 0 <= trace.trace_flags <= 255:
            return None
        return str(TraceParent(trace.trace_id, trace.span_id, trace.trace_flags))

    @property
    def parent_span_id(self) -> str | None:
        """The span that the publisher's is a part of, in hex; None when absent or not valid, as its trace."""
        if self.traceparent is None:
            return None
        trace = self._parsed().observability
        return trace.parent_span_id if are_trace_ids(trace.trace_id, trace.parent_span_id) else None

    @property
    def labels(self) -> dict[str, str]:
        """Labels for metrics."""
        return text_map(self._data, ObservabilityContext.LABELS) if self._parsed().HasField("observability") else {}

    @property
    def baggage(self) -> dict[str, str]:
        """W3C baggage."""
        return text_map(self._data, ObservabilityContext.BAGGAGE) if self._parsed().HasField("observability") else {}

    @property
    def extensions(self) -> dict[str, bytes]:
        """All extensions, known or not."""
        self._parsed()  # refuses records that are not well formed
        return extensions(self._data)

    @property
    def security(self) -> Any:
        """The SecurityContext, as protobuf parsed it, without its token; empty when absent."""
        context = self._parsed().security
        if context.HasField("auth_token"):  # whoever prints the context must not print the token
            context = type(context).FromString(context.SerializeToString())
            context.ClearField("auth_token")
        return context

    @property
    def auth_token(self) -> str:
        """The token for a gateway; empty when absent. Never to be logged or shown."""
        return str(self._parsed().security.auth_token)

    @property
    def has_publisher_only(self) -> bool:
        """Whether its SecurityContext holds only the publisher; false as well for a form in doubt."""
        return has_publisher_only(self._data)

    @property
    def schema(self) -> Any:
        """The SchemaContext, as protobuf parsed it; empty when absent."""
        return self._parsed().schema

    @property
    def uncompressed_bytes(self) -> int:
        """Size of the payload before its encoding; 0 when absent."""
        return int(self._parsed().metadata.uncompressed_bytes)

    @property
    def is_encrypted(self) -> bool:
        """Whether the publisher encrypted the payload."""
        return bool(self._parsed().security.HasField("encryption"))

    @property
    def type_url(self) -> str:
        """Type of a protobuf payload; empty for others."""
        self._find_payload()
        return self._type_url

    @property
    def payload_bytes(self) -> memoryview:
        """The payload as sent, without a copy."""
        return self._find_payload()

    @property
    def plain_bytes(self) -> memoryview:
        """The payload's bytes if they are what its content type says: neither encoded nor encrypted."""
        encoding = self.content_encoding
        if encoding != "none":
            raise WireError("BAD_MESSAGE", f"content_encoding: is {encoding}; read payload_bytes")
        if self.is_encrypted:
            raise WireError("BAD_MESSAGE", "security.encryption: payload is encrypted; read payload_bytes")
        return self._find_payload()

    @property
    def payload(self) -> Any:
        """The payload's value, decoded anew at each access; unknown content types give bytes."""
        data = self.plain_bytes
        return decode_content(self.content_type, self.type_url, data)

    def alike(self, data: bytes, payload: memoryview, message_id: str, published_at_ms: int) -> MessageView:
        """A message that was compared with this valid one, which says nothing of security but its publisher: all
        else is the same."""
        return _Alike(data, self._parsed(), payload, message_id, published_at_ms)

    def _form(self) -> Form:
        if self._spans is None:
            self._spans = form_of(self._data)
        return self._spans

    def _parsed(self) -> Any:
        """Everything but the payload, parsed by protobuf."""
        if self._head is None:
            data = self._data
            self._head = parse_records(b"".join([data[start:end] for start, end in self._form()[0]]))
        return self._head

    def _find_payload(self) -> memoryview:
        """The value bytes of the Any; of repeated records the last of each field counts."""
        if self._payload is None:
            view, payloads = memoryview(self._data), self._form()[1]
            if not payloads:
                raise WireError("BAD_MESSAGE", "payload: is required")
            found = memoryview(b"")
            for begin, finish in payloads:
                record = view[begin:finish]
                value = begins_value(record, ProtobufAny.VALUE)
                if value:  # of all but protobuf payloads
                    found = record[value:]
                    continue
                for field, wire_type, _, value, end in walk(record):
                    if wire_type == LENGTH_DELIMITED and field == ProtobufAny.VALUE:
                        found = record[value:end]
                    elif wire_type == LENGTH_DELIMITED and field == ProtobufAny.TYPE_URL:
                        self._type_url = _decode_utf8(record[value:end], "payload.type_url")
            self._payload = found
        return self._payload


class _Alike(MessageView):
    """A message that is like another one but for id, time and payload."""

    __slots__ = ("_message_id", "_published_at_ms")

    def __init__(self, data: bytes, head: Any, payload: memoryview, message_id: str, published_at_ms: int) -> None:
        super().__init__(data)
        self._head, self._payload = head, payload
        self._message_id, self._published_at_ms = message_id, published_at_ms

    def validate(self) -> MessageView:
        return self

    @property
    def message_id(self) -> str:
        return self._message_id

    @property
    def published_at_ms(self) -> int:
        return self._published_at_ms

    @property
    def has_publisher_only(self) -> bool:
        return True


def parse_records(data: bytes) -> Any:
    """The records in ``data`` as protobuf reads them, which is less strict than ``form_of``."""
    envelope = lazily.load("speed.message.message_pb2").MessageEnvelope
    try:
        return envelope.FromString(data)
    except (
        lazily.load("google.protobuf.message").DecodeError,
        ValueError,
    ) as error:  # pure-Python protobuf: UnicodeDecodeError
        raise WireError("BAD_MESSAGE", f"records: not a MessageEnvelope: {error}") from error


def _optional(message: Any, field: str) -> str | None:
    return getattr(message, field) if message.HasField(field) else None


def _decode_utf8(data: memoryview, field: str) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise WireError("BAD_MESSAGE", f"{field}: is not UTF-8") from error
