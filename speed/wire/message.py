"""The payload of MESSAGE and EVENT: made in one pass, read lazily (registry_spec/messages.md, M-n).

The protobuf runtime handles only the small head (metadata, contexts, extensions), imported at first use.
The payload record is framed and found by hand: its bytes are copied once when written and never when read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from speed.errors import WireError
from speed.wire import lazily
from speed.wire.content import (
    PROTOBUF,
    Content,
    content_encoding_text,
    content_type_text,
    decode_content,
    encode_content,
)
from speed.wire.message_head import encode_head
from speed.wire.message_rules import check_metadata
from speed.wire.records import LENGTH_DELIMITED, Parts, begins_value, check_nested, varint, walk
from speed.wire.traceparent import TraceParent, are_trace_ids, make_traceparent, parse_traceparent

__all__ = [
    "DEFAULT_NAMESPACE",
    "DEFAULT_PRIORITY",
    "DEFAULT_TOPIC",
    "MessageView",
    "encode_message",
    "make_traceparent",
    "new_message_id",
    "parse_traceparent",
]

DEFAULT_TOPIC = "message"  # of a message sent to one node without a topic (M-5)
DEFAULT_NAMESPACE = "default"
DEFAULT_PRIORITY = 5

_PAYLOAD_FIELD = 99
_PAYLOAD_TAG = varint(_PAYLOAD_FIELD << 3 | LENGTH_DELIMITED)
_ANY_TYPE_URL, _ANY_VALUE = 1, 2
_PARTS: Parts = {1: {}, 2: {6: {}}, 3: {5: {}, 6: {}}, 4: {}, 97: {}}
"""metadata, security (encryption), observability (baggage, labels), schema, extensions."""


def new_message_id(unix_ms: int, random16: bytes) -> str:
    """A UUIDv7 (RFC 9562, 5.7) of a time in Unix ms and 16 random bytes, of which the last 10 are used."""
    if len(random16) != 16 or not 0 <= unix_ms < 1 << 48:
        raise WireError("BAD_MESSAGE", "message_id: needs 16 random bytes and a time of 48 bits")
    bits = unix_ms << 80 | int.from_bytes(random16[6:], "big")
    bits = bits & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


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
) -> bytes:
    """The bytes of one message; times in Unix ms. ``content_type`` is inferred unless given (M-8).

    Raises WireError(BAD_MESSAGE) naming the field that breaks a rule, UnserialisableError for the payload.
    """
    content = encode_content(payload, content_type)
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
    )
    return _frame(head, content)


class MessageView:
    """A received message. Nothing is parsed before it is asked for; finding the payload copies nothing.

    Every property may raise WireError(BAD_MESSAGE); after ``validate()`` only ``payload`` still may.
    """

    __slots__ = ("_data", "_head", "_payload", "_spans", "_type_url")

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data
        self._spans: tuple[list[tuple[int, int]], list[tuple[int, int]]] | None = None
        self._head: Any = None
        self._payload: memoryview | None = None
        self._type_url = ""

    def validate(self) -> MessageView:
        """Check every rule that needs no decoded payload (M-5 to M-9); return self."""
        head = self._parsed()
        if not head.HasField("metadata"):
            raise WireError("BAD_MESSAGE", "metadata: is required")
        check_metadata(head.metadata)
        self._find_payload()
        if head.metadata.content_type == PROTOBUF and not self._type_url:
            raise WireError("BAD_MESSAGE", "payload.type_url: is required for application/protobuf")
        return self

    def to_bytes(self) -> bytes:
        """Exactly the bytes received, unknown fields included (M-12)."""
        return bytes(self._data)

    @property
    def size(self) -> int:
        """Bytes of the whole message."""
        return len(self._data)

    # -- metadata ------------------------------------------------------------------------------------------

    @property
    def message_id(self) -> str:
        """Unique id of the message."""
        return str(self._parsed().metadata.message_id)

    @property
    def topic(self) -> str:
        """Topic it was published under."""
        return str(self._parsed().metadata.topic)

    @property
    def namespace(self) -> str:
        """Tenant or application it belongs to."""
        return str(self._parsed().metadata.namespace)

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

    # -- contexts and extensions ---------------------------------------------------------------------------

    @property
    def publisher_id(self) -> str | None:
        """Who the publisher says it is; the authenticated name is the envelope's source (M-14)."""
        return _optional(self._parsed().security, "publisher_id")

    @property
    def traceparent(self) -> str | None:
        """W3C traceparent, or None when absent or not valid (M-11)."""
        head = self._parsed()
        if not head.HasField("observability"):
            return None
        trace = head.observability
        if not are_trace_ids(trace.trace_id, trace.span_id) or not 0 <= trace.trace_flags <= 255:
            return None
        return str(TraceParent(trace.trace_id, trace.span_id, trace.trace_flags))

    @property
    def labels(self) -> dict[str, str]:
        """Labels for metrics."""
        return dict(self._parsed().observability.labels)

    @property
    def baggage(self) -> dict[str, str]:
        """W3C baggage."""
        return dict(self._parsed().observability.baggage)

    @property
    def extensions(self) -> dict[str, bytes]:
        """All extensions, known or not."""
        return dict(self._parsed().extensions)

    # -- payload -------------------------------------------------------------------------------------------

    @property
    def payload_bytes(self) -> memoryview:
        """The payload as sent, without a copy."""
        return self._find_payload()

    @property
    def payload(self) -> Any:
        """The payload's value, decoded anew at each access; unknown content types give bytes."""
        data = self._find_payload()
        encoding = self.content_encoding
        if encoding != "none":
            raise WireError("BAD_MESSAGE", f"content_encoding: is {encoding}; read payload_bytes")
        if self._parsed().security.HasField("encryption"):
            raise WireError("BAD_MESSAGE", "security.encryption: payload is encrypted; read payload_bytes")
        return decode_content(self.content_type, self._type_url, data)

    # -- parsing -------------------------------------------------------------------------------------------

    def _located(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Byte ranges of all other records, and of the payload records' values."""
        if self._spans is None:
            others: list[tuple[int, int]] = []
            payloads: list[tuple[int, int]] = []
            for field, wire_type, start, value, end in walk(self._data):
                if field == _PAYLOAD_FIELD and wire_type == LENGTH_DELIMITED:
                    payloads.append((value, end))
                    continue
                if wire_type == LENGTH_DELIMITED and field in _PARTS:
                    check_nested(self._data[value:end], _PARTS[field])
                if others and others[-1][1] == start:
                    others[-1] = others[-1][0], end
                else:
                    others.append((start, end))
            self._spans = others, payloads
        return self._spans

    def _parsed(self) -> Any:
        """Everything but the payload, parsed by protobuf."""
        if self._head is None:
            spans = self._located()[0]
            self._head = parse_records(b"".join([self._data[start:end] for start, end in spans]))
        return self._head

    def _find_payload(self) -> memoryview:
        """The value bytes of the Any; of repeated records the last of each field counts (M-4)."""
        if self._payload is None:
            view, payloads = memoryview(self._data), self._located()[1]
            if not payloads:
                raise WireError("BAD_MESSAGE", "payload: is required")
            found = memoryview(b"")
            for begin, finish in payloads:
                record = view[begin:finish]
                value = begins_value(record, _ANY_VALUE)
                if value:  # of all but protobuf payloads
                    found = record[value:]
                    continue
                for field, wire_type, _, value, end in walk(record):
                    if wire_type == LENGTH_DELIMITED and field == _ANY_VALUE:
                        found = record[value:end]
                    elif wire_type == LENGTH_DELIMITED and field == _ANY_TYPE_URL:
                        self._type_url = _decode_utf8(record[value:end], "payload.type_url")
            self._payload = found
        return self._payload


def parse_records(data: bytes) -> Any:
    """The records in ``data`` as protobuf reads them, which is less strict than M-4."""
    module, decode_error = _runtime()
    try:
        return module.MessageEnvelope.FromString(data)
    except (decode_error, ValueError) as error:  # pure-Python protobuf: UnicodeDecodeError
        raise WireError("BAD_MESSAGE", f"records: not a MessageEnvelope: {error}") from error


@cache
def _runtime() -> tuple[Any, type[Exception]]:
    """The generated module and protobuf's DecodeError, imported once, at first use."""
    module = lazily.load("speed.wire.message_pb2")
    return module, lazily.load("google.protobuf.message").DecodeError


def _frame(head: bytes, content: Content) -> bytes:
    """Head, then the payload record: the one copy of the payload's bytes."""
    data = content.data
    fields = b"\x12" + varint(len(data))
    if content.type_url:
        url = content.type_url.encode()
        fields = b"\x0a" + varint(len(url)) + url + fields
    return b"".join((head, _PAYLOAD_TAG, varint(len(fields) + len(data)), fields, data))


def _optional(message: Any, field: str) -> str | None:
    return getattr(message, field) if message.HasField(field) else None


def _decode_utf8(data: memoryview, field: str) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise WireError("BAD_MESSAGE", f"{field}: is not UTF-8") from error
