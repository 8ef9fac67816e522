"""Many messages read at once, as arrays: what they have in common is read once.

What M-4 and M-5 refuse was refused when they came; it is not looked for again.

A message whose bytes are those of a head that is known, but for id, time and payload, is not parsed: comparing, and
finding where the parts lie, is done for all messages of a batch together. Any other is parsed by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from speed.errors import WireError
from speed.message.compression import decompress, is_read
from speed.message.errors import BatchError, CompressionError
from speed.message.options import split_batch
from speed.message.reader import MessageShape, shape_of
from speed.message.view import DEFAULT_PRIORITY, parse_records, text_map
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.records import ContentType, ObservabilityContext, ProtobufAny, tag_of
from speed.wire.text import are_trace_ids
from speed.wire.value import BATCH_TYPE, content_encoding_text, content_type_text

# What a message says, read once for many: most differ from those before in id, time and payload only.

(VALUE_TAG,) = tag_of(ProtobufAny.VALUE)
"""What stands between the two lengths of a payload."""


class MessageHead(NamedTuple):
    """What a message says beside id, time and payload."""

    topic: str
    content_type: str
    content_encoding: str
    uncompressed_bytes: int
    priority: int
    ttl_seconds: int | None
    correlation_id: str | None
    causality_parent: str | None
    trace_id: str | None
    labels: tuple[tuple[str, str], ...]
    is_encrypted: bool
    type_url: str
    schema_name: str = ""
    schema_version: str = ""
    schema_hash: str = ""

    def is_common(self) -> bool:
        """Whether other messages are likely to say the same."""
        return (self.correlation_id, self.causality_parent, self.trace_id) == (None, None, None) and not self.type_url


class Parsed(NamedTuple):
    """One message; the payload as it travelled."""

    head: MessageHead
    message_id: bytes
    published_at_ms: int
    payload: bytes


def parse_message(message: bytes) -> Parsed:
    """One message. WireError(BAD_MESSAGE) for bytes that are no message, or one that lacks a part."""
    envelope = parse_records(message)
    metadata = envelope.metadata
    if not metadata.message_id or metadata.published_at_ms <= 0 or not envelope.HasField("payload"):
        raise WireError("BAD_MESSAGE", "metadata or payload: is required")
    return Parsed(
        _head(message, envelope), metadata.message_id.encode(), metadata.published_at_ms, envelope.payload.value
    )


def _head(message: bytes, envelope: Any) -> MessageHead:
    metadata, trace, schema = envelope.metadata, envelope.observability, envelope.schema
    has = metadata.HasField
    return MessageHead(
        topic=metadata.topic,
        content_type=content_type_text(metadata.content_type, metadata.content_type_custom),
        content_encoding=content_encoding_text(metadata.content_encoding, metadata.content_encoding_custom),
        uncompressed_bytes=metadata.uncompressed_bytes,
        priority=metadata.priority or DEFAULT_PRIORITY,
        ttl_seconds=metadata.ttl_seconds or None,
        correlation_id=metadata.correlation_id if has("correlation_id") else None,
        causality_parent=metadata.causality_parent if has("causality_parent") else None,
        trace_id=trace.trace_id if are_trace_ids(trace.trace_id, trace.span_id) else None,
        labels=tuple(text_map(message, ObservabilityContext.LABELS).items())
        if envelope.HasField("observability")
        else (),
        is_encrypted=envelope.HasField("security") and envelope.security.HasField("encryption"),
        type_url=envelope.payload.type_url if metadata.content_type == ContentType.PROTOBUF else "",
        schema_name=schema.schema_name,
        schema_version=schema.schema_version,
        schema_hash=schema.schema_hash,
    )


Array = np.ndarray[Any, Any]

_MAX_SHAPES = 16
"""Known at once; and learned from one batch, since each is looked for in all of it."""
_MAX_LENGTH_BYTES = 5
_FRAME_BYTES = 2 * _MAX_LENGTH_BYTES + 1
_PADDING = bytes(16)
"""Behind the last message, so that what is looked at ends within the buffer."""
_ANY, _NOT_ASCII, _EXACT = 0x00, 0x80, 0xFF
"""Which bits of a byte must be those of a shape."""


class BatchRowError(WireError):
    """One message of a batch, ``row``, is none."""

    def __init__(self, error: WireError, row: int) -> None:
        super().__init__(error.reason, str(error))
        self.row = row


class Payloads(NamedTuple):
    """Payload i is what ``heads[kinds[i]]`` says, and of message ``places[i]``; they are binary, as they travelled."""

    heads: Sequence[MessageHead]
    kinds: Array
    values: pa.Array
    places: Array

    @property
    def decompressed_bytes(self) -> int:
        """What the compressed ones say that they hold; those that say too much are refused later."""
        sizes: Array = np.array([min(head.uncompressed_bytes, MAX_PAYLOAD_BYTES) for head in self.heads], np.int64)
        return int(sizes[self.kinds].sum()) if len(self.kinds) else 0

    def one(self, row: int) -> Payloads:
        """One payload alone."""
        head, place = self.heads[int(self.kinds[row])], self.places[row : row + 1]
        return Payloads([head], np.zeros(1, np.int32), self.values.slice(row, 1), place)


class Scanned(NamedTuple):
    """Messages, column by column. Message i says ``heads[kinds[i]]``; payloads are binary, as they travelled."""

    heads: list[MessageHead]
    kinds: Array
    message_ids: pa.Array
    published_at_ms: Array
    payloads: pa.Array


class _KnownShape(NamedTuple):
    """What messages of one shape say beside id, time and payload."""

    head: MessageHead
    shape: MessageShape


class MessageScan:
    """Reads batches of messages, and remembers heads. Its memory is bounded, whatever they hold. For one thread."""

    def __init__(self) -> None:
        self._known: list[_KnownShape] = []

    def read(self, messages: bytes, sizes: Array) -> Scanned:
        """Messages of ``sizes`` that lie one behind the other. Raises BatchRowError for one that is none."""
        batch = _ScannedBatch(messages, sizes)
        found = [known for known in self._known if batch.take(known)]
        for row in batch.left():
            if batch.kinds[row] >= 0:  # of a shape that was learned meanwhile
                continue
            known = batch.parse(row)
            if known is not None and len(found) < _MAX_SHAPES:
                batch.take(known)
                found.append(known)
        others = [known for known in self._known if known not in found]
        self._known = [*found, *others][:_MAX_SHAPES]
        return batch.scanned()


class _ScannedBatch:
    """What is known of each message: the number of its head (-1: not read yet), and where id and payload lie."""

    def __init__(self, messages: bytes, sizes: Array) -> None:
        self._messages = messages
        self._bytes = np.frombuffer(messages + _PADDING, np.uint8)
        self._ends = np.cumsum(sizes, dtype=np.int64)
        self._starts = self._ends - sizes
        self.kinds: Array = np.full(len(sizes), -1, np.int32)
        self._heads: dict[MessageHead, int] = {}
        places: Array = np.zeros((5, len(sizes)), np.int64)
        self._times, self._ids, self._id_ends, self._payloads, self._payload_ends = places
        self._parsed = bytearray()
        """Ids and payloads of messages that were parsed; they count as lying behind all messages."""

    def left(self) -> list[int]:
        """The messages that are not read yet."""
        rows: list[int] = np.flatnonzero(self.kinds < 0).tolist()
        return rows

    def take(self, known: _KnownShape) -> bool:
        """Read those that have this shape; whether there are any."""
        shape = known.shape
        rows = np.flatnonzero((self.kinds < 0) & (self._ends - self._starts > shape.end))
        if not len(rows):
            return False
        heads = self._windows(self._starts[rows], -(-shape.end // 8) * 8)
        fits = _have_shape(heads, shape)
        rows, heads = rows[fits], heads[fits]
        times = _varints(heads[:, shape.time_start : shape.time_end])
        begin = self._starts[rows] + shape.end
        frames = _frame_bytes(self._windows(begin, _FRAME_BYTES), self._ends[rows] - begin)
        fits = (times > 0) & (frames > 0)
        rows = rows[fits]
        self.kinds[rows] = self._kind(known.head)
        self._times[rows] = times[fits]
        self._ids[rows] = self._starts[rows] + shape.id_start
        self._id_ends[rows] = self._starts[rows] + shape.id_end
        self._payloads[rows] = begin[fits] + frames[fits]
        self._payload_ends[rows] = self._ends[rows]
        return len(rows) > 0

    def parse(self, row: int) -> _KnownShape | None:
        """Read one by itself; what others may have in common with it."""
        message = self._messages[self._starts[row] : self._ends[row]]
        try:
            head, message_id, self._times[row], payload = parse_message(message)
        except WireError as error:
            raise BatchRowError(error, row) from None
        self.kinds[row] = self._kind(head)
        self._ids[row], self._id_ends[row] = self._keep(message_id)
        self._payloads[row], self._payload_ends[row] = self._keep(payload)
        shape = shape_of(message) if head.is_common() else None
        return None if shape is None else _KnownShape(head, shape)

    def scanned(self) -> Scanned:
        """All of them."""
        data = pa.py_buffer(self._messages + self._parsed if self._parsed else self._messages)
        ids = _slices(data, self._ids, self._id_ends)
        payloads = _slices(data, self._payloads, self._payload_ends)
        return Scanned(list(self._heads), self.kinds, ids, self._times, payloads)

    def _kind(self, head: MessageHead) -> int:
        return self._heads.setdefault(head, len(self._heads))

    def _keep(self, data: bytes) -> tuple[int, int]:
        begin = len(self._messages) + len(self._parsed)
        self._parsed += data
        return begin, begin + len(data)

    def _windows(self, starts: Array, size: int) -> Array:
        """A row of ``size`` bytes from each of ``starts`` on."""
        found: Array = np.lib.stride_tricks.sliding_window_view(self._bytes, size)[starts]
        return found


def _have_shape(heads: Array, shape: MessageShape) -> Array:
    """Which of the rows have the bytes of a shape, an id of ASCII, and a whole varint as their time."""
    id_bytes, time_bytes = shape.id_end - shape.id_start, shape.time_end - shape.time_start
    parts = [
        (shape.before, _EXACT),
        (bytes(id_bytes), _NOT_ASCII),
        (shape.between, _EXACT),
        (b"\x80" * (time_bytes - 1) + b"\0", 0x80),
        (shape.after, _EXACT),
        (bytes(heads.shape[1] - shape.end), _ANY),
    ]
    wanted = np.frombuffer(b"".join(data for data, _ in parts), np.uint64)
    mask = np.frombuffer(b"".join(bytes([bits]) * len(data) for data, bits in parts), np.uint64)
    fit: Array = (((heads.view(np.uint64) ^ wanted) & mask) == 0).all(axis=1)
    return fit


def _varints(columns: Array) -> Array:
    """The numbers of varints that fill the rows."""
    numbers: Array = np.zeros(len(columns), np.int64)
    for place in range(columns.shape[1]):
        numbers |= (columns[:, place] & 0x7F).astype(np.int64) << 7 * place
    return numbers


def _frame_bytes(frames: Array, sizes: Array) -> Array:
    """How many bytes stand before each payload that fills ``sizes`` bytes with them; 0 if others than writers write."""
    outer = _width(sizes)
    inner = _width(sizes - outer - 1)
    found: Array = np.zeros(len(sizes), np.int64)
    for widths in np.unique(outer * 8 + inner).tolist():
        first, second = divmod(widths, 8)
        rows = np.flatnonzero(outer * 8 + inner == widths)
        frame, remaining = frames[rows], sizes[rows] - first
        fit = _are_varints(frame[:, :first], remaining)
        fit &= frame[:, first] == VALUE_TAG
        fit &= _are_varints(frame[:, first + 1 : first + 1 + second], remaining - 1 - second)
        found[rows[fit]] = first + 1 + second
    return found


def _width(sizes: Array) -> Array:
    """How many bytes of ``sizes`` a varint takes that tells how many are behind it."""
    width: Array = np.ones(len(sizes), np.int64)
    for more in range(1, _MAX_LENGTH_BYTES):
        width += sizes - (more + 1) >= 1 << 7 * more
    return width


def _are_varints(columns: Array, numbers: Array) -> Array:
    """Which rows are a varint that says its number."""
    last = columns.shape[1] - 1
    ends: Array = (columns[:, :last] >= 0x80).all(axis=1) & (columns[:, last] < 0x80)
    ends &= _varints(columns) == numbers
    return ends


def _slices(data: pa.Buffer, starts: Array, ends: Array) -> pa.Array:
    """Parts of ``data`` that do not overlap, as binary values.

    Arrow copies them: every second one of those that begin and end where a part does.
    """
    order = np.argsort(starts, kind="stable")
    bounds: Array = np.zeros(2 * len(starts) + 1, np.int32)
    bounds[:-1:2], bounds[1::2] = starts[order], ends[order]
    bounds[-1] = ends[order[-1]] if len(order) else 0
    every = pa.Array.from_buffers(pa.binary(), 2 * len(starts), [None, pa.py_buffer(bounds), data])
    places: Array = np.empty(len(starts), np.int64)
    places[order] = np.arange(0, 2 * len(starts), 2)
    return every.take(pa.array(places))


class UnfitBatchError(ValueError):
    """The batch of message ``row`` is none."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row = row


def has_batches(payloads: Payloads) -> bool:
    """Whether one of them is a batch that is read here."""
    return any(map(_is_batch, payloads.heads))


def unbatched(payloads: Payloads, *, skip_unfit: bool) -> tuple[Payloads, list[int | None]]:
    """A payload for each one of the batches, in their place, and the number of each in its batch.

    Raises UnfitBatchError; with ``skip_unfit`` such a batch stays as it is.
    """
    kinds_of: dict[MessageHead, int] = {head: number for number, head in enumerate(payloads.heads)}
    kinds, values, places, numbers = list[int](), list[bytes](), list[int](), list[int | None]()
    for row, (kind, payload) in enumerate(zip(payloads.kinds.tolist(), payloads.values.to_pylist(), strict=True)):
        for number, head, value in _parts(payloads.heads[kind], payload, row, skip_unfit):
            kinds.append(kinds_of.setdefault(head, len(kinds_of)))
            values.append(value)
            places.append(row)
            numbers.append(number)
    array: Array = np.array(kinds, np.int32)
    where: Array = np.array(places, np.int64)
    return Payloads(list(kinds_of), array, pa.array(values, pa.binary()), where), numbers


def _parts(
    head: MessageHead, payload: bytes, row: int, skip_unfit: bool
) -> Iterator[tuple[int | None, MessageHead, bytes]]:
    if not _is_batch(head):
        yield None, head, payload
        return
    try:
        parts = list(split_batch(memoryview(_plain(head, payload))))
    except (BatchError, CompressionError) as error:
        if not skip_unfit:
            raise UnfitBatchError(row, str(error)) from None
        yield None, head, payload
        return
    for number, (kind, type_url, part) in enumerate(parts):
        fields: dict[str, Any] = {
            "content_type": kind,
            "type_url": type_url,
            "content_encoding": "none",
            "uncompressed_bytes": 0,
        }
        yield number, head._replace(**fields), bytes(part)


def _plain(head: MessageHead, payload: bytes) -> bytes | bytearray:
    if head.content_encoding == "none":
        return payload
    return decompress(head.content_encoding, payload, head.uncompressed_bytes)


def _is_batch(head: MessageHead) -> bool:
    is_plain = head.content_encoding == "none" or is_read(head.content_encoding)
    return head.content_type == BATCH_TYPE and is_plain and not head.is_encrypted
