"""Parity shards, and data shards from parity (G-6 to G-10): the bytes of Leopard-RS, a slice of columns at a time.

Needs numpy. Every column of bytes (64 columns in the wide field) stands for itself, so a payload of any size is
encoded and decoded in slices, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Any

from speed.errors import ConfigurationError, PayloadTooLargeError
from speed.segment.form import MAX_HEAD_BYTES, SHARD_UNIT, ByteSource, Memory, Segment, hash_all, steps
from speed.wire import lazily
from speed.wire.envelope import ENVELOPE_OVERHEAD
from speed.wire.limits import DATA_SEGMENT_BYTES, MAX_SEGMENTS, PARITY_RATE

# The two fields of the parity, with the tables that everything else is made from (G-7, G-8).

BYTE_BITS, WIDE_BITS = 8, 16

_POLYNOMIALS = {BYTE_BITS: 0x11D, WIDE_BITS: 0x1002D}
_BASES = {
    BYTE_BITS: (1, 214, 152, 146, 86, 200, 88, 230),
    WIDE_BITS: (
        *(0x0001, 0xACCA, 0x3C0E, 0x163E, 0xC582, 0xED2E, 0x914C, 0x4012),
        *(0x6C98, 0x10D8, 0x6A72, 0xB900, 0xFDB8, 0xFB34, 0xFF38, 0x991E),
    ),
}


@dataclass(frozen=True)
class Field:
    """Logarithms and skews of the field of ``2 ** bits`` elements; ``order`` is the logarithm that stands for 0."""

    bits: int
    order: int
    log: tuple[int, ...]
    exp: tuple[int, ...]
    skew: tuple[int, ...]

    def multiply(self, element: int, logarithm: int) -> int:
        """``element`` times the one with this logarithm."""
        return self.exp[_added(self.log[element], logarithm, self.bits)] if element else 0

    def inverse(self, element: int) -> int:
        """The logarithm of 1 / ``element``, which is not 0."""
        return (self.order - self.log[element]) % self.order


@lru_cache(maxsize=2)
def field_of(bits: int) -> Field:
    """The field of 8 or of 16 bits; made at its first use."""
    log, exp = _logarithms(bits)
    order = (1 << bits) - 1
    bare = Field(bits, order, log, exp, ())
    return Field(bits, order, log, exp, _skews(bare))


def field_bits(data_count: int, parity_count: int) -> int:
    """Bits of the field in which the parity of this shape is made (G-6)."""
    return BYTE_BITS if run_of(parity_count) + data_count <= 1 << BYTE_BITS else WIDE_BITS


def run_of(parity_count: int) -> int:
    """Shards that are transformed together: the least power of two that holds the parity."""
    return 1 << (parity_count - 1).bit_length()


def _logarithms(bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    size = 1 << bits
    power, state = [0] * size, 1
    for exponent in range(size - 1):
        power[state] = exponent
        state <<= 1
        if state >= size:
            state ^= _POLYNOMIALS[bits]
    power[0] = size - 1
    cantor = [0]
    for vector in _BASES[bits]:
        cantor += [element ^ vector for element in cantor]
    log = tuple(power[element] for element in cantor)
    exp = [0] * size
    for element, exponent in enumerate(log):
        exp[exponent] = element
    exp[size - 1] = exp[0]
    return log, tuple(exp)


def _skews(field: Field) -> tuple[int, ...]:
    bits, log = field.bits, field.log
    skew = [0] * (1 << bits)
    factor = [1 << place for place in range(1, bits)]
    for level in range(bits - 1):
        skew[(1 << level) - 1] = 0
        for place in range(level, bits - 1):
            width = 1 << (place + 1)
            for at in range((1 << level) - 1, width, 1 << (level + 1)):
                skew[at + width] = skew[at] ^ factor[place]
        factor[level] = field.order - log[field.multiply(factor[level], log[factor[level] ^ 1])]
        for place in range(level + 1, bits - 1):
            factor[place] = field.multiply(factor[place], _added(log[factor[place] ^ 1], factor[level], bits))
    return tuple(log[element] for element in skew)


def _added(left: int, right: int, bits: int) -> int:
    """The sum of two logarithms, of which one may stand for 0."""
    total = left + right
    return (total + (total >> bits)) & ((1 << bits) - 1)


_SLICE_TOTAL = 1 << 19
"""Bytes transformed at a time: they stay in a core's cache."""
_HALF_UNIT = SHARD_UNIT // 2


class ParityEncoder:
    """Makes the parity of one shape; may be used for many payloads, by one thread at a time."""

    def __init__(self, data_count: int, parity_count: int) -> None:
        self._np = _numpy()
        self.data_count, self.parity_count = data_count, parity_count
        self._bits = field_bits(data_count, parity_count)
        self._run = run_of(parity_count)
        self._scratch: Any = self._np.empty(0, self._np.uint8)

    def encode(self, shards: Any) -> Any:
        """Parity of a (data_count, n) array of bytes, n a multiple of 64; a (parity_count, n) array."""
        np = self._np
        parity = np.empty((self.parity_count, shards.shape[1]), np.uint8)
        for begin, end in _slices(shards.shape[1], max(self._run, 1)):
            parity[:, begin:end] = self._encode_slice(shards[:, begin:end])
        return parity

    def matrix(self) -> Any:
        """The generator: rows are parity shards, columns data shards, as elements of the field (G-9)."""
        np = self._np
        planes = np.zeros((self.data_count, _planes(self._bits), self.data_count), np.uint8)
        planes[:, 0] = np.eye(self.data_count, dtype=np.uint8)
        return _elements(np, self._transform(planes))

    def _encode_slice(self, shards: Any) -> Any:
        np = self._np
        if self.parity_count == 1 or self.data_count == 1:
            return np.bitwise_xor.reduce(shards, axis=0)[None]
        return _bytes_of(np, self._transform(_planes_of(np, shards, self._bits)))

    def _transform(self, planes: Any) -> Any:
        np, run = self._np, self._run
        if self.parity_count == 1 or self.data_count == 1:
            one = np.bitwise_xor.reduce(planes, axis=0)[None]
            return np.repeat(one, self.parity_count, axis=0)
        total = np.zeros((run, *planes.shape[1:]), np.uint8)
        work = np.empty_like(total)
        self._scratch = np.empty_like(total[: run // 2])
        for first in range(0, self.data_count, run):
            count = min(run, self.data_count - first)
            work[:count] = planes[first : first + count]
            work[count:] = 0
            self._into_basis(work, first, count)
            total ^= work
        self._out_of_basis(total)
        return total[: self.parity_count]

    def _into_basis(self, work: Any, first: int, count: int) -> None:
        field, run, distance = field_of(self._bits), self._run, 1
        while distance < run:
            for at in range(0, count, 2 * distance):
                left, right = work[at : at + distance], work[at + distance : at + 2 * distance]
                right ^= left
                self._add_product(left, right, field.skew[run - 1 + first + at + distance])
            distance *= 2

    def _out_of_basis(self, work: Any) -> None:
        field, distance = field_of(self._bits), self._run // 2
        while distance:
            for at in range(0, self.parity_count, 2 * distance):
                left, right = work[at : at + distance], work[at + distance : at + 2 * distance]
                self._add_product(left, right, field.skew[at + distance - 1])
                right ^= left
            distance //= 2

    def _add_product(self, target: Any, factor: Any, logarithm: int) -> None:
        """``target ^= factor * element``, where the element has this logarithm."""
        if logarithm != field_of(self._bits).order:
            add_product(self._np, target, factor, product_table(self._bits, logarithm), self._scratch)


class Decoder:
    """Finds the missing data shards of one shape from as many parity shards."""

    def __init__(self, data_count: int, parity_count: int, missing: Sequence[int], parity: Sequence[int]) -> None:
        """``missing``: indexes of data shards; ``parity``: indexes of the parity shards at hand, as many."""
        self._np = _numpy()
        self._encoder = ParityEncoder(data_count, parity_count)
        self._bits = field_bits(data_count, parity_count)
        self._parity = list(parity)
        matrix = _matrix(data_count, parity_count)[self._np.ix_(self._parity, list(missing))]
        self._solution = _inverse(self._np, matrix, field_of(self._bits))

    def decode(self, shards: Any, parity: Any) -> Any:
        """Rows of missing shards, in the order asked for. ``shards``: (data_count, n) with zeros where missing;
        ``parity``: (as many as missing, n)."""
        sums = self._encoder.encode(shards)[self._parity] ^ parity
        np, count = self._np, len(self._parity)
        found = np.empty_like(sums)
        for begin, end in _slices(sums.shape[1], count):
            planes = _planes_of(np, sums[:, begin:end], self._bits)
            found[:, begin:end] = _bytes_of(np, self._solve(planes))
        return found

    def _solve(self, planes: Any) -> Any:
        np, field = self._np, field_of(self._bits)
        result, scratch = np.zeros_like(planes), np.empty_like(planes[:1])
        for row, factors in enumerate(self._solution.tolist()):
            for column, factor in enumerate(factors):  # none is zero: any loss can be made good from any parity
                table = product_table(self._bits, field.log[factor])
                add_product(np, result[row : row + 1], planes[column : column + 1], table, scratch)
        return result


def encode(shards: Sequence[bytes | memoryview], parity_count: int) -> list[bytes]:
    """Parity shards of data shards of one length, a multiple of 64; a shorter last one counts as filled with zeros."""
    np, size = _numpy(), len(shards[0])
    rows = np.zeros((len(shards), -(-size // SHARD_UNIT) * SHARD_UNIT), np.uint8)
    for row, shard in zip(rows, shards, strict=True):
        row[: len(shard)] = np.frombuffer(shard, np.uint8)
    return [bytes(row) for row in ParityEncoder(len(shards), parity_count).encode(rows)]


def decode(held: Mapping[int, bytes | memoryview], data_count: int, parity_count: int) -> dict[int, bytes]:
    """The data shards that are missing among ``held`` (slot -> bytes), each in full length.

    At least ``data_count`` slots must be held. Any of them but the last data shard tells the length.
    """
    missing = [index for index in range(data_count) if index not in held]
    if not missing:
        return {}
    np = _numpy()
    parity = sorted(slot for slot in held if slot >= data_count)[: len(missing)]
    size = len(held[parity[0]])
    rows = np.zeros((data_count, size), np.uint8)
    for slot, shard in held.items():
        if slot < data_count:
            rows[slot, : len(shard)] = np.frombuffer(shard, np.uint8)
    decoder = Decoder(data_count, parity_count, missing, [slot - data_count for slot in parity])
    found = decoder.decode(rows, np.stack([np.frombuffer(held[slot], np.uint8) for slot in parity]))
    return {index: bytes(row) for index, row in zip(missing, found, strict=True)}


@lru_cache(maxsize=1024)
def product_table(bits: int, logarithm: int) -> Any:
    """``[to][from]``: what each byte of plane ``from`` adds to plane ``to`` of the product by this element."""
    np, planes = _numpy(), _planes(bits)
    table = np.empty((planes, planes, 256), np.uint8)
    for source in range(planes):
        products = _times(np, np.arange(256) << (8 * source), logarithm, bits)
        for target in range(planes):
            table[target, source] = products >> (8 * target) & 255
    return table


def add_product(np: Any, target: Any, factor: Any, table: Any, scratch: Any) -> None:
    """``target ^= factor * element`` of arrays (shards, planes, n); ``scratch`` is as large as ``factor``."""
    room = scratch[: len(factor)]
    for to, sources in enumerate(table):
        for source, products in enumerate(sources):
            np.take(products, factor[:, source], out=room[:, to], mode="clip")
            target[:, to] ^= room[:, to]


@lru_cache(maxsize=16)
def _matrix(data_count: int, parity_count: int) -> Any:
    return ParityEncoder(data_count, parity_count).matrix()


def _inverse(np: Any, matrix: Any, field: Field) -> Any:
    """The inverse of a regular matrix over the field, by elimination."""
    size, bits = len(matrix), field.bits
    rows = np.concatenate([matrix.astype(np.int64), np.eye(size, dtype=np.int64)], axis=1)
    for at in range(size):
        pivot = at + int(np.flatnonzero(rows[at:, at])[0])
        rows[[at, pivot]] = rows[[pivot, at]]
        rows[at] = _times(np, rows[at], field.inverse(int(rows[at, at])), bits)
        for other in np.flatnonzero(rows[:, at]):
            if other != at:
                rows[other] ^= _times(np, rows[at], field.log[int(rows[other, at])], bits)
    return rows[:, size:]


def _times(np: Any, elements: Any, logarithm: int, bits: int) -> Any:
    """Each of ``elements`` times the one with this logarithm, which is not 0."""
    log, exp = _tables(bits)
    return np.where(elements == 0, 0, exp[(log[elements] + logarithm) % ((1 << bits) - 1)])


@lru_cache(maxsize=2)
def _tables(bits: int) -> tuple[Any, Any]:
    np, field = _numpy(), field_of(bits)
    return np.array(field.log), np.array(field.exp)


def _planes(bits: int) -> int:
    return bits // BYTE_BITS


def _planes_of(np: Any, shards: Any, bits: int) -> Any:
    """Low bytes and high bytes of the words apart, as (shards, planes, n)."""
    if bits != WIDE_BITS:
        return shards[:, None]
    halves = shards.reshape(len(shards), -1, 2, _HALF_UNIT)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(len(shards), 2, -1)


def _bytes_of(np: Any, planes: Any) -> Any:
    if planes.shape[1] == 1:
        return planes[:, 0]
    halves = planes.reshape(len(planes), 2, -1, _HALF_UNIT)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(len(planes), -1)


def _elements(np: Any, planes: Any) -> Any:
    wide = planes.astype(np.int64)
    return sum(wide[:, plane] << (8 * plane) for plane in range(planes.shape[1]))


def _slices(columns: int, shards: int) -> Iterator[tuple[int, int]]:
    width = max(_SLICE_TOTAL // shards // SHARD_UNIT, 64) * SHARD_UNIT
    for begin in range(0, columns, width):
        yield begin, min(begin + width, columns)


def _numpy() -> Any:
    try:
        with lazily.guard:
            import numpy
    except ImportError:
        raise ConfigurationError("parity needs numpy: install speed-ipc[columns], or set no parity rate") from None
    return numpy


# A payload cut into segments, with parity, in bounded memory.


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
