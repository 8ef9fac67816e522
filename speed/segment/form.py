"""One segment as bytes: ``SegmentMessageProto`` (G-1), what makes one valid (G-2), and its hash (G-3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from speed.errors import WireError
from speed.wire import lazily
from speed.wire.limits import MAX_SEGMENTS
from speed.wire.records import LENGTH_DELIMITED, VARINT, read_varint, tag_of, varint, walk
from speed.wire.records import SegmentMessageProto as Fields

# Keccak-256 as it was before SHA-3 changed its padding (G-3).

HASH_BYTES = 32


class Keccak(Protocol):
    """An incremental hash."""

    def update(self, data: bytes | memoryview, /) -> None: ...
    def digest(self) -> bytes: ...
    def copy(self) -> Keccak: ...


def new_keccak(data: bytes = b"") -> Keccak:
    """An incremental hash that begins with ``data``."""
    with lazily.guard:
        from sha3 import keccak_256

    begun: Keccak = keccak_256(data)
    return begun


def keccak256(*parts: bytes | memoryview) -> bytes:
    """The 32-byte hash of ``parts``, one behind the other."""
    return hash_all(parts)


def hash_all(parts: Iterable[bytes | memoryview]) -> bytes:
    """As ``keccak256``, of a stream of any size."""
    state = new_keccak()
    for part in parts:
        state.update(part)
    return state.digest()


SHARD_UNIT = 64
"""Shards are whole units of so many bytes (G-2, G-6)."""
MAX_HEAD_BYTES = 62
"""All fields but the payload, and the payload's tag and length (G-1)."""

_LOW_32 = (1 << 32) - 1
_MAX_VARINT_BYTES = 10


@dataclass(frozen=True, slots=True)
class Segment:
    """A valid segment.

    Attributes:
        hash: Keccak-256 of the whole payload, 32 bytes.
        data_count, parity_count: segments of the payload, and of its parity.
        index: its place among those of its kind, from 0.
        is_parity: whether it holds parity.
        payload: its part of the payload or of the parity.
        unordered: whether what its sender wrote behind the payload need not wait for it.
    """

    hash: bytes
    data_count: int
    parity_count: int
    index: int
    is_parity: bool
    payload: bytes | memoryview
    unordered: bool = False

    @property
    def slot(self) -> int:
        """Its place among all segments of the payload, parity behind the data."""
        return self.data_count + self.index if self.is_parity else self.index

    @property
    def is_last_data(self) -> bool:
        """Whether it may be shorter than the others."""
        return not self.is_parity and self.index == self.data_count - 1


def write_segment(segment: Segment) -> bytes:
    """A segment as the bytes that travel."""
    return b"".join((*segment_head(segment), segment.payload, segment_tail(segment)))


def segment_head(segment: Segment) -> tuple[bytes, ...]:
    """What stands before the payload's bytes, so that those need not be copied to be sent."""
    size = len(segment.payload)
    return (
        tag_of(Fields.ENTIRE_MESSAGE_HASH) + varint(HASH_BYTES),
        segment.hash,
        b"" if segment.is_parity else _number(Fields.DATA_SEGMENT_INDEX, segment.index),
        _number(Fields.DATA_SEGMENT_COUNT, segment.data_count),
        tag_of(Fields.PAYLOAD) + varint(size) if size else b"",
    )


def segment_tail(segment: Segment) -> bytes:
    """What stands behind the payload's bytes."""
    index = _number(Fields.PARITY_SEGMENT_INDEX, segment.index) if segment.is_parity else b""
    marks = _number(Fields.IS_PARITY, int(segment.is_parity)) + _number(Fields.UNORDERED, int(segment.unordered))
    return index + _number(Fields.PARITY_SEGMENT_COUNT, segment.parity_count) + marks


def read_segment(data: bytes | memoryview) -> Segment:
    """The segment that ``data`` holds; its payload is a part of ``data``, not a copy.

    Raises WireError with reason BAD_SEGMENT, which names the first field that is wrong.
    """
    fields: dict[int, int] = {}
    parts: dict[int, bytes | memoryview] = {}
    try:
        for field, kind, _, value, end in walk(data):
            if field > Fields.UNORDERED:  # nothing is kept of what is not known
                continue
            if kind == VARINT:
                fields[field] = read_varint(data, value, _MAX_VARINT_BYTES)[0] & ((1 << 64) - 1)
            elif kind == LENGTH_DELIMITED:
                parts[field] = data[value:end]
    except WireError as error:
        raise WireError("BAD_SEGMENT", str(error).removeprefix("BAD_MESSAGE: ")) from None
    return _checked(fields, bytes(parts.get(Fields.ENTIRE_MESSAGE_HASH, b"")), parts.get(Fields.PAYLOAD, b""))


def _checked(fields: dict[int, int], digest: bytes, payload: bytes | memoryview) -> Segment:
    is_parity = fields.get(Fields.IS_PARITY, 0) != 0
    data_index, data_count, parity_index, parity_count = (
        fields.get(field, 0) & _LOW_32
        for field in (
            Fields.DATA_SEGMENT_INDEX,
            Fields.DATA_SEGMENT_COUNT,
            Fields.PARITY_SEGMENT_INDEX,
            Fields.PARITY_SEGMENT_COUNT,
        )
    )
    if len(digest) != HASH_BYTES:
        raise _refused("entire_message_hash", f"has {len(digest)} bytes, not {HASH_BYTES}")
    if data_count == 0:
        raise _refused("data_segment_count", "is 0")
    if data_count + parity_count > MAX_SEGMENTS or (is_parity and parity_count == 0):
        raise _refused("parity_segment_count", f"{data_count} + {parity_count} segments are not allowed")
    if data_index >= (1 if is_parity else data_count):
        raise _refused("data_segment_index", f"{data_index} of {data_count} is not allowed")
    if parity_index >= (parity_count if is_parity else 1):
        raise _refused("parity_segment_index", f"{parity_index} of {parity_count} is not allowed")
    if (not payload and (is_parity or data_count > 1)) or (is_parity and len(payload) % SHARD_UNIT):
        raise _refused("payload", f"{len(payload)} bytes are not allowed")
    index, unordered = parity_index if is_parity else data_index, fields.get(Fields.UNORDERED, 0) != 0
    return Segment(digest, data_count, parity_count, index, is_parity, payload, unordered)


def _number(field: int, value: int) -> bytes:
    return tag_of(field, VARINT) + varint(value) if value else b""


def _refused(field: str, why: str) -> WireError:
    return WireError("BAD_SEGMENT", f"{field}: {why}")


STEP_BYTES = 1 << 20
"""Bytes that are read and hashed at a time."""


class ByteSource(Protocol):
    """A payload of ``size`` bytes; ``read`` gives those from ``begin`` to before ``end``."""

    @property
    def size(self) -> int: ...
    def read(self, begin: int, end: int) -> bytes | memoryview: ...


class Memory:
    """A payload that lies in memory; parts of it are not copied."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = memoryview(data).cast("B")

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, begin: int, end: int) -> memoryview:
        return self._data[begin:end]


def steps(source: ByteSource, begin: int, end: int) -> Iterator[bytes | memoryview]:
    """The bytes from ``begin`` to before ``end``, in parts of bounded size."""
    for at in range(begin, end, STEP_BYTES):
        yield source.read(at, min(at + STEP_BYTES, end))
