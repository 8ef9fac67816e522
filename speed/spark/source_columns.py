"""Recorded messages as Arrow record batches, built column by column."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as is_type

from speed.errors import SpeedError, WireError
from speed.spark.source_schema import MESSAGE_COLUMNS, PAYLOAD
from speed.wire.content import CONTENT_TYPES, JSON, MSGPACK_TYPE, TEXT_TYPE
from speed.wire.message_scan import Head, MessageScan, Scanned
from speed.wire.value import unpack

if TYPE_CHECKING:
    from speed.journal import LaneInfo, Record

_JSON_TYPE = CONTENT_TYPES[JSON]
_DECODED = frozenset({MSGPACK_TYPE, _JSON_TYPE, TEXT_TYPE})


class PayloadError(SpeedError):
    """A payload is not what the query's schema says; nothing else is wrong with its message."""

    code = "PAYLOAD"


class MessageBatches:
    """Makes record batches of one schema out of the records of one lane."""

    def __init__(self, schema: pa.Schema, lane: LaneInfo, on_error: str) -> None:
        """``on_error``: ``raise`` PayloadError, or ``null`` for what does not fit."""
        self._schema = schema
        self._lane = lane
        self._on_error = on_error
        self._scan = MessageScan()
        self._metadata = [name for name in schema.names if name in MESSAGE_COLUMNS]
        self._fields = [field for field in schema if field.name not in MESSAGE_COLUMNS and field.name != PAYLOAD]

    def batches(self, records: Iterable[Record], rows: int) -> Iterator[pa.RecordBatch]:
        """Batches of at most ``rows`` rows. Raises WireError and PayloadError, which name lane and offset."""
        records = iter(records)
        while some := list(islice(records, rows)):
            yield self._batch(some)

    def _batch(self, records: Sequence[Record]) -> pa.RecordBatch:
        scanned = self._scanned(records)
        columns = {name: self._column(name, records, scanned) for name in self._metadata}
        if PAYLOAD in self._schema.names:
            columns[PAYLOAD] = self._payload(self._schema.field(PAYLOAD).type, records, scanned)
        if self._fields:
            kind = pa.struct(self._fields)
            decoded = self._payload(kind, records, scanned)
            columns.update(zip((field.name for field in self._fields), decoded.flatten(), strict=True))
        arrays = [columns[name] for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _scanned(self, records: Sequence[Record]) -> list[Scanned]:
        read, scanned = self._scan.read, []
        for record in records:
            try:
                scanned.append(read(record.message))
            except WireError as error:
                raise WireError(error.reason, f"{self._place(record)}: {error}") from None
        return scanned

    def _place(self, record: Record) -> str:
        lane = self._lane
        return f"{lane.kind} {lane.subject} from {lane.source}, lane {lane.id}, offset {record.offset}"

    # --- metadata ---

    def _column(self, name: str, records: Sequence[Record], scanned: Sequence[Scanned]) -> pa.Array:
        kind = self._schema.field(name).type
        lane = self._lane
        if name in _OF_LANE:
            return pa.repeat(pa.scalar(_OF_LANE[name](lane), kind), len(records))
        if name in _OF_RECORD:
            return pa.array(list(map(_OF_RECORD[name], records)), kind)
        if name == "recorded_at":
            return _times([record.recorded_at_ms for record in records], kind)
        if name == "published_at":
            return _times([message.published_at_ms for message in scanned], kind)
        if name == "message_id":
            return pa.array([message.message_id for message in scanned], pa.binary()).cast(kind)
        return _of_heads(_OF_HEAD[name], scanned, kind)

    # --- payload ---

    def _payload(self, kind: pa.DataType, records: Sequence[Record], scanned: Sequence[Scanned]) -> pa.Array:
        if is_type.is_binary(kind):
            return pa.array([message.payload for message in scanned], kind)
        if is_type.is_string(kind):
            make: Callable[[Sequence[Scanned]], pa.Array] = _texts
        else:

            def make(messages: Sequence[Scanned]) -> pa.Array:
                return pa.array([_value(message) for message in messages], kind)

        try:
            return _fitting(make(scanned), kind)
        except _UNFIT:
            return self._one_by_one(make, kind, records, scanned)

    def _one_by_one(
        self, make: Callable[..., pa.Array], kind: pa.DataType, records: Sequence[Record], scanned: Sequence[Scanned]
    ) -> pa.Array:
        """Find the payload that does not fit; or make each such one null."""
        parts = []
        for record, message in zip(records, scanned, strict=True):
            try:
                parts.append(_fitting(make([message]), kind))
            except _UNFIT as error:
                if self._on_error == "raise":
                    what = f"{message.head.content_type}, {len(message.payload)} bytes"
                    raise PayloadError(
                        f"{self._place(record)}: the payload ({what}) does not fit {kind}: {_why(error)}; "
                        "onError=null makes it null"
                    ) from None
                parts.append(pa.nulls(1, kind))
        return pa.concat_arrays(parts)


_UNFIT = (pa.ArrowException, WireError, TypeError, ValueError, OverflowError)

_OF_LANE: dict[str, Callable[[Any], str | None]] = {
    "kind": lambda lane: lane.kind,
    "source": lambda lane: lane.source,
    "lane": lambda lane: lane.id,
    "inbox": lambda lane: lane.subject if lane.kind == "inbox" else None,
}
_OF_RECORD: dict[str, Callable[[Any], Any]] = {
    "offset": lambda record: record.offset,
    "redelivered": lambda record: record.redelivered,
}
_OF_HEAD: dict[str, Callable[[Head], Any]] = {
    "topic": lambda head: head.topic,
    "priority": lambda head: head.priority,
    "ttl_seconds": lambda head: head.ttl_seconds,
    "content_type": lambda head: head.content_type,
    "content_encoding": lambda head: head.content_encoding,
    "correlation_id": lambda head: head.correlation_id,
    "causality_parent": lambda head: head.causality_parent,
    "trace_id": lambda head: head.trace_id,
    "headers": lambda head: head.labels,
}


def _of_heads(pick: Callable[[Head], Any], scanned: Sequence[Scanned], kind: pa.DataType) -> pa.Array:
    """One value a message, made once for all messages in a row that share their head."""
    first = scanned[0].head
    if all(message.head is first for message in scanned):
        return pa.repeat(pa.scalar(pick(first), kind), len(scanned))
    return pa.array([pick(message.head) for message in scanned], kind)


def _times(unix_ms: Sequence[int], kind: pa.DataType) -> pa.Array:
    """Milliseconds as Spark's microseconds."""
    return pa.array(unix_ms, pa.int64()).cast(pa.timestamp("ms", kind.tz)).cast(kind)


def _texts(messages: Sequence[Scanned]) -> pa.Array:
    """The payloads as text."""
    return pa.array([message.payload for message in messages], pa.binary()).cast(pa.string())


def _value(message: Scanned) -> Any:
    """The payload's value; ValueError for what cannot be decoded here."""
    head = message.head
    if head.is_encrypted or head.content_encoding != "none":
        raise ValueError("it is encrypted or compressed; read it as binary")
    if head.content_type == MSGPACK_TYPE:
        return unpack(message.payload)
    if head.content_type in (_JSON_TYPE, TEXT_TYPE):
        return json.loads(message.payload)
    raise ValueError("its content type has no columns; read it as binary")


def _fitting(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type != kind:
        raise TypeError(f"it is {array.type}")
    return array


def _why(error: BaseException) -> str:
    """Why it does not fit, without the values that Arrow quotes: payloads are in no message."""
    if isinstance(error, json.JSONDecodeError):
        return "no JSON"
    if isinstance(error, pa.ArrowException):
        return "a field is of another type"
    return str(error) if isinstance(error, ValueError | WireError) else "a field is of another type"
