"""Messages as they were before there was an envelope: recognised (M-36), and taken over (M-39, M-40).

Four forms: a raw value with headers of Kafka or of NATS, JSON text of Redis, and a row of PostgreSQL. Who reads both,
old and new, asks ``is_envelope`` first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from speed.errors import UnserialisableError, WireError
from speed.message.view import MessageView
from speed.message.writing import encode_message, new_message_id
from speed.wire.limits import MAX_JSON_DEPTH, MAX_MESSAGE_ID_BYTES
from speed.wire.records import varint
from speed.wire.text import parse_traceparent, read_json
from speed.wire.value import MSGPACK_TYPE, decode_content

KAFKA, NATS, REDIS, POSTGRESQL = "kafka", "nats", "redis", "postgresql"
FORMS = (KAFKA, NATS, REDIS, POSTGRESQL)
ENVELOPE_ID_FIELDS = {
    KAFKA: "prism-message-id",
    NATS: "Prism-Message-ID",
    REDIS: "message_id",
    POSTGRESQL: "message_id",
}
"""The field of an old message that holds the id of the envelope published with it."""

_KAFKA_HEADERS = frozenset({"schema-id", "correlation-id", "timestamp", "schema-version", "trace-id"})
_NATS_HEADERS = frozenset({"nats-msg-id", "x-schema-url", "x-trace-id"})
_REDIS_META = frozenset({"schema", "ts", "trace_id", ENVELOPE_ID_FIELDS[REDIS]})
_ROW_METADATA = frozenset({"schema_version", ENVELOPE_ID_FIELDS[POSTGRESQL]})
_ROW = frozenset({"topic", "payload", "metadata"})
_ROW_COLUMNS = _ROW | {"id", "published_at", "created_at"}
_FIRST_MILLISECONDS = 100_000_000_000
"""A time below this is in seconds: as milliseconds it would be of 1973."""
_MAX_MS = (1 << 53) - 1
_MAX_TEXT = 1024
"""Characters of one text that is taken over."""


@dataclass(frozen=True, slots=True)
class OldMessage:
    """One message in an old form.

    Attributes:
        form: ``kafka``, ``nats``, ``redis`` or ``postgresql``.
        payload: bytes of Kafka and NATS, a value of JSON of the others.
        metadata: what it says of itself, under the names of ``encode_message``: message_id, topic, published_at_ms
            (Unix milliseconds), correlation_id, traceparent, extensions.
        schema: what it says of its schema: schema_url, schema_version.
        is_duplicate: its publisher wrote an envelope as well, with this message id. A reader of both skips this one.
    """

    form: str
    payload: Any
    metadata: dict[str, Any] = field(default_factory=dict)
    schema: dict[str, str] = field(default_factory=dict)
    is_duplicate: bool = False


def is_envelope(data: bytes | memoryview) -> bool:
    """Whether the bytes are a whole message of the contract. ``is_envelope(b'{"payload": 1}')`` is False."""
    return why_no_envelope(data) is None


def why_no_envelope(data: bytes | memoryview) -> str | None:
    """What keeps the bytes from being a message of the contract; None if nothing does."""
    try:
        MessageView(data).validate()
    except WireError as error:
        return str(error)
    return None


def of_kafka(value: bytes, headers: Mapping[str, bytes]) -> OldMessage | None:
    """A record of Kafka with at least one of the old headers; None for another."""
    if not headers.keys() & _KAFKA_HEADERS:
        return None
    old = _OldMetadata({name: _text(text) for name, text in headers.items()})
    old.take("correlation-id", "correlation_id")
    old.take_time("timestamp")
    old.take_schema("schema-version", "schema_version")
    old.take_trace("trace-id")
    old.take_extension("schema-id", "x-schema-id")
    old.take_envelope_id(ENVELOPE_ID_FIELDS[KAFKA])
    return old.message(KAFKA, value)


def of_nats(data: bytes, headers: Mapping[str, bytes]) -> OldMessage | None:
    """A message of NATS with at least one of the old headers, in letters of any case; None for another."""
    lower = {name.lower(): _text(text) for name, text in headers.items()}
    if not lower.keys() & _NATS_HEADERS:
        return None
    old = _OldMetadata(lower)
    old.take_id("nats-msg-id")
    old.take_schema("x-schema-url", "schema_url")
    old.take_trace("x-trace-id")
    old.take_envelope_id(ENVELOPE_ID_FIELDS[NATS].lower())
    return old.message(NATS, data)


def of_redis(text: bytes) -> OldMessage | None:
    """JSON text with ``payload``, and maybe ``meta``, and nothing else; None for another."""
    value = _read_value(text)
    if not isinstance(value, dict) or "payload" not in value or value.keys() - {"payload", "meta"}:
        return None
    meta = value.get("meta", {})
    if not isinstance(meta, dict):
        return None
    old = _OldMetadata({name: meta[name] for name in _REDIS_META & meta.keys()})
    old.take_schema("schema", "schema_version")
    old.take_time("ts")
    old.take_trace("trace_id")
    old.take_envelope_id(ENVELOPE_ID_FIELDS[REDIS])
    return old.message(REDIS, value["payload"])


def of_postgresql(row: Mapping[str, Any]) -> OldMessage | None:
    """A row of the old table: ``topic``, ``payload`` and ``metadata``; None for another."""
    if not row.keys() >= _ROW or row.keys() - _ROW_COLUMNS or not isinstance(row["topic"], str):
        return None
    metadata = row["metadata"] if row["metadata"] is not None else {}
    if not isinstance(metadata, dict):
        return None
    old = _OldMetadata({"topic": row["topic"], **{name: metadata[name] for name in _ROW_METADATA & metadata.keys()}})
    old.take("topic", "topic")
    old.take_schema("schema_version", "schema_version")
    old.take_envelope_id(ENVELOPE_ID_FIELDS[POSTGRESQL])
    return old.message(POSTGRESQL, row["payload"])


def recognise(text: bytes) -> OldMessage | None:
    """An old message in one JSON text, as tools write them down; None if it is none.

    ``{"value": …, "headers": {…}}`` is a record of Kafka, ``{"data": …, "headers": {…}}`` a message of NATS (value and
    data are text), ``{"topic": …, "payload": …, "metadata": {…}}`` a row, and else it is the text of Redis.
    """
    value = _read_value(text)
    if not isinstance(value, dict):
        return None
    for key, read in (("value", of_kafka), ("data", of_nats)):
        if value.keys() >= {key, "headers"}:
            return _with_headers(value[key], value["headers"], read)
    return of_postgresql(value) or of_redis(text)


def _with_headers(
    value: Any, headers: Any, read: Callable[[bytes, Mapping[str, bytes]], OldMessage | None]
) -> OldMessage | None:
    if not isinstance(value, str) or not isinstance(headers, dict):
        return None
    texts: Iterable[Any] = headers.values()
    if not all(isinstance(text, str) for text in texts):
        return None
    return read(value.encode(), {name: text.encode() for name, text in headers.items()})


class _OldMetadata:
    """What an old message says, taken over where it can be used; what cannot is left out."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._metadata: dict[str, Any] = {}
        self._schema: dict[str, str] = {}
        self._extensions: dict[str, bytes] = {}
        self._is_duplicate = False

    def take(self, name: str, field_: str) -> None:
        text = self._found(name)
        if text:
            self._metadata[field_] = text

    def take_id(self, name: str) -> None:
        """Of a length that an envelope takes."""
        if len(self._found(name).encode()) <= MAX_MESSAGE_ID_BYTES:
            self.take(name, "message_id")

    def take_envelope_id(self, name: str) -> None:
        """The id of the envelope that was published with it."""
        self._is_duplicate = 0 < len(self._found(name).encode()) <= MAX_MESSAGE_ID_BYTES
        self.take_id(name)

    def take_time(self, name: str) -> None:
        """Seconds or milliseconds, as number or as text."""
        value = self._values.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 17:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MAX_MS:
            return
        self._metadata["published_at_ms"] = int(value * 1000 if value < _FIRST_MILLISECONDS else value)

    def take_schema(self, name: str, field_: str) -> None:
        text = self._found(name)
        if text:
            self._schema[field_] = text

    def take_trace(self, name: str) -> None:
        """A traceparent, or an id of another kind, which goes along as an extension."""
        text = self._found(name)
        try:
            parse_traceparent(text)
        except WireError:
            self.take_extension(name, "x-trace-id")
        else:
            self._metadata["traceparent"] = text

    def take_extension(self, name: str, key: str) -> None:
        text = self._found(name)
        if text:
            self._extensions[key] = text.encode()

    def message(self, form: str, payload: Any) -> OldMessage:
        more = {"extensions": self._extensions} if self._extensions else {}
        return OldMessage(form, payload, {**self._metadata, **more}, self._schema, self._is_duplicate)

    def _found(self, name: str) -> str:
        value = self._values.get(name)
        text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
        return text[:_MAX_TEXT] if isinstance(text, str) else ""


def _text(data: bytes) -> str:
    """Empty for what is no text."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""


def _read_value(text: bytes) -> Any:
    """None for what is no JSON."""
    try:
        return read_json(text, MAX_JSON_DEPTH)
    except (ValueError, RecursionError):
        return None


def payload_bytes(message: OldMessage) -> tuple[bytes, str]:
    """The payload as it travels in an envelope, and its content type: bytes as they are, values as JSON."""
    if isinstance(message.payload, bytes):
        return message.payload, "application/octet-stream"
    return json.dumps(message.payload, ensure_ascii=False).encode(), "application/json"


_MAX_ID_MS = (1 << 48) - 1


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """Where an old message lies.

    Attributes:
        backend: ``kafka``, ``nats``, ``redis`` or ``postgres``.
        topic: of SPEED, for a message that names none.
        position: as the backend writes it.
        stored_at_ms: when it was stored, in Unix milliseconds; 0 where the backend does not tell.
    """

    backend: str
    topic: str
    position: str
    stored_at_ms: int = 0


class ConvertedMessage(NamedTuple):
    """The envelope that an old message became, and what it says; its time is in Unix milliseconds."""

    envelope: bytes
    topic: str
    message_id: str
    published_at_ms: int
    traceparent: str | None


def take_over(old: OldMessage, data: bytes, place: SourcePosition, namespace: str) -> ConvertedMessage:
    """The envelope of an old message that lay at ``place`` as ``data``: the same each time, but for ``namespace``.

    WireError(BAD_MESSAGE) for what no envelope holds, such as another kind of topic.
    """
    payload, content_type = payload_bytes(old)
    metadata: dict[str, Any] = {"topic": place.topic, "published_at_ms": place.stored_at_ms or 1, **old.metadata}
    if "message_id" not in metadata:
        metadata["message_id"] = old_message_id(place, data, metadata["published_at_ms"])
    envelope = encode_message(payload, content_type=content_type, namespace=namespace, schema=old.schema, **metadata)
    return ConvertedMessage(
        envelope, metadata["topic"], metadata["message_id"], metadata["published_at_ms"], metadata.get("traceparent")
    )


def old_message_id(place: SourcePosition, data: bytes, published_at_ms: int) -> str:
    """The id of a message that has none: of its time, its place and its bytes."""
    parts = (place.backend.encode(), place.topic.encode(), place.position.encode(), data)
    digest = sha256(b"".join(varint(len(part)) + part for part in parts)).digest()
    return new_message_id(min(published_at_ms, _MAX_ID_MS), digest[:16])


@dataclass(frozen=True, slots=True)
class OldForm:
    """A message in the old form of a backend: bytes, and what stands beside them."""

    data: bytes = field(repr=False)
    headers: Mapping[str, str]
    """Of Kafka and NATS; of PostgreSQL the members of ``metadata``."""


def old_form(backend: str, envelope: bytes) -> OldForm:
    """What is written beside an envelope for who reads the old form only.

    WireError for a payload that is encrypted or compressed, UnserialisableError for one that is no JSON where the form
    is: nobody could read it.
    """
    view = MessageView(envelope)
    if backend == KAFKA:
        return OldForm(_raw(view), _kafka(view))
    if backend == NATS:
        return OldForm(_raw(view), _nats(view))
    if backend == REDIS:
        meta = {"schema": view.schema.schema_version, "ts": view.published_at_ms, "trace_id": view.traceparent}
        fields = {ENVELOPE_ID_FIELDS[REDIS]: view.message_id, **{name: value for name, value in meta.items() if value}}
        return OldForm(_written_value({"meta": fields, "payload": _value(view)}), {})
    version = view.schema.schema_version
    metadata = {ENVELOPE_ID_FIELDS[POSTGRESQL]: view.message_id, **({"schema_version": version} if version else {})}
    return OldForm(_written_value(_value(view)), metadata)


def _raw(view: MessageView) -> bytes:
    """A value of msgpack as JSON, which others read; all else as it is: what writers of raw values wrote."""
    return _written_value(_value(view)) if view.content_type == MSGPACK_TYPE else bytes(view.plain_bytes)


def _value(view: MessageView) -> Any:
    return decode_content(view.content_type, view.type_url, view.plain_bytes)


def _written_value(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError):
        raise UnserialisableError(
            "payload: the old form is JSON, which has no word for it: send other values"
        ) from None


def _kafka(view: MessageView) -> dict[str, str]:
    headers = {
        "timestamp": str(view.published_at_ms),
        "correlation-id": view.correlation_id,
        "schema-version": view.schema.schema_version,
        "trace-id": view.traceparent,
        ENVELOPE_ID_FIELDS[KAFKA]: view.message_id,
    }
    return {name: value for name, value in headers.items() if value}


def _nats(view: MessageView) -> dict[str, str]:
    headers = {
        "Nats-Msg-Id": view.message_id,
        "X-Schema-URL": view.schema.schema_url,
        "X-Trace-ID": view.traceparent,
        ENVELOPE_ID_FIELDS[NATS]: view.message_id,
    }
    return {name: value for name, value in headers.items() if value}
