"""Columns: many values of one kind side by side (``registry_spec/columns.md``, C-1 to C-5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

_HEADER = Struct("<BBBBI")
_ALIGNMENT = 8
_OFFSET_BYTES = 4
_MAX_PRECISION = 38
_CONTINUATION = frozenset(range(0x80, 0xC0))

INT64, FLOAT64, BOOL, UTF8, BINARY, TIMESTAMP, DECIMAL = range(1, 8)
KINDS = {
    INT64: "int64",
    FLOAT64: "float64",
    BOOL: "bool",
    UTF8: "utf8",
    BINARY: "binary",
    TIMESTAMP: "timestamp",
    DECIMAL: "decimal",
}
NUMBERS = {text: number for number, text in KINDS.items()}
_WIDTHS = {INT64: 8, FLOAT64: 8, TIMESTAMP: 8, DECIMAL: 16}


@dataclass(frozen=True, slots=True, repr=False)
class Column:
    """Many values of one kind, as they travel. The parts are read-only views of what was received, never copies.

    ``speed.columns`` makes columns of Python values, numpy and Arrow arrays, and turns them back.

    Attributes:
        kind: ``int64``, ``float64``, ``bool``, ``utf8``, ``binary``, ``timestamp`` or ``decimal``.
        rows: how many values.
        data: the values, laid out as Arrow does.
        validity: one bit a row, 0 for a null; None if no row is null.
        offsets: where each value of utf8 or binary begins in ``data``; None for other kinds.
        precision, scale: digits of a decimal, and how many of them stand behind the point.
    """

    kind: str
    rows: int
    data: memoryview
    validity: memoryview | None = None
    offsets: memoryview | None = None
    precision: int = 0
    scale: int = 0

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        return f"<speed.Column {self.kind} rows={self.rows}>"


def bit_bytes(rows: int) -> int:
    """Bytes of ``rows`` bits."""
    return -(-rows // 8)


def encode(column: Column) -> bytes:
    """The body of ``column`` (C-2)."""
    number = NUMBERS[column.kind]
    has_validity = column.validity is not None
    header = _HEADER.pack(number, has_validity, column.precision, column.scale, column.rows)
    return b"".join((header, *_filled(column)))


def _filled(column: Column) -> Iterator[bytes | memoryview]:
    for part in (column.validity, column.offsets, column.data):
        if part is not None:
            yield part
            yield bytes(-part.nbytes % _ALIGNMENT)


def decode(body: bytes) -> Column:
    """The column in ``body``; ValueError says which rule it breaks."""
    if len(body) < _HEADER.size:
        raise ValueError("a column shorter than its header")
    number, has_validity, precision, scale, rows = _HEADER.unpack_from(body)
    if number not in KINDS or has_validity > 1 or not _is_scaled(number, precision, scale):
        raise ValueError("a column of an unknown kind")
    parts = _Parts(memoryview(body), _HEADER.size)
    validity = parts.bits(rows) if has_validity else None
    offsets = parts.take((rows + 1) * _OFFSET_BYTES) if number in (UTF8, BINARY) else None
    if offsets is not None:
        data = parts.take(int.from_bytes(offsets[-_OFFSET_BYTES:], "little"))
        _check_offsets(offsets, data, number == UTF8)
    elif number == BOOL:
        data = parts.bits(rows)
    else:
        data = parts.take(rows * _WIDTHS[number])
    parts.end()
    return Column(KINDS[number], rows, data, validity, offsets, precision, scale)


def _is_scaled(number: int, precision: int, scale: int) -> bool:
    if number == DECIMAL:
        return 1 <= precision <= _MAX_PRECISION and scale <= precision
    return precision == scale == 0


class _Parts:
    """The parts of a body one after the other, each checked to be there and to be filled with zeros."""

    __slots__ = ("_at", "_body")

    def __init__(self, body: memoryview, at: int) -> None:
        self._body = body
        self._at = at

    def take(self, size: int) -> memoryview:
        start, end = self._at, self._at + size
        filled = end + -size % _ALIGNMENT
        if filled > len(self._body):
            raise ValueError("a column shorter than its rows")
        if any(self._body[end:filled]):
            raise ValueError("a column with bytes between its parts")
        self._at = filled
        return self._body[start:end]

    def bits(self, rows: int) -> memoryview:
        bits = self.take(bit_bytes(rows))
        if rows % 8 and bits[-1] >> rows % 8:
            raise ValueError("a column with bits behind its last row")
        return bits

    def end(self) -> None:
        if self._at != len(self._body):
            raise ValueError("a column longer than its rows")


def _check_offsets(offsets: memoryview, data: memoryview, is_text: bool) -> None:
    positions = offsets.cast("I").tolist()
    if positions[0] != 0 or positions != sorted(positions):  # sorting what is sorted is one pass at C speed
        raise ValueError("a column with offsets out of order")
    if is_text:
        _check_text(positions, data.tobytes())


def _check_text(positions: list[int], data: bytes) -> None:
    if data.isascii():
        return
    data.decode()
    inner = positions[: _first_at_end(positions)]
    if not _CONTINUATION.isdisjoint(map(data.__getitem__, inner)):
        raise ValueError("a column with an offset inside a character")


def _first_at_end(positions: list[int]) -> int:
    """How many positions lie before the end of the bytes."""
    return positions.index(positions[-1])
