"""Columns: many values of one kind side by side (``registry_spec/columns.md``, C-1 to C-5), and from Python values."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from itertools import accumulate, chain, pairwise
from struct import Struct
from typing import Any

from speed.errors import UnserialisableError

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


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_DECIMAL_BYTES = 16
_TYPES: dict[str, tuple[type, ...]] = {
    "int64": (int,),
    "float64": (float, int),
    "bool": (bool,),
    "utf8": (str,),
    "binary": (bytes,),
    "timestamp": (datetime,),
    "decimal": (Decimal, int),
}
"""What a row of each kind may be; a bool is no int."""
_KIND_OF: dict[type, str] = {types[0]: kind for kind, types in _TYPES.items()}
_MISFITS = (OverflowError, DecimalException, ValueError, TypeError)
_EXACT = Context(prec=76, traps=[Inexact, InvalidOperation])

_NULLS_ALONE = "float64"
_USUAL_SCALE = 18
_MAX_EXACT = 2**53
"""Up to here every integer is a float64 of its own."""


class RowMisfit(UnserialisableError):
    """A row that does not fit into its column: ``row`` from 0, and ``why``."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"row {row} {why}")
        self.row, self.why = row, why


Parts = tuple[bytes, bytes | None]
"""The data of a column and, for text and bytes, its offsets."""


def from_values(
    values: Sequence[Any], kind: str | None = None, *, precision: int = 38, scale: int | None = None
) -> Column:
    """A column of ``values``, where None is null; ``kind`` is that of the first value unless given.

    Nulls alone, and no values, are a column of float64. ``precision`` and ``scale`` count for decimals: without
    ``scale`` it is 18, or what the digits need if that does not hold them. Raises UnserialisableError naming the first
    row that does not fit.
    """
    kind = kind or _kind_of(values)
    if kind not in _TYPES:
        raise UnserialisableError(f"no column is of kind {kind!r}: use one of {', '.join(KINDS.values())}")
    present = [value is not None for value in values]
    _check_types(values, kind)
    is_decimal = kind == "decimal"
    if scale is None:
        scale = _scale_of(values, precision) if is_decimal else 0
    data, offsets = _write(values, kind, scale)
    if is_decimal:
        _check_precision(values, precision, scale)
    return Column(
        kind,
        len(values),
        memoryview(data),
        None if all(present) else memoryview(_to_bits(present)),
        None if offsets is None else memoryview(offsets),
        precision if is_decimal else 0,
        scale if is_decimal else 0,
    )


def to_values(column: Column) -> list[Any]:
    """The rows as Python values; null is None, a timestamp is an aware ``datetime`` in UTC.

    Raises UnserialisableError naming the first row with an instant beyond the years 1 to 9999.
    """
    values = _READERS[column.kind](column)
    if column.validity is None:
        return values
    return [value if there else None for value, there in zip(values, _from_bits(column.validity), strict=False)]


def is_present(column: Column) -> list[bool]:
    """Which rows are not null."""
    if column.validity is None:
        return [True] * column.rows
    return _from_bits(column.validity)[: column.rows]


def _kind_of(values: Sequence[Any]) -> str:
    first = next((value for value in values if value is not None), None)
    if first is None:
        return _NULLS_ALONE
    if type(first) not in _KIND_OF:
        raise UnserialisableError(f"a column of {type(first).__name__} has no kind: give one")
    return _KIND_OF[type(first)]


def _scale_of(values: Sequence[Any], precision: int) -> int:
    """The usual scale, or as many digits behind the point as there are where it has no room for those before it."""
    usual = min(_USUAL_SCALE, precision)
    integer_digits, fraction_digits = 0, 0
    for value in values:
        parts = None if value is None else Decimal(value).as_tuple()
        if parts is None or not isinstance(parts.exponent, int):
            continue
        digits = "".join(map(str, parts.digits)).lstrip("0")
        spare = len(digits) - len(digits.rstrip("0"))
        exponent = parts.exponent + spare
        integer_digits = max(integer_digits, len(digits) - spare + exponent)
        fraction_digits = max(fraction_digits, -exponent)
    return (
        usual if integer_digits <= precision - usual and fraction_digits <= usual else min(fraction_digits, precision)
    )


def _check_types(values: Sequence[Any], kind: str) -> None:
    allowed = {*_TYPES[kind], type(None)}
    if not allowed.issuperset(map(type, values)):
        row = next(row for row, value in enumerate(values) if type(value) not in allowed)
        raise RowMisfit(row, f"is of type {type(values[row]).__name__} in a column of {kind}")


def _write(values: Sequence[Any], kind: str, scale: int) -> Parts:
    try:
        return _WRITERS[kind](values, scale)
    except _MISFITS:
        row = next(row for row, value in enumerate(values) if not _fits(value, kind, scale))
        raise RowMisfit(row, f"does not fit into a column of {kind}") from None


def _fits(value: Any, kind: str, scale: int) -> bool:
    try:
        _WRITERS[kind]((value,), scale)
    except _MISFITS:
        return False
    return True


def _write_integers(values: Iterable[Any], _: int) -> Parts:
    return array("q", [value or 0 for value in values]).tobytes(), None


def _write_floats(values: Iterable[Any], _: int) -> Parts:
    rows = [0.0 if value is None else value for value in values]
    if int in set(map(type, rows)) and not all(map(_is_exact, rows)):
        raise ValueError("an integer would lose digits")
    return array("d", rows).tobytes(), None


def _is_exact(value: Any) -> bool:
    """Whether a float64 holds this number; nothing is converted silently (W-17)."""
    return type(value) is not int or -_MAX_EXACT <= value <= _MAX_EXACT or int(float(value)) == value


def _write_bools(values: Iterable[Any], _: int) -> Parts:
    return _to_bits(list(map(bool, values))), None


def _write_text(values: Iterable[Any], scale: int) -> Parts:
    return _write_bytes([value and value.encode() for value in values], scale)


def _write_bytes(values: Iterable[Any], _: int) -> Parts:
    rows = [value or b"" for value in values]
    return b"".join(rows), array("I", chain((0,), accumulate(map(len, rows)))).tobytes()


def _write_instants(values: Iterable[Any], _: int) -> Parts:
    # An instant without a zone raises TypeError here: it is no value (W-15).
    return array("q", [0 if value is None else (value - _EPOCH) // _MICROSECOND for value in values]).tobytes(), None


def _write_decimals(values: Iterable[Any], scale: int) -> Parts:
    whole = (0 if value is None else int(_EXACT.to_integral_exact(_EXACT.scaleb(value, scale))) for value in values)
    return b"".join(number.to_bytes(_DECIMAL_BYTES, "little", signed=True) for number in whole), None


def _check_precision(values: Sequence[Any], precision: int, scale: int) -> None:
    limit = Decimal(10) ** (precision - scale)
    for row, value in enumerate(values):
        if value is not None and not -limit < value < limit:
            raise RowMisfit(row, f"does not fit into a decimal({precision}, {scale})")


def _read_bools(column: Column) -> list[Any]:
    return _from_bits(column.data)[: column.rows]


def _read_bytes(column: Column) -> list[Any]:
    assert column.offsets is not None
    data, ends = column.data.tobytes(), column.offsets.cast("I").tolist()
    return [data[start:end] for start, end in pairwise(ends)]


def _read_decimals(column: Column) -> list[Any]:
    data, unit = column.data, Decimal(1).scaleb(-column.scale)
    numbers = (int.from_bytes(data[at : at + _DECIMAL_BYTES], "little", signed=True) for at in range(0, len(data), 16))
    return [_EXACT.multiply(number, unit) for number in numbers]


def _read_instants(column: Column) -> list[Any]:
    moments = column.data.cast("q").tolist()
    try:
        return [_EPOCH + _MICROSECOND * moment for moment in moments]
    except OverflowError:
        present = is_present(column)
        return [_instant(row, moment, present[row]) for row, moment in enumerate(moments)]


def _instant(row: int, moment: int, is_there: bool) -> datetime | None:
    try:
        return _EPOCH + _MICROSECOND * moment if is_there else None  # what stands for a null has no meaning
    except OverflowError:
        raise RowMisfit(row, "is an instant beyond the years 1 to 9999") from None


def _to_bits(bits: Sequence[bool]) -> bytes:
    lowest_first = "".join("1" if bit else "0" for bit in reversed(bits))
    return int(lowest_first or "0", 2).to_bytes(bit_bytes(len(bits)), "little")


def _from_bits(bits: memoryview) -> list[bool]:
    return [bool(byte >> at & 1) for byte in bits for at in range(8)]


_WRITERS: dict[str, Callable[[Iterable[Any], int], Parts]] = {
    "int64": _write_integers,
    "float64": _write_floats,
    "bool": _write_bools,
    "utf8": _write_text,
    "binary": _write_bytes,
    "timestamp": _write_instants,
    "decimal": _write_decimals,
}
_READERS: dict[str, Callable[[Column], list[Any]]] = {
    "int64": lambda column: column.data.cast("q").tolist(),
    "float64": lambda column: column.data.cast("d").tolist(),
    "bool": _read_bools,
    "utf8": lambda column: [value.decode() for value in _read_bytes(column)],
    "binary": _read_bytes,
    "timestamp": _read_instants,
    "decimal": _read_decimals,
}
