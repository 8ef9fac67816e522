"""A payload cut into segments, with parity, and put together from enough of them (G-3, G-10, G-11).

In bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, NamedTuple, Protocol

from speed.errors import ConfigurationError, PayloadTooLargeError, WireError
from speed.segment.form import (
    MAX_HEAD_BYTES,
    SHARD_UNIT,
    STEP_BYTES,
    ByteSource,
    Keccak,
    Memory,
    Segment,
    hash_all,
    new_keccak,
    read_segment,
    steps,
)
from speed.segment.parity import Decoder, ParityEncoder
from speed.segment.reassembly import Limits, PayloadKey, Reassembly, SegmentVerdict
from speed.wire import lazily
from speed.wire.envelope import ENVELOPE_OVERHEAD
from speed.wire.limits import DATA_SEGMENT_BYTES, MAX_SEGMENTS, MIN_LENGTH_TRIALS, PARITY_RATE

_PARITY_BYTES = 1 << 24
"""Parity held at a time; what exceeds it is made in further passes over the data."""
_COLUMN_BYTES = 1 << 22
"""Data read at a time to make parity, and to decode, about."""
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
        rows[:, begin:end] = encoder.encode(_parts_of(source, shape, begin, end))[wanted]
    return rows


def _parts_of(source: ByteSource, shape: Shape, begin: int, end: int) -> Any:
    with lazily.guard:
        import numpy as np

    columns: Any = np.zeros((shape.data_count, end - begin), np.uint8)
    for index, row in enumerate(columns):
        start = index * shape.segment_size
        part = source.read(min(start + begin, source.size), min(start + end, source.size))
        row[: len(part)] = np.frombuffer(part, np.uint8)
    return columns


# A payload put together from enough of its segments, and proven by its hash (G-3, G-10, G-11).

COLUMN_UNIT = 1 << 15
"""Columns are read in multiples of this: a store that seals blocks of this size opens each of them once."""
_BYTES_A_TRIAL = 128
"""Of the payload, for each further length that is tried."""


class Shards(Protocol):
    """The segments held of one payload, by slot; recovered ones are written beside them."""

    data_count: int
    parity_count: int
    segment_size: int

    def slots(self) -> set[int]: ...
    def size_of(self, slot: int) -> int: ...
    def read(self, slot: int, begin: int, end: int) -> bytes | memoryview: ...
    def write(self, slot: int, begin: int, data: memoryview) -> None: ...


def rebuild(shards: Shards, digest: bytes) -> int:
    """Recover the data segments that are missing, and prove the payload; returns its size in bytes.

    WireError(SEGMENT_HASH) when the segments held are not those of a payload with this hash.
    """
    last = shards.data_count - 1
    is_length_known = last in shards.slots()
    recover(shards)
    state = new_keccak()
    for index in range(last):
        _hash(state, shards, index, 0, shards.segment_size)
    if not is_length_known:
        return last * shards.segment_size + _recovered_length(state, shards, digest)
    size = shards.size_of(last)
    _hash(state, shards, last, 0, size)
    if state.digest() != digest:
        raise WireError("SEGMENT_HASH", "what was put together is not what its hash says")
    return last * shards.segment_size + size


def recover(shards: Shards) -> None:
    """Write the missing data shards, each in full length; in bounded memory."""
    held = shards.slots()
    missing = [index for index in range(shards.data_count) if index not in held]
    if not missing:
        return
    with lazily.guard:
        import numpy as np

    parity = sorted(slot for slot in held if slot >= shards.data_count)[: len(missing)]
    numbers = [slot - shards.data_count for slot in parity]
    decoder = Decoder(shards.data_count, shards.parity_count, missing, numbers)
    width = max(_COLUMN_BYTES // shards.data_count // COLUMN_UNIT, 1) * COLUMN_UNIT
    for begin in range(0, shards.segment_size, width):
        end = min(begin + width, shards.segment_size)
        data = _columns(np, shards, [slot if slot in held else None for slot in range(shards.data_count)], begin, end)
        for index, row in zip(missing, decoder.decode(data, _columns(np, shards, parity, begin, end)), strict=True):
            shards.write(index, begin, memoryview(row))


def trials(data_count: int, segment_size: int) -> int:
    """How many lengths of a lost last segment are tried (G-11)."""
    return MIN_LENGTH_TRIALS + data_count * segment_size // _BYTES_A_TRIAL


def _columns(np: Any, shards: Shards, slots: list[Any], begin: int, end: int) -> Any:
    columns = np.zeros((len(slots), end - begin), np.uint8)
    for row, slot in zip(columns, slots, strict=True):
        if slot is not None:
            part = shards.read(slot, begin, min(end, shards.size_of(slot)))
            row[: len(part)] = np.frombuffer(part, np.uint8)
    return columns


def _recovered_length(state: Keccak, shards: Shards, digest: bytes) -> int:
    """The length of the last data segment that its hash proves; ``state`` has all before it."""
    last, size = shards.data_count - 1, shards.segment_size
    shortest = max(_end_of_bytes(shards, last), 0 if last == 0 else 1)
    _hash(state, shards, last, 0, shortest)
    for length in _lengths(shortest, size, trials(shards.data_count, size)):
        if state.copy().digest() == digest:
            return length
        state.update(b"\0")
    _hash_zeros(state, size - min(size, shortest + trials(shards.data_count, size)))
    if state.digest() == digest:
        return size
    raise WireError("SEGMENT_HASH", "no length of the lost last segment has this hash")


def _lengths(shortest: int, longest: int, limit: int) -> range:
    return range(shortest, min(longest, shortest + limit))


def _end_of_bytes(shards: Shards, slot: int) -> int:
    """The position behind the last byte that is not zero."""
    for begin in range((shards.segment_size - 1) // STEP_BYTES * STEP_BYTES, -1, -STEP_BYTES):
        part = bytes(shards.read(slot, begin, min(begin + STEP_BYTES, shards.segment_size))).rstrip(b"\0")
        if part:
            return begin + len(part)
    return 0


def _hash(state: Keccak, shards: Shards, slot: int, begin: int, end: int) -> None:
    for part in _steps(shards, slot, begin, end):
        state.update(part)


def _steps(shards: Shards, slot: int, begin: int, end: int) -> Iterator[bytes | memoryview]:
    for at in range(begin, end, STEP_BYTES):
        yield shards.read(slot, at, min(at + STEP_BYTES, end))


def _hash_zeros(state: Keccak, count: int) -> None:
    zeros = bytes(min(count, STEP_BYTES))
    for at in range(0, count, STEP_BYTES):
        state.update(zeros[: count - at])


class Outcome(NamedTuple):
    """What became of one segment.

    Attributes:
        verdict: ``kept`` for later, ``duplicate`` of one that is there, ``complete`` with the payload, or ``done`` if
            its payload was complete before.
        payload: the whole payload, if it is complete.
    """

    verdict: str
    payload: bytes | None = None


class Assembler:
    """Puts payloads together in memory, within ``limits``. For one thread at a time.

    Example:
        >>> assembler = Assembler()
        >>> assembler.receive("sender", write_segment(next(Splitter(64).split(b"whole"))), now=0.0)
        Outcome(verdict='complete', payload=b'whole')
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._reassembly = Reassembly(limits)
        self._shards: dict[PayloadKey, MemoryShards] = {}

    def receive(self, sender: str, data: bytes, now: float, kind: int = 1) -> Outcome:
        """Take one segment.

        Args:
            sender: whose payload it belongs to; senders do not disturb each other.
            data: the segment's bytes.
            now: seconds of a clock that does not jump.
            kind: tells payloads of one sender apart that are equal and yet two.

        Raises WireError with reason BAD_SEGMENT, SEGMENT_CONFLICT, SEGMENT_LIMIT or SEGMENT_HASH.
        """
        self.expire(now)
        segment = read_segment(data)
        key = PayloadKey(sender, kind, segment.hash)
        verdict, evicted = self._reassembly.admit(key, segment, now)
        for other in evicted:
            del self._shards[other]
        if verdict is SegmentVerdict.DONE:
            return Outcome("done")
        if verdict is SegmentVerdict.HELD:
            return self._again(key, segment)
        shards = self._shards.setdefault(key, MemoryShards(segment.data_count, segment.parity_count))
        shards.put(segment)
        if verdict is SegmentVerdict.KEPT:
            return Outcome("kept")
        return self._finish(key, now)

    def expire(self, now: float) -> list[PayloadKey]:
        """Forget what waited too long; returns the payloads that are lost."""
        late, _ = self._reassembly.expire(now)
        for key in late:
            del self._shards[key]
        return late

    def _again(self, key: PayloadKey, segment: Segment) -> Outcome:
        if self._shards[key].parts[segment.slot] != segment.payload:
            raise WireError("SEGMENT_CONFLICT", "has other bytes than the segment that came before")
        return Outcome("duplicate")

    def _finish(self, key: PayloadKey, now: float) -> Outcome:
        shards = self._shards.pop(key)
        try:
            size = rebuild(shards, key.hash)
        except BaseException:
            self._reassembly.discard(key)
            raise
        self._reassembly.complete(key, now)
        return Outcome("complete", shards.payload(size))


class MemoryShards:
    """The segments of one payload, in memory."""

    def __init__(self, data_count: int, parity_count: int) -> None:
        self.data_count, self.parity_count, self.segment_size = data_count, parity_count, 0
        self.parts: dict[int, bytes | bytearray] = {}

    def put(self, segment: Segment) -> None:
        self.parts[segment.slot] = bytes(segment.payload)
        if not segment.is_last_data or self.data_count == 1:
            self.segment_size = len(segment.payload)

    def slots(self) -> set[int]:
        return set(self.parts)

    def size_of(self, slot: int) -> int:
        return len(self.parts[slot])

    def read(self, slot: int, begin: int, end: int) -> memoryview:
        return memoryview(self.parts[slot])[begin:end]

    def write(self, slot: int, begin: int, data: memoryview) -> None:
        part = self.parts.setdefault(slot, bytearray(self.segment_size))
        assert isinstance(part, bytearray), "a segment that was received is never overwritten"
        part[begin : begin + len(data)] = data

    def payload(self, size: int) -> bytes:
        return b"".join(self.parts[index] for index in range(self.data_count))[:size]
