"""Rows as encoded messages: which columns a row may have, and how each becomes a part of a message."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from speed.errors import ConfigurationError, PayloadTooLargeError, SpeedError, UnserialisableError, WireError
from speed.message.view import DEFAULT_NAMESPACE, DEFAULT_TOPIC
from speed.message.writing import MessageIds, encode_head, encode_message, frame_of
from speed.wire.limits import MAX_PAYLOAD_BYTES, MAX_VALUE_DEPTH
from speed.wire.records import MessageEnvelope, MessageMetadata, varint, walk
from speed.wire.value import BYTES_TYPE, MSGPACK_TYPE, TEXT_TYPE, Content, encode_content, pack

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType


# Many messages that differ in id and payload only, written quickly (M-2, M-13).

_ID_BYTES = 36
_USUAL_TIME = 1 << 35


class MessageSeries:
    """Encodes messages of one topic, content type and so on, and of one time.

    What it writes are the bytes that ``encode_message`` writes.
    """

    def __init__(self, content: Content, published_at_ms: int, **metadata: Any) -> None:
        """``content`` tells the content type; ``metadata`` as of ``encode_head``, but for id and time.

        Raises WireError(BAD_MESSAGE) for metadata that breaks a rule.
        """
        self._before, between, after = _head_around(content, **metadata)
        self._after_id = b"".join((between, varint(published_at_ms), after))

    def encode(self, message_id: bytes, data: bytes) -> bytes:
        """One message; ``message_id`` has 36 characters of ASCII."""
        return b"".join((self._before, message_id, self._after_id, frame_of(len(data)), data))


def _head_around(content: Content, **metadata: Any) -> tuple[bytes, bytes, bytes]:
    """The head's bytes before an id of 36 characters, between it and a time of now, and after that."""
    head = encode_head(content, message_id="0" * _ID_BYTES, published_at_ms=_USUAL_TIME, **metadata)
    start, end = next((value, end) for field, _, _, value, end in walk(head) if field == MessageEnvelope.METADATA)
    places = {field: (start + value, start + end) for field, _, _, value, end in walk(head[start:end])}
    (id_start, id_end), (time_start, time_end) = (
        places[MessageMetadata.MESSAGE_ID],
        places[MessageMetadata.PUBLISHED_AT_MS],
    )
    return head[:id_start], head[id_end:time_start], head[time_end:]


PAYLOAD = "payload"
METADATA = {
    "message_id": "string",
    "topic": "string",
    "priority": "int",
    "ttl_seconds": "int",
    "correlation_id": "string",
    "causality_parent": "string",
    "traceparent": "string",
    "content_type": "string",
    "headers": "map<string,string>",
}
"""Columns beside ``payload``, each optional, and so is each of their values."""

_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_PLAIN = _WHOLE | {"boolean", "float", "double", "string", "binary", "timestamp", "void"}
_MAX_SERIES = 256


def check_rows(schema: StructType, *, topic_is_needed: bool) -> None:
    """Raises ConfigurationError for columns that no message has a place for, before anything runs."""
    names = schema.names
    if not names:
        raise ConfigurationError("there are no columns to write")
    if PAYLOAD not in names:
        for field in schema:
            check_value(field.name, field.dataType)
        if topic_is_needed:
            raise ConfigurationError("node or topic is missing: give one, or columns 'topic' and 'payload'")
        return
    for field in schema:
        _check_column(field.name, field.dataType)
    if topic_is_needed and "topic" not in names:
        raise ConfigurationError("node or topic is missing: give one, or a column 'topic'")


def _check_column(name: str, kind: DataType) -> None:
    if name == PAYLOAD:
        check_value(name, kind)
        return
    if name not in METADATA:
        raise ConfigurationError(
            f"column {name!r} has no place beside 'payload': there are {', '.join(METADATA)}; "
            "or make it part of the payload: struct(…) AS payload"
        )
    expected, is_text = METADATA[name], kind.simpleString()
    if is_text != expected and not (expected == "int" and is_text in _WHOLE):
        raise ConfigurationError(f"column {name!r} is {is_text}: it must be {expected}")


def check_value(path: str, kind: DataType, depth: int = 0) -> None:
    """Raises ConfigurationError for a type that no message holds."""
    text = kind.simpleString().partition("(")[0].partition("<")[0].partition(" ")[0]
    if text in _PLAIN:
        return
    if depth >= MAX_VALUE_DEPTH - 1:
        raise ConfigurationError(f"column {path!r} is nested deeper than {MAX_VALUE_DEPTH}")
    if text == "array":
        check_value(f"{path}[]", kind.elementType, depth + 1)
    elif text == "struct":
        for field in kind:
            check_value(f"{path}.{field.name}", field.dataType, depth + 1)
    elif text == "map" and kind.keyType.simpleString() in _WHOLE | {"string"}:
        check_value(f"{path}.*", kind.valueType, depth + 1)
    else:
        raise ConfigurationError(f"column {path!r} is {kind.simpleString()}, which no message holds: cast it first")


class _Metadata(NamedTuple):
    """What a row says beside its payload; None where it says nothing."""

    message_id: str | None = None
    topic: str | None = None
    priority: int | None = None
    ttl_seconds: int | None = None
    correlation_id: str | None = None
    causality_parent: str | None = None
    traceparent: str | None = None
    content_type: str | None = None
    headers: dict[str, str] | None = None

    def is_plain(self) -> bool:
        """Whether its message may be one of a series."""
        one_each = (self.correlation_id, self.causality_parent, self.traceparent)
        return (
            one_each == (None, None, None)
            and not self.headers
            and (self.message_id is None or (len(self.message_id) == 36 and self.message_id.isascii()))
        )


class RowEncoder:
    """Encodes the rows of one partition. ``ids`` gives each row its id, by its number in the partition."""

    def __init__(self, ids: MessageIds, topic: str | None, content_type: str | None, publisher: str) -> None:
        self.rows = 0
        self._ids = ids
        self._topic = topic
        self._content_type = content_type
        self._publisher = publisher
        self._series: dict[Any, MessageSeries] = {}

    def encode(self, batch: pa.RecordBatch) -> Iterator[tuple[str, list[bytes]]]:
        """The messages of ``batch`` in its order, as runs of one topic. Raises what names the row."""
        first, self.rows = self.rows, self.rows + batch.num_rows
        ids = self._ids.take(first, batch.num_rows)
        payloads, content_type = _payloads(batch, self._content_type, first)
        now_ms = time.time_ns() // 1_000_000
        self._series.clear()
        if PAYLOAD in batch.schema.names and batch.num_columns > 1:
            yield from self._encode_each(batch, first, ids, payloads, content_type, now_ms)
            return
        topic = self._topic or DEFAULT_TOPIC
        encode = self._series_of(_Metadata(topic=topic), content_type, now_ms).encode
        _check_payloads(payloads, first)
        yield topic, list(map(encode, ids, payloads))

    def _encode_each(
        self,
        batch: pa.RecordBatch,
        first: int,
        ids: Sequence[bytes],
        payloads: Sequence[bytes],
        content_type: str,
        now_ms: int,
    ) -> Iterator[tuple[str, list[bytes]]]:
        topic, run = "", list[bytes]()
        _check_payloads(payloads, first)
        for number, (row, message_id, data) in enumerate(
            zip(_metadata(batch, first), ids, payloads, strict=True), first
        ):
            if row.topic is None:
                row = row._replace(topic=self._topic)
            try:
                encoded = self._encode(row, message_id, data, row.content_type or content_type, now_ms)
            except SpeedError as error:
                raise type(error)(*_located(error, number)) from None
            assert row.topic is not None
            if run and row.topic != topic:
                yield topic, run
                run = []
            topic = row.topic
            run.append(encoded)
        if run:
            yield topic, run

    def _encode(self, row: _Metadata, message_id: bytes, data: bytes, content_type: str, now_ms: int) -> bytes:
        if row.topic is None:
            raise UnserialisableError("topic is null, and no option names one")
        if row.message_id is not None:
            message_id = row.message_id.encode()
        if row.is_plain():
            return self._series_of(row, content_type, now_ms).encode(message_id, data)
        return encode_message(
            data,
            topic=row.topic,
            namespace=DEFAULT_NAMESPACE,
            message_id=message_id.decode(),
            published_at_ms=now_ms,
            content_type=content_type,
            priority=row.priority,
            ttl_seconds=row.ttl_seconds,
            correlation_id=row.correlation_id,
            causality_parent=row.causality_parent,
            traceparent=row.traceparent,
            publisher_id=self._publisher,
            labels=row.headers,
        )

    def _series_of(self, row: _Metadata, content_type: str, now_ms: int) -> MessageSeries:
        key = (row.topic, row.priority, row.ttl_seconds, content_type)
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= _MAX_SERIES:
                self._series.clear()
            series = self._series[key] = MessageSeries(
                _content(content_type),
                now_ms,
                topic=row.topic or DEFAULT_TOPIC,
                namespace=DEFAULT_NAMESPACE,
                priority=row.priority,
                ttl_seconds=row.ttl_seconds,
                publisher_id=self._publisher,
            )
        return series


def _payloads(batch: pa.RecordBatch, content_type: str | None, first: int) -> tuple[list[bytes], str]:
    """The bytes of each row's payload, None for null, and their content type."""
    import pyarrow.types as is_type

    if PAYLOAD not in batch.schema.names:
        return packed_rows(values_of(batch, first), first), MSGPACK_TYPE
    column = batch.column(PAYLOAD)
    if is_type.is_string(column.type) or is_type.is_large_string(column.type):
        return _utf8(column, first), content_type or TEXT_TYPE
    if is_type.is_binary(column.type) or is_type.is_large_binary(column.type):
        return column.to_pylist(), content_type or BYTES_TYPE
    values = [row[PAYLOAD] for row in values_of(batch.select([PAYLOAD]), first)]
    return packed_rows(values, first), MSGPACK_TYPE


def _utf8(column: pa.Array, first: int) -> list[bytes]:
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        values_of(pa.RecordBatch.from_arrays([column], [PAYLOAD]), first)  # which row it is
    texts: list[bytes] = column.cast(pa.binary()).to_pylist()
    return texts


def values_of(batch: pa.RecordBatch, first: int) -> list[dict[str, Any]]:
    """The rows of a batch that begins at row ``first``. Raises UnserialisableError, which names row and column."""
    from speed.spark.declared import MisfitError, rows_of

    try:
        return rows_of(batch)
    except MisfitError as error:
        raise UnserialisableError(f"row {first + error.row} of the partition: column {error}") from None


def packed_rows(values: Sequence[Any], first: int) -> list[bytes]:
    """Each value packed. Raises UnserialisableError, which names the row."""
    packed = []
    for row, value in enumerate(values):
        try:
            packed.append(pack(value, PAYLOAD, sound=True))
        except SpeedError as error:
            raise type(error)(*_located(error, first + row)) from None
    return packed


def _metadata(batch: pa.RecordBatch, first: int) -> Iterator[_Metadata]:
    absent = [None] * batch.num_rows
    names = batch.schema.names
    rows = values_of(batch.select([name for name in METADATA if name in names]), first)
    columns = ([row[name] for row in rows] if name in names else absent for name in METADATA)
    return map(_Metadata, *columns)


def _content(content_type: str) -> Content:
    """The content type alone."""
    return encode_content({}) if content_type == MSGPACK_TYPE else encode_content(b"", content_type)


def _check_payloads(payloads: Sequence[bytes | None], first: int) -> None:
    """Raises for the first row whose payload is null, or too large for any message."""
    if None in payloads:
        raise UnserialisableError(f"row {first + payloads.index(None)} of the partition: payload is null")
    sizes = [len(payload) for payload in payloads if payload is not None]
    if sizes and max(sizes) > MAX_PAYLOAD_BYTES:
        number = next(at for at, size in enumerate(sizes) if size > MAX_PAYLOAD_BYTES)
        raise PayloadTooLargeError(
            f"row {first + number} of the partition: the payload has {sizes[number]} bytes; "
            f"the limit is {MAX_PAYLOAD_BYTES}"
        )


def _located(error: SpeedError, number: int) -> tuple[str, ...]:
    where = f"row {number} of the partition: {error}"
    return (error.reason, where) if isinstance(error, WireError) else (where,)
