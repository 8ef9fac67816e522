"""Recorded messages, and those of durable topics, as Arrow record batches, built column by column."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as is_type

from speed.errors import ConfigurationError, SpeedError, WireError
from speed.message.compression import decompress, is_read
from speed.message.errors import CompressionError, SchemaError
from speed.message.schemas.registry import SchemasAwayError
from speed.message.view import DEFAULT_PRIORITY
from speed.spark.declared import array_of
from speed.spark.source.scan import (
    Array,
    BatchRowError,
    MessageHead,
    MessageScan,
    Payloads,
    Scanned,
    UnfitBatchError,
    has_batches,
    unbatched,
)
from speed.spark.source.schemas import Schemas
from speed.wire.journal import FLAG_REDELIVERED, RECORD_BYTES
from speed.wire.limits import MAX_JSON_DEPTH
from speed.wire.text import read_json
from speed.wire.topic import DEAD_LETTER, MESSAGE, TOMBSTONE, KeptMessage, decode
from speed.wire.value import (
    AVRO_TYPE,
    BYTES_TYPE,
    JSON_TYPE,
    MSGPACK_TYPE,
    PROTOBUF_TYPE,
    TEXT_TYPE,
    unpack,
    unpack_unchecked_map,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from speed.journal import Block, LaneInfo
    from speed.spark.source.options import ReadOptions


# The columns that reading gives, and what is wrong with those that were asked for.

PAYLOAD = "payload"
MESSAGE_COLUMNS = {
    "message_id": "string",
    "kind": "string",
    "topic": "string",
    "inbox": "string",
    "source": "string",
    "published_at": "timestamp",
    "recorded_at": "timestamp",
    "priority": "int",
    "ttl_seconds": "bigint",
    "content_type": "string",
    "content_encoding": "string",
    "correlation_id": "string",
    "causality_parent": "string",
    "trace_id": "string",
    "headers": "map<string,string>",
    "lane": "string",
    "offset": "bigint",
    "redelivered": "boolean",
    "batch_index": "int",
}
"""Of each message, beside its payload. ``kind`` is topic or inbox; ``headers`` are the labels of the message;
``batch_index`` is the number of a payload in its batch, from 0, null of one that travelled alone."""

CALL_COLUMNS = {
    "answered_at": "timestamp",
    "service": "string",
    "caller": "string",
    "microseconds": "bigint",
    "outcome": "string",
    "source": "string",
    "lane": "string",
    "offset": "bigint",
}
"""Of each answered call; never what was said."""

TOPIC_COLUMNS = {
    "topic": "string",
    "offset": "bigint",
    "recorded_at": "timestamp",
    "kind": "string",
    "key": "string",
    "publisher": "string",
    "producer": "string",
    "sequence": "bigint",
    "properties": "map<string,string>",
    "due_at": "timestamp",
    "attempts": "int",
    "content_type": "string",
    "lane": "string",
}
"""Of each message of a durable topic. ``kind`` is message, tombstone or dead letter; only these have ``attempts``."""


def default_schema(options: ReadOptions) -> str:
    """What comes if the program asks for no schema, as DDL, which Spark parses."""
    if options.calls:
        return _ddl(CALL_COLUMNS)
    kind = f"struct<{options.payload_schema}>" if options.payload_schema else options.payload
    return _ddl({**_known(options), PAYLOAD: kind})


def _known(options: ReadOptions) -> dict[str, str]:
    if options.calls:
        return CALL_COLUMNS
    return TOPIC_COLUMNS if options.durable else MESSAGE_COLUMNS


def check_schema(schema: StructType, options: ReadOptions) -> None:
    """Raises ConfigurationError for a schema that was asked for and cannot come."""
    known = _known(options)
    for field in schema:
        expected, requested = known.get(field.name), field.dataType.simpleString()
        if expected is not None and requested != expected:
            raise ConfigurationError(f"column {field.name!r} is asked for as {requested}: it is {expected}")
        if expected is None and options.calls:
            raise ConfigurationError(f"the call log has no column {field.name!r}; it has {', '.join(CALL_COLUMNS)}")
        if expected is None and not field.nullable:
            raise ConfigurationError(f"column {field.name!r} is NOT NULL: a payload may lack it")
    if options.payload_schema and PAYLOAD not in schema.names:
        raise ConfigurationError("a schema and payloadSchema are both given: name the payload's columns in one of them")


def _ddl(columns: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


UNKNOWN = Schemas()
"""No schema is known."""


class PayloadError(SpeedError):
    """A payload is not what the query's schema says; nothing else is wrong with its message."""

    code = "PAYLOAD"


class RecordBatches(ABC):
    """Makes record batches of one schema out of the records of one lane."""

    columns: ClassVar[Mapping[str, str]]
    """What is known of each record; every other column but ``payload`` is a field of the payload."""

    def __init__(self, schema: pa.Schema, lane: LaneInfo, on_error: str, schemas: Schemas = UNKNOWN) -> None:
        """``on_error``: ``raise`` PayloadError, or ``null`` for what does not fit."""
        self._schemas = schemas
        self._schema = schema
        self._lane = lane
        self._on_error = on_error
        self._metadata = [name for name in schema.names if name in self.columns]
        self._fields = [field for field in schema if field.name not in self.columns and field.name != PAYLOAD]

    def batches(self, blocks: Iterable[Block], rows: int) -> Iterator[pa.RecordBatch]:
        """A batch of each so many rows or bytes of blocks. Raises WireError and PayloadError: lane and offset."""
        for some in _gathered(blocks, rows):
            yield from self._batches(Records.of(some))

    def batches_of(self, records: Records) -> Iterator[pa.RecordBatch]:
        """Of these records. Raises as ``batches``."""
        return self._batches(records)

    def _batches(self, records: Records) -> Iterator[pa.RecordBatch]:
        """One batch; more if its payloads would take too much memory once they are decompressed."""
        columns, payloads = self._read(records)
        if records.rows > 1 and payloads.decompressed_bytes > _DECOMPRESSED_BYTES:
            middle = records.rows // 2
            yield from self._batches(records.between(0, middle))
            yield from self._batches(records.between(middle, records.rows))
        else:
            yield self._batch(records, columns, payloads)

    def _batch(self, records: Records, columns: dict[str, pa.Array], payloads: Payloads) -> pa.RecordBatch:
        if PAYLOAD in self._schema.names:
            columns[PAYLOAD] = self._payload(self._schema.field(PAYLOAD).type, records, payloads)
        if self._fields:
            kind = pa.struct(self._fields)
            decoded = self._payload(kind, records, payloads)
            columns.update(zip((field.name for field in self._fields), decoded.flatten(), strict=True))
        arrays = [columns[name] for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    @abstractmethod
    def _read(self, records: Records) -> tuple[dict[str, pa.Array], Payloads]:
        """The columns that are known and asked for, and the payloads."""

    def _place(self, records: Records, row: int) -> str:
        lane = self._lane
        return f"{lane.kind} {lane.subject} from {lane.source}, lane {lane.id}, offset {records.offsets[row]}"

    def _of_place(self, name: str, records: Records) -> pa.Array | None:
        """What lane and record say without their messages; None for what they do not say."""
        kind = self._schema.field(name).type
        if name in _OF_LANE:
            return pa.repeat(pa.scalar(_OF_LANE[name](self._lane), kind), len(records.offsets))
        if name in _OF_RECORD:
            return pa.array(_OF_RECORD[name](records), kind)
        return times(records.table["recorded_ms"], kind) if name == "recorded_at" else None

    def _payload(self, kind: pa.DataType, records: Records, payloads: Payloads) -> pa.Array:
        try:
            return self._decoded(kind, payloads)
        except SchemasAwayError:
            raise  # it is no fault of a payload, and may be over soon
        except _UNFIT:
            rows = range(len(payloads.kinds))
            return pa.concat_arrays([self._one_payload(kind, records, payloads, row) for row in rows])

    def _one_payload(self, kind: pa.DataType, records: Records, payloads: Payloads, row: int) -> pa.Array:
        """An array of one; PayloadError, or a null, if it does not fit."""
        one = payloads.one(row)
        try:
            return self._decoded(kind, one)
        except SchemasAwayError:
            raise
        except _UNFIT as error:
            if self._on_error == "null":
                return pa.nulls(1, kind)
            where = self._place(records, int(one.places[0]))
            content_type, size = one.heads[0].content_type, len(one.values[0].as_py())
            raise PayloadError(
                f"{where}: the payload ({content_type}, {size} bytes) does not fit {kind}: "
                f"{_why(error)}; onError=null makes it null"
            ) from None

    def _decoded(self, kind: pa.DataType, payloads: Payloads) -> pa.Array:
        """The payloads as binary, as text, or decoded; one of _UNFIT where one is something else."""
        if is_type.is_binary(kind):
            return payloads.values
        if is_type.is_string(kind) and not any(map(_is_packed, payloads.heads)):
            return payloads.values.cast(kind)
        decoders = [self._decoder(head, kind) for head in payloads.heads]
        values = [None if payload is None else decoders[number](payload) for number, payload in _numbered(payloads)]
        array = array_of(values, kind)
        if array.null_count > payloads.values.null_count and is_type.is_struct(kind):
            raise TypeError("it is null")
        return array

    def _decoder(self, head: MessageHead, kind: pa.DataType) -> Callable[[bytes], Any]:
        if is_type.is_string(kind) and not _is_packed(head):
            return bytes.decode
        return _decoder(head, kind, self._schemas)


class MessageBatches(RecordBatches):
    """Of messages and events."""

    columns = MESSAGE_COLUMNS

    def __init__(self, schema: pa.Schema, lane: LaneInfo, on_error: str, schemas: Schemas = UNKNOWN) -> None:
        super().__init__(schema, lane, on_error, schemas)
        self._scan = MessageScan()

    def _read(self, records: Records) -> tuple[dict[str, pa.Array], Payloads]:
        scanned = self._scanned(records)
        columns = {name: self._column(name, records, scanned) for name in self._metadata}
        payloads = Payloads(scanned.heads, scanned.kinds, scanned.payloads, np.arange(records.rows))
        return columns, payloads

    def _batch(self, records: Records, columns: dict[str, pa.Array], payloads: Payloads) -> pa.RecordBatch:
        if has_batches(payloads):
            columns, payloads = self._unbatched(records, columns, payloads)
        return super()._batch(records, columns, payloads)

    def _unbatched(
        self, records: Records, columns: dict[str, pa.Array], payloads: Payloads
    ) -> tuple[dict[str, pa.Array], Payloads]:
        """A row for each payload of a batch."""
        try:
            payloads, numbers = unbatched(payloads, skip_unfit=self._on_error == "null")
        except UnfitBatchError as error:
            where = self._place(records, error.row)
            raise PayloadError(f"{where}: {error}; onError=null makes it null") from None
        places = pa.array(payloads.places)
        columns = {name: column.take(places) for name, column in columns.items()}
        kinds = pa.array(payloads.kinds)
        for name in columns.keys() & {"content_type", "content_encoding"}:
            columns[name] = pa.array([getattr(head, name) for head in payloads.heads], pa.string()).take(kinds)
        if "batch_index" in columns:
            columns["batch_index"] = pa.array(numbers, pa.int32())
        return columns, payloads

    def _scanned(self, records: Records) -> Scanned:
        try:
            return self._scan.read(records.messages, records.sizes)
        except BatchRowError as error:
            raise WireError(error.reason, f"{self._place(records, error.row)}: {error}") from None

    def _column(self, name: str, records: Records, scanned: Scanned) -> pa.Array:
        found = self._of_place(name, records)
        if found is not None:
            return found
        kind = self._schema.field(name).type
        if name == "published_at":
            return times(scanned.published_at_ms, kind)
        if name == "batch_index":
            return pa.nulls(records.rows, kind)
        if name == "message_id":
            return scanned.message_ids.cast(kind)
        return _of_heads(_OF_HEAD[name], scanned, kind)


class Records(NamedTuple):
    """What the blocks of a batch say of their records, as arrays, and their messages one behind the other."""

    offsets: Array
    table: Array
    messages: bytes

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> Records:
        """All records of these blocks."""
        offsets: Array = np.concatenate([_offsets(block) for block in blocks])
        table: Array = np.frombuffer(b"".join(block.table for block in blocks), _TABLE)
        return cls(offsets, table, b"".join(block.messages for block in blocks))

    @classmethod
    def listed(cls, rows: Sequence[tuple[int, int, bytes]]) -> Records:
        """Offset, time of recording in Unix ms, and message of each; offsets may have gaps."""
        table: Array = np.zeros(len(rows), _TABLE)
        table["recorded_ms"] = [recorded_ms for _, recorded_ms, _ in rows]
        table["bytes"] = [len(message) for *_, message in rows]
        return cls(np.array([row[0] for row in rows], np.int64), table, b"".join(row[2] for row in rows))

    @property
    def sizes(self) -> Array:
        """How many bytes each message has."""
        sizes: Array = self.table["bytes"].astype(np.int64)
        return sizes

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.offsets)

    def between(self, start: int, end: int) -> Records:
        """Some of them."""
        begin, stop = int(self.sizes[:start].sum()), int(self.sizes[:end].sum())
        return Records(self.offsets[start:end], self.table[start:end], self.messages[begin:stop])


_TABLE = np.dtype([("sequence", ">u8"), ("recorded_ms", ">u8"), ("bytes", ">u4"), ("flags", ">u4")])
"""The table of records at the head of a block, as the contract lays it out."""
assert _TABLE.itemsize == RECORD_BYTES
_BATCH_BYTES = 1 << 22
"""Of messages; a single block may have more."""
_DECOMPRESSED_BYTES = 1 << 26
"""Of payloads; a single one may have as much."""


def _gathered(blocks: Iterable[Block], rows: int) -> Iterator[list[Block]]:
    """Blocks that make a batch; each has a record, and at most ``rows``."""
    some: list[Block] = []
    for block in blocks:
        if not block.rows:
            continue
        filled = sum(one.rows for one in some), sum(len(one.messages) for one in some)
        if some and (filled[0] + block.rows > rows or filled[1] + len(block.messages) > _BATCH_BYTES):
            yield some
            some = []
        some.append(block)
    if some:
        yield some


def _offsets(block: Block) -> Array:
    return np.array(block.offsets) if block.left_out else np.arange(block.offset, block.end)


_UNFIT = (pa.ArrowException, WireError, CompressionError, SchemaError, TypeError, ValueError, OverflowError)

_OF_LANE: dict[str, Callable[[Any], str | None]] = {
    "kind": lambda lane: lane.kind,
    "source": lambda lane: lane.source,
    "lane": lambda lane: lane.id,
    "inbox": lambda lane: lane.subject if lane.kind == "inbox" else None,
}
_OF_RECORD: dict[str, Callable[[Records], Any]] = {
    "offset": lambda records: records.offsets,
    "redelivered": lambda records: (records.table["flags"] & FLAG_REDELIVERED) != 0,
}
_OF_HEAD: dict[str, Callable[[MessageHead], Any]] = {
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


def _of_heads(pick: Callable[[MessageHead], Any], scanned: Scanned, kind: pa.DataType) -> pa.Array:
    """One value a message, made once for each head."""
    values = pa.array(list(map(pick, scanned.heads)), kind)
    if values.null_count == len(values):
        return pa.nulls(len(scanned.kinds), kind)
    return values.take(pa.array(scanned.kinds))


def times(unix_ms: Any, kind: pa.DataType) -> pa.Array:
    """Milliseconds as Spark's microseconds."""
    return pa.array(unix_ms.astype(np.int64)).cast(pa.timestamp("ms", kind.tz)).cast(kind)


def _numbered(payloads: Payloads) -> Iterator[tuple[int, bytes | None]]:
    return zip(payloads.kinds.tolist(), payloads.values.to_pylist(), strict=True)


def _is_packed(head: MessageHead) -> bool:
    """Whether its payloads are values in msgpack, whose bytes are no text even where they look like one."""
    return head.content_type == MSGPACK_TYPE and head.content_encoding == "none" and not head.is_encrypted


def _decoder(head: MessageHead, kind: pa.DataType, schemas: Schemas) -> Callable[[bytes], Any]:
    """What decodes a payload of this content type; ValueError if nothing here does."""
    if head.is_encrypted:
        raise ValueError("it is encrypted; read it as binary")
    if head.content_encoding == "none":
        return _plain_decoder(head, kind, schemas)
    if not is_read(head.content_encoding):
        raise ValueError(f"its encoding, {head.content_encoding}, is not read here; read it as binary")
    decode = _plain_decoder(head, kind, schemas)
    return lambda payload: decode(bytes(decompress(head.content_encoding, payload, head.uncompressed_bytes)))


def _plain_decoder(head: MessageHead, kind: pa.DataType, schemas: Schemas) -> Callable[[bytes], Any]:
    if head.content_type == MSGPACK_TYPE:
        return _unpacked_map if is_type.is_struct(kind) else unpack
    if head.content_type in (JSON_TYPE, TEXT_TYPE):
        return _read_written if _has_decimals(kind) else _read_json
    if head.content_type in (AVRO_TYPE, PROTOBUF_TYPE):
        return schemas.decoder(head, kind)
    raise ValueError("its content type has no columns; read it as binary")


def _unpacked_map(payload: bytes) -> dict[str, Any]:
    """Arrow looks at the values of the fields that are wanted itself."""
    return unpack_unchecked_map(payload, "payload")


def _read_json(payload: bytes) -> Any:
    return read_json(payload, MAX_JSON_DEPTH)


def _read_written(payload: bytes) -> Any:
    """Decimals have all digits that stand there."""
    return read_json(payload, MAX_JSON_DEPTH, written=True)


def _has_decimals(kind: pa.DataType) -> bool:
    return is_type.is_decimal(kind) or any(_has_decimals(kind.field(at).type) for at in range(kind.num_fields))


def _why(error: BaseException) -> str:
    """Why it does not fit, without the values that Arrow quotes: payloads are in no message."""
    if isinstance(error, json.JSONDecodeError):
        return "it is no JSON"
    if isinstance(error, UnicodeError):
        return "it is not UTF-8"
    if isinstance(error, WireError | CompressionError | SchemaError | ValueError) and not isinstance(
        error, pa.ArrowException
    ):
        return str(error)
    return "it, or a field of it, is of another type"


_KINDS = {MESSAGE: "message", TOMBSTONE: "tombstone", DEAD_LETTER: "dead letter"}
_TYPES = (MSGPACK_TYPE, TEXT_TYPE, BYTES_TYPE)
_TEXTS = frozenset([*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB])
_BYTES = frozenset([0xC4, 0xC5, 0xC6])
"""First bytes of texts and bytes in msgpack."""

_COLUMNS: dict[str, Callable[[KeptMessage], Any]] = {
    "kind": lambda kept: _KINDS[kept.head.type],
    "key": lambda kept: kept.about.get("key"),
    "publisher": lambda kept: kept.about.get("publisher"),
    "producer": lambda kept: kept.about.get("producer"),
    "sequence": lambda kept: kept.head.sequence or None,
    "properties": lambda kept: list(kept.about.get("properties", {}).items()),
    "attempts": lambda kept: kept.head.attempts,
}


class TopicBatches(RecordBatches):
    """Of the messages of one durable topic."""

    columns = TOPIC_COLUMNS

    def _read(self, records: Records) -> tuple[dict[str, pa.Array], Payloads]:
        messages = self._messages(records)
        values = [_plain(kept.payload) for kept in messages]
        kinds: Any = np.fromiter((number for number, _ in values), np.int32, len(values))
        data = pa.array([data for _, data in values], pa.binary())
        payloads = self._with_schemas(messages, Payloads(_HEADS, kinds, data, np.arange(len(values))))
        return {name: self._column(name, records, messages, kinds) for name in self._metadata}, payloads

    def _with_schemas(self, messages: Sequence[KeptMessage], payloads: Payloads) -> Payloads:
        """Bytes as what their messages' properties say that they are, or else what the schema file is of."""
        kinds_of: dict[MessageHead, int] = {head: number for number, head in enumerate(payloads.heads)}
        kinds = payloads.kinds.copy()
        for row in np.flatnonzero(kinds == _TYPES.index(BYTES_TYPE)).tolist():
            head = _head_of_bytes(messages[row].about.get("properties", {}), self._schemas.content_type)
            kinds[row] = kinds_of.setdefault(head, len(kinds_of))
        return payloads._replace(heads=list(kinds_of), kinds=kinds)

    def _messages(self, records: Records) -> list[KeptMessage]:
        ends = np.cumsum(records.sizes).tolist()
        messages = []
        for row, (start, end) in enumerate(pairwise([0, *ends])):
            try:
                messages.append(decode(records.messages[start:end]))
            except WireError as error:
                raise WireError(error.reason, f"{self._place(records, row)}: {error}") from None
        return messages

    def _column(self, name: str, records: Records, messages: Sequence[KeptMessage], kinds: Any) -> pa.Array:
        found = self._of_place(name, records)
        if found is not None and name not in _COLUMNS:
            return found
        kind = self._schema.field(name).type
        if name == "topic":
            return pa.repeat(pa.scalar(self._lane.subject, kind), len(messages))
        if name == "due_at":
            due: Any = np.array([kept.head.due_ms for kept in messages], np.int64)
            return pa.array(due, mask=due == 0).cast(pa.timestamp("ms", kind.tz)).cast(kind)
        if name == "content_type":
            return pa.array(_TYPES, kind).take(pa.array(kinds))
        return pa.array([_COLUMNS[name](kept) for kept in messages], kind)


def _plain(payload: bytes) -> tuple[int, bytes | None]:
    """Which type a payload has, and its bytes: texts and bytes as they are, all else packed; None of a tombstone.

    One that cannot be read is told where it does not fit a column.
    """
    if not payload:
        return 0, None
    try:
        if payload[0] in _TEXTS:
            return 1, unpack(payload).encode()
        if payload[0] in _BYTES:
            return 2, unpack(payload)
    except WireError:
        pass
    return 0, payload


def _head_of_bytes(properties: Mapping[str, str], content_type: str) -> MessageHead:
    media_type = properties.get("content_type", "") or content_type or BYTES_TYPE
    name, version, hash_ = (properties.get(f"schema_{part}", "") for part in ("name", "version", "hash"))
    return _head(media_type)._replace(schema_name=name, schema_version=version, schema_hash=hash_)


def _head(content_type: str) -> MessageHead:
    return MessageHead("", content_type, "none", 0, DEFAULT_PRIORITY, None, None, None, None, (), False, "")


_HEADS = tuple(map(_head, _TYPES))
