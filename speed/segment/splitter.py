"""A payload cut into segments, with parity, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from speed.errors import ConfigurationError, PayloadTooLargeError
from speed.segment.form import MAX_HEAD_BYTES, SHARD_UNIT, ByteSource, Memory, Segment, hash_all, steps
from speed.segment.parity import ParityEncoder
from speed.wire import lazily
from speed.wire.envelope import ENVELOPE_OVERHEAD
from speed.wire.limits import DATA_SEGMENT_BYTES, MAX_SEGMENTS, PARITY_RATE

_PARITY_BYTES = 1 << 24
"""Parity held at a time; what exceeds it is made in further passes over the data."""
_COLUMN_BYTES = 1 << 22
"""Data read at a time to make parity."""
_MANY = 240
"""Segments of a payload at most, where the sender chooses their size."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a payload is cut: ``data_count`` parts of ``segment_size`` bytes, and ``parity_count`` shards."""

    payload_bytes: int
    segment_size: int
    data_count: int
    parity_count: int


class Splitter:
    """Cuts payloads. Keeps nothing between them; may be used by several threads."""

    def __init__(self, segment_size: int, parity_rate: float = PARITY_RATE) -> None:
        """``segment_size``: most bytes of the payload in one segment; ``parity_rate``: parity for each data segment,
        0 for none. With parity, segments have the greatest multiple of 64 bytes that this permits.

        ConfigurationError when the size is below 1, or below 64 though parity is wanted.
        """
        if not 0 <= parity_rate <= 1:
            raise ConfigurationError(f"parity_rate {parity_rate} cannot be used: choose one from 0 to 1")
        least = SHARD_UNIT if parity_rate > 0 else 1
        if segment_size < least:
            raise ConfigurationError(
                f"segment_size {segment_size} cannot be used: choose at least {SHARD_UNIT} with parity, 1 without"
            )
        self.segment_size, self.parity_rate = segment_size // least * least, parity_rate
        self.most_bytes = segment_size * max(
            count for count in range(1, MAX_SEGMENTS + 1) if count + self._parity_count(count) <= MAX_SEGMENTS
        )
        """The largest payload that can be cut with this parity."""

    def shape(self, payload_bytes: int) -> Shape:
        """How a payload of this size is cut.

        PayloadTooLargeError if its data and the parity asked for need more than ``max_segments``.
        """
        if payload_bytes > self.most_bytes:
            raise PayloadTooLargeError(
                f"{payload_bytes} bytes exceed the {self.most_bytes} that fit into {MAX_SEGMENTS} segments of "
                f"{self.segment_size} bytes with a parity rate of {self.parity_rate:g}: send less, or use larger ones"
            )
        data_count = max(1, -(-payload_bytes // self.segment_size))
        return Shape(payload_bytes, self.segment_size, data_count, self._parity_count(data_count))

    def _parity_count(self, data_count: int) -> int:
        return min(ceil(data_count * self.parity_rate), data_count)

    def cut_bytes(self, payload_bytes: int) -> int:
        """What the segments of a payload of this size take at most, in their envelopes."""
        shape = self.shape(payload_bytes)
        segments = shape.data_count + shape.parity_count
        return payload_bytes + shape.parity_count * shape.segment_size + segments * (MAX_HEAD_BYTES + ENVELOPE_OVERHEAD)

    def split(
        self, payload: bytes | bytearray | memoryview | ByteSource, *, unordered: bool = False
    ) -> Iterator[Segment]:
        """Its segments, data first; a source is read twice, and once more for each 16 MiB of parity.

        ``unordered`` marks them: what comes behind the payload need not wait for it.
        """
        source = Memory(payload) if isinstance(payload, bytes | bytearray | memoryview) else payload
        segments = cut(source, self.shape(source.size))
        return (replace(segment, unordered=True) for segment in segments) if unordered else segments


def splitter_for(payload_bytes: int) -> Splitter:
    """How a payload is cut that is too large for an envelope, on a link without a segment size."""
    least = -(-payload_bytes // _MANY)
    return Splitter(max(DATA_SEGMENT_BYTES, -(-least // SHARD_UNIT) * SHARD_UNIT), 0)


def cut(source: ByteSource, shape: Shape, digest: bytes | None = None) -> Iterator[Segment]:
    """The segments of a payload, data first; ``digest`` is its hash, if that is known."""
    digest = digest or hash_all(steps(source, 0, source.size))
    for index in range(shape.data_count):
        begin = index * shape.segment_size
        part = source.read(begin, min(begin + shape.segment_size, source.size))
        yield Segment(digest, shape.data_count, shape.parity_count, index, False, part)
    for index, shard in enumerate(parity_shards(source, shape)):
        yield Segment(digest, shape.data_count, shape.parity_count, index, True, shard)


def parity_shards(source: ByteSource, shape: Shape) -> Iterator[memoryview]:
    """The parity shards of a payload, one after the other."""
    group = max(1, _PARITY_BYTES // shape.segment_size)
    for first in range(0, shape.parity_count, group):
        wanted = slice(first, min(first + group, shape.parity_count))
        for row in _parity_rows(source, shape, wanted):
            yield memoryview(row)


def _parity_rows(source: ByteSource, shape: Shape, wanted: slice) -> Any:
    with lazily.guard:
        import numpy as np

    encoder = ParityEncoder(shape.data_count, shape.parity_count)
    rows = np.empty((wanted.stop - wanted.start, shape.segment_size), np.uint8)
    width = max(_COLUMN_BYTES // shape.data_count // SHARD_UNIT, 1) * SHARD_UNIT
    for begin in range(0, shape.segment_size, width):
        end = min(begin + width, shape.segment_size)
        rows[:, begin:end] = encoder.encode(_columns(source, shape, begin, end))[wanted]
    return rows


def _columns(source: ByteSource, shape: Shape, begin: int, end: int) -> Any:
    with lazily.guard:
        import numpy as np

    columns: Any = np.zeros((shape.data_count, end - begin), np.uint8)
    for index, row in enumerate(columns):
        start = index * shape.segment_size
        part = source.read(min(start + begin, source.size), min(start + end, source.size))
        row[: len(part)] = np.frombuffer(part, np.uint8)
    return columns
