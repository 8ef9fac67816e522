"""Recorded messages as Arrow record batches, built column by column."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as is_type

from speed.errors import SpeedError, WireError
from speed.spark.source.schema import MESSAGE_COLUMNS, PAYLOAD
from speed.wire.content import CONTENT_TYPES, JSON, MSGPACK_TYPE, TEXT_TYPE
from speed.wire.message_scan import Head, MessageScan, Scanned
from speed.wire.value import unpack, unpack_unchecked_map

if TYPE_CHECKING:
    from speed.journal import LaneInfo, Record

_JSON_TYPE = CONTENT_TYPES[JSON]


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

    def _scanned(self, records: Sequence[Record]) -> Scanned:
        try:
            return self._scan.read([record.message for record in records])
        except WireError:
            for record in records:
                try:
                    self._scan.read([record.message])
                except WireError as error:
                    raise WireError(error.reason, f"{self._place(record)}: {error}") from None
            raise

    def _place(self, record: Record) -> str:
        lane = self._lane
        return f"{lane.kind} {lane.subject} from {lane.source}, lane {lane.id}, offset {record.offset}"

    # --- metadata ---

    def _column(self, name: str, records: Sequence[Record], scanned: Scanned) -> pa.Array:
        kind = self._schema.field(name).type
        lane = self._lane
        if name in _OF_LANE:
            return pa.repeat(pa.scalar(_OF_LANE[name](lane), kind), len(records))
        if name in _OF_RECORD:
            return pa.array(list(map(_OF_RECORD[name], records)), kind)
        if name == "recorded_at":
            return _times([record.recorded_at_ms for record in records], kind)
        if name == "published_at":
            return _times(scanned.published_at_ms, kind)
        if name == "message_id":
            return pa.array(scanned.message_ids, pa.binary()).cast(kind)
        return _of_heads(_OF_HEAD[name], scanned.heads, kind)

    # --- payload ---

    def _payload(self, kind: pa.DataType, records: Sequence[Record], scanned: Scanned) -> pa.Array:
        try:
            return _payloads(kind, scanned.heads, scanned.payloads)
        except _UNFIT:
            rows = zip(records, scanned.heads, scanned.payloads, strict=True)
            return pa.concat_arrays([self._one_payload(kind, *row) for row in rows])

    def _one_payload(self, kind: pa.DataType, record: Record, head: Head, payload: bytes) -> pa.Array:
        """An array of one; PayloadError, or a null, if it does not fit."""
        try:
            return _payloads(kind, [head], [payload])
        except _UNFIT as error:
            if self._on_error == "null":
                return pa.nulls(1, kind)
            raise PayloadError(
                f"{self._place(record)}: the payload ({head.content_type}, {len(payload)} bytes) does not fit {kind}: "
                f"{_why(error)}; onError=null makes it null"
            ) from None


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


def _of_heads(pick: Callable[[Head], Any], heads: Sequence[Head], kind: pa.DataType) -> pa.Array:
    """One value a message, made once for all if they share their head."""
    first = heads[0]
    if heads[-1] is first and heads.count(first) == len(heads):
        return pa.repeat(pa.scalar(pick(first), kind), len(heads))
    return pa.array(list(map(pick, heads)), kind)


def _times(unix_ms: Sequence[int], kind: pa.DataType) -> pa.Array:
    """Milliseconds as Spark's microseconds."""
    return pa.array(unix_ms, pa.int64()).cast(pa.timestamp("ms", kind.tz)).cast(kind)


def _payloads(kind: pa.DataType, heads: Sequence[Head], payloads: Sequence[bytes]) -> pa.Array:
    """The payloads as binary, as text, or decoded; one of _UNFIT where one is something else."""
    if is_type.is_binary(kind):
        return pa.array(payloads, kind)
    if is_type.is_string(kind):
        return pa.array(payloads, pa.binary()).cast(kind)
    values, head, decode = [], None, _decoder(heads[0], kind)
    for now, payload in zip(heads, payloads, strict=True):
        if now is not head:
            head, decode = now, _decoder(now, kind)
        values.append(decode(payload))
    array = pa.array(values, kind)
    if array.null_count and is_type.is_struct(kind):
        raise TypeError("it is null")
    return array


def _decoder(head: Head, kind: pa.DataType) -> Callable[[bytes], Any]:
    """What decodes a payload of this content type; ValueError if nothing here does."""
    if head.is_encrypted or head.content_encoding != "none":
        raise ValueError("it is encrypted or compressed; read it as binary")
    if head.content_type == MSGPACK_TYPE:
        return _unpacked_map if is_type.is_struct(kind) else unpack
    if head.content_type in (_JSON_TYPE, TEXT_TYPE):
        return json.loads
    raise ValueError("its content type has no columns; read it as binary")


def _unpacked_map(payload: bytes) -> dict[str, Any]:
    """Arrow looks at the values of the fields that are wanted itself."""
    return unpack_unchecked_map(payload, "payload")


def _why(error: BaseException) -> str:
    """Why it does not fit, without the values that Arrow quotes: payloads are in no message."""
    if isinstance(error, json.JSONDecodeError):
        return "it is no JSON"
    if isinstance(error, WireError | ValueError) and not isinstance(error, pa.ArrowException | UnicodeError):
        return str(error)
    return "it, or a field of it, is of another type"
