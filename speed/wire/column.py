"""Columns: many values of one kind side by side, and their bytes (``registry_spec/columns.md``, C-1 to C-9)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from struct import Struct

from speed.errors import UnserialisableError
from speed.wire.limits import MAX_COLUMN_DEPTH, MAX_INNER_COLUMNS

_HEADER = Struct("<BBBBI")
_ALIGNMENT = 8
_OFFSET_BYTES = 4
_MAX_PRECISION = 38
_CONTINUATION = frozenset(range(0x80, 0xC0))

INT64, FLOAT64, BOOL, UTF8, BINARY, TIMESTAMP, DECIMAL, DATE, TIME, LOCAL, DURATION, MONTHS, LIST, STRUCT, MAP = range(
    1, 16
)
KINDS = {
    INT64: "int64",
    FLOAT64: "float64",
    BOOL: "bool",
    UTF8: "utf8",
    BINARY: "binary",
    TIMESTAMP: "timestamp",
    DECIMAL: "decimal",
    DATE: "date",
    TIME: "time",
    LOCAL: "local_timestamp",
    DURATION: "duration",
    MONTHS: "months",
    LIST: "list",
    STRUCT: "struct",
    MAP: "map",
}
NUMBERS = {text: number for number, text in KINDS.items()}
WIDTHS = {
    "int64": 8,
    "float64": 8,
    "timestamp": 8,
    "decimal": 16,
    "date": 4,
    "time": 8,
    "local_timestamp": 8,
    "duration": 8,
    "months": 4,
}
"""Bytes a row, of the kinds whose rows are all of one width."""
_WITH_OFFSETS = frozenset({UTF8, BINARY, LIST, MAP})
NOTHING = memoryview(b"")
TOO_DEEP = f"a column is nested deeper than {MAX_COLUMN_DEPTH}"


@dataclass(frozen=True, slots=True, repr=False)
class Column:
    """Many values of one kind, as they travel. The parts are read-only views of what was received, never copies.

    ``speed.columns`` makes columns of Python values, numpy and Arrow arrays, and turns them back.

    Attributes:
        kind: ``int64``, ``float64``, ``bool``, ``utf8``, ``binary``, ``timestamp``, ``decimal``, ``date``, ``time``,
            ``local_timestamp``, ``duration``, ``months``, ``list``, ``struct`` or ``map``.
        rows: how many values.
        data: the values, laid out as Arrow does; empty where they are in ``children``.
        validity: one bit a row, 0 for a null; None if no row is null.
        offsets: where each value of utf8 or binary begins in ``data``, of list or map in ``children``; else None.
        precision, scale: digits of a decimal, and how many of them stand behind the point.
        children: the items of a list, the keys and values of a map, the fields of a struct; else empty.
        names: of the fields of a struct; else empty.
    """

    kind: str
    rows: int
    data: memoryview
    validity: memoryview | None = None
    offsets: memoryview | None = None
    precision: int = 0
    scale: int = 0
    children: tuple[Column, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of all parts, without what fills them up."""
        own = sum(part.nbytes for part in (self.validity, self.offsets, self.data) if part is not None)
        return own + sum(child.nbytes for child in self.children)

    @property
    def type_name(self) -> str:
        """The kind with what lies in it: ``decimal(9, 2)``, ``list<int64>``, ``struct<a: utf8>``."""
        inner = [child.type_name for child in self.children]
        if self.kind == "decimal":
            return f"decimal({self.precision}, {self.scale})"
        if self.kind == "struct":
            inner = [f"{name}: {one}" for name, one in zip(self.names, inner, strict=True)]
        return f"{self.kind}<{', '.join(inner)}>" if inner else self.kind

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        return f"<speed.Column {self.type_name} rows={self.rows}>"


def bit_bytes(rows: int) -> int:
    """Bytes of ``rows`` bits."""
    return -(-rows // 8)


def encode(column: Column) -> bytes:
    """The body of ``column`` (C-2). Raises UnserialisableError for one that lies too deep in others (C-9)."""
    return b"".join(_body(column, 1))


def _body(column: Column, depth: int) -> Iterator[bytes | memoryview]:
    if depth > MAX_COLUMN_DEPTH:
        raise UnserialisableError(TOO_DEEP)
    has_validity = column.validity is not None
    yield _HEADER.pack(NUMBERS[column.kind], has_validity, column.precision, column.scale, column.rows)
    for part in (column.validity, column.offsets, column.data):
        if part is not None:
            yield part
            yield bytes(-part.nbytes % _ALIGNMENT)
    if column.kind == "struct":
        yield from _body(_column_of_names(column.names), depth)
    for child in column.children:
        yield from _body(child, depth + 1)


def decode(body: bytes, is_checked: bool = False) -> Column:
    """The column in ``body``; ValueError says which rule it breaks.

    ``is_checked``: the native engine has looked at its offsets and its text, and nobody does so again.
    """
    parts = _Parts(memoryview(body), is_checked)
    column = _column(parts, 1)
    parts.end()
    return column


def _column(parts: _Parts, depth: int, expected_rows: int | None = None) -> Column:
    """The body that begins where ``parts`` stands, and what lies in it (C-9)."""
    number, has_validity, precision, scale, rows = _HEADER.unpack(parts.take(_HEADER.size))
    if number not in KINDS or has_validity > 1 or not _is_scaled(number, precision, scale):
        raise ValueError("a column of an unknown kind")
    parts.enter(depth)
    if expected_rows not in (None, rows):
        raise ValueError("a column in another one with other rows than that says")
    kind = KINDS[number]
    validity = parts.bits(rows) if has_validity else None
    if number == STRUCT:
        names = _names(parts, depth + 1)
        fields = tuple(_column(parts, depth + 1, rows) for _ in names)
        return Column(kind, rows, NOTHING, validity, children=fields, names=names)
    if number in _WITH_OFFSETS:
        offsets = parts.take((rows + 1) * _OFFSET_BYTES)
        end = _last(offsets)
        if number in (UTF8, BINARY):
            data = parts.take(end)
            parts.check(offsets, data, is_text=number == UTF8)
            return Column(kind, rows, data, validity, offsets)
        parts.check(offsets, NOTHING, is_text=False)
        children = tuple(_column(parts, depth + 1, end) for _ in range(1 if number == LIST else 2))
        if number == MAP and children[0].validity is not None:
            raise ValueError("a column of maps whose keys may be null")
        return Column(kind, rows, NOTHING, validity, offsets, children=children)
    data = parts.bits(rows) if number == BOOL else parts.take(rows * WIDTHS[kind])
    return Column(kind, rows, data, validity, None, precision, scale)


def _column_of_names(names: Sequence[str]) -> Column:
    texts = [name.encode() for name in names]
    offsets = array("I", accumulate(map(len, texts), initial=0))
    return Column("utf8", len(texts), memoryview(b"".join(texts)), None, memoryview(offsets.tobytes()))


def _names(parts: _Parts, depth: int) -> tuple[str, ...]:
    """The names of the fields of a struct, whose bodies follow."""
    column = _column(parts, depth)
    if column.kind != "utf8" or column.validity is not None or not 1 <= column.rows <= MAX_INNER_COLUMNS:
        raise ValueError("a column of structs without names of fields, or with too many")
    assert column.offsets is not None
    ends = column.offsets.cast("I").tolist()
    names = tuple(str(column.data[start:end], "utf-8") for start, end in pairwise(ends))
    if len(set(names)) < len(names):
        raise ValueError("a column of structs with a field twice")
    return names


def _last(offsets: memoryview) -> int:
    return int.from_bytes(offsets[-_OFFSET_BYTES:], "little")


def _is_scaled(number: int, precision: int, scale: int) -> bool:
    if number == DECIMAL:
        return 1 <= precision <= _MAX_PRECISION and scale <= precision
    return precision == scale == 0


class _Parts:
    """The parts of a body one after the other, each checked to be there and to be filled with zeros."""

    __slots__ = ("_at", "_body", "_inner", "_is_checked")

    def __init__(self, body: memoryview, is_checked: bool) -> None:
        self._body = body
        self._is_checked = is_checked
        self._at = 0
        self._inner = -1  # the outermost is none

    def enter(self, depth: int) -> None:
        """Note one more body, before it is read."""
        self._inner += 1
        if depth > MAX_COLUMN_DEPTH or self._inner > MAX_INNER_COLUMNS:
            raise ValueError(f"a column nested deeper than {MAX_COLUMN_DEPTH}, or with too many others in it")

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

    def check(self, offsets: memoryview, data: memoryview, *, is_text: bool) -> None:
        if not self._is_checked:
            _check_offsets(offsets, data, is_text)

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
