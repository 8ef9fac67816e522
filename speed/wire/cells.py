"""The rows of a column as Python values, and a column of such values (``registry_spec/columns.md``, C-8)."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from functools import partial
from itertools import accumulate, chain, pairwise
from operator import and_
from typing import Any, Literal

from speed.errors import UnserialisableError
from speed.wire.column import KINDS, NOTHING, TOO_DEEP, Column, bit_bytes
from speed.wire.limits import MAX_COLUMN_DEPTH

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LOCAL_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - it has no zone
_FIRST_DAY = date(1970, 1, 1).toordinal()
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
    "date": (date,),
    "time": (time,),
    "local_timestamp": (datetime,),
    "duration": (timedelta,),
    "months": (int,),
    "list": (list, tuple),
    "struct": (dict,),
    "map": (dict,),
}
"""What a row of each kind may be; a bool is no int."""
_KIND_OF: dict[type, str] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "utf8",
    bytes: "binary",
    datetime: "timestamp",
    Decimal: "decimal",
    date: "date",
    time: "time",
    timedelta: "duration",
    list: "list",
    tuple: "list",
    dict: "map",
}
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

    Nulls alone, and no values, are a column of float64. A dict makes a map if what it holds is of one kind without
    others in it, else a struct. ``precision`` and ``scale`` count for decimals: without ``scale`` it is 18, or what the
    digits need if that does not hold them. Raises UnserialisableError naming the first row that does not fit.
    """
    return _made(values, kind, precision, scale, 1)


def _made(
    values: Sequence[Any], kind: str | None, precision: int = 38, scale: int | None = None, depth: int = 2
) -> Column:
    if depth > MAX_COLUMN_DEPTH:
        raise UnserialisableError(TOO_DEEP)
    kind = kind or _kind_of(values)
    if kind not in _TYPES:
        raise UnserialisableError(f"no column is of kind {kind!r}: use one of {', '.join(KINDS.values())}")
    present = [value is not None for value in values]
    _check_types(values, kind)
    validity = None if all(present) else memoryview(_to_bits(present))
    if kind in _NESTING:
        return replace(_NESTING[kind](values, depth + 1), validity=validity)
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
        validity,
        None if offsets is None else memoryview(offsets),
        precision if is_decimal else 0,
        scale if is_decimal else 0,
    )


def to_values(column: Column) -> list[Any]:
    """The rows as Python values; null is None, a timestamp is an aware ``datetime`` in UTC, a local one has no zone.

    Raises UnserialisableError naming the first row with a date or time beyond the years 1 to 9999 or beyond a day, or
    with a map that no dict holds.
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
    kind = _KIND_OF.get(type(first))
    if kind is None:
        raise UnserialisableError(f"a column of {type(first).__name__} has no kind: give one")
    if kind == "timestamp" and first.tzinfo is None:
        return "local_timestamp"
    return "struct" if kind == "map" and _is_struct(values) else kind


def _is_struct(values: Sequence[Any]) -> bool:
    """Whether dicts are structs: their keys are text, and what they hold is of several kinds, or holds others."""
    rows = [one for one in values if type(one) is dict]
    if not all(type(key) is str for one in rows for key in one):
        return False
    kinds = {type(item) for one in rows for item in one.values()} - {type(None)}
    return bool(kinds & {list, tuple, dict}) or not (len(kinds) < 2 or kinds <= {int, float})


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
    # An instant without a zone raises TypeError here: it is no value (W-15). So does one with a zone in local ones.
    return array("q", [0 if value is None else (value - _EPOCH) // _MICROSECOND for value in values]).tobytes(), None


def _write_local(values: Iterable[Any], _: int) -> Parts:
    return _write_integers([None if value is None else (value - _LOCAL_EPOCH) // _MICROSECOND for value in values], 0)


def _write_dates(values: Iterable[Any], _: int) -> Parts:
    return _write_months([None if value is None else value.toordinal() - _FIRST_DAY for value in values], 0)


def _write_times(values: Iterable[Any], _: int) -> Parts:
    return _write_integers([None if value is None else _since_midnight(value) for value in values], 0)


def _since_midnight(value: time) -> int:
    if value.tzinfo is not None:
        raise ValueError("a time of day with a zone is no value")
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _write_durations(values: Iterable[Any], _: int) -> Parts:
    return _write_integers([None if value is None else value // _MICROSECOND for value in values], 0)


def _write_months(values: Iterable[Any], _: int) -> Parts:
    return array("i", [value or 0 for value in values]).tobytes(), None


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


def _reads(code: Literal["i", "q"], convert: Callable[[int], Any], why: str) -> Callable[[Column], list[Any]]:
    """What reads numbers as moments; the first that Python has no value for is named."""

    def read(column: Column) -> list[Any]:
        numbers = column.data.cast(code).tolist()
        try:
            return list(map(convert, numbers))
        except (OverflowError, ValueError):
            present = is_present(column)  # what stands for a null has no meaning
            return [_read_one(row, one, convert, why) if present[row] else None for row, one in enumerate(numbers)]

    return read


def _read_one(row: int, number: int, convert: Callable[[int], Any], why: str) -> Any:
    try:
        return convert(number)
    except (OverflowError, ValueError):
        raise RowMisfit(row, why) from None


def _time(microseconds: int) -> time:
    seconds, microsecond = divmod(microseconds, 1_000_000)
    return time(seconds // 3600, seconds // 60 % 60, seconds % 60, microsecond)


def _to_bits(bits: Sequence[bool]) -> bytes:
    lowest_first = "".join("1" if bit else "0" for bit in reversed(bits))
    return int(lowest_first or "0", 2).to_bytes(bit_bytes(len(bits)), "little")


def _from_bits(bits: memoryview) -> list[bool]:
    return [bool(byte >> at & 1) for byte in bits for at in range(8)]


_BEYOND = "beyond the years 1 to 9999"
_WRITERS: dict[str, Callable[[Iterable[Any], int], Parts]] = {
    "int64": _write_integers,
    "float64": _write_floats,
    "bool": _write_bools,
    "utf8": _write_text,
    "binary": _write_bytes,
    "timestamp": _write_instants,
    "decimal": _write_decimals,
    "date": _write_dates,
    "time": _write_times,
    "local_timestamp": _write_local,
    "duration": _write_durations,
    "months": _write_months,
}
_READERS: dict[str, Callable[[Column], list[Any]]] = {
    "int64": lambda column: column.data.cast("q").tolist(),
    "float64": lambda column: column.data.cast("d").tolist(),
    "bool": _read_bools,
    "utf8": lambda column: [value.decode() for value in _read_bytes(column)],
    "binary": _read_bytes,
    "timestamp": _reads("q", lambda moment: _EPOCH + _MICROSECOND * moment, f"is an instant {_BEYOND}"),
    "decimal": _read_decimals,
    "date": _reads("i", lambda day: date.fromordinal(day + _FIRST_DAY), f"is a date {_BEYOND}"),
    "time": _reads("q", _time, "is a time beyond a day"),
    "local_timestamp": _reads(
        "q", lambda moment: _LOCAL_EPOCH + _MICROSECOND * moment, f"is a date and time {_BEYOND}"
    ),
    "duration": _reads("q", lambda span: _MICROSECOND * span, "is a duration beyond all"),
    "months": lambda column: column.data.cast("i").tolist(),
}


# --- columns in columns ---


def _lists(values: Sequence[Any], depth: int) -> Column:
    ends = _ends(values)
    items = _in_rows(ends, lambda: _made(list(chain.from_iterable(filter(None, values))), None, depth=depth))
    return Column("list", len(values), NOTHING, None, _offsets(ends), children=(items,))


def _maps(values: Sequence[Any], depth: int) -> Column:
    ends = _ends(values)
    present = [one for one in values if one]
    keys = _in_rows(ends, lambda: _made(list(chain.from_iterable(present)), None, depth=depth))
    if keys.validity is not None:
        raise RowMisfit(bisect_right(ends, is_present(keys).index(False)) - 1, "has a key that is null")
    held = list(chain.from_iterable(one.values() for one in present))
    kind = "float64" if {int, float} == set(map(type, held)) - {type(None)} else None
    items = _in_rows(ends, lambda: _made(held, kind, depth=depth))
    return Column("map", len(values), NOTHING, None, _offsets(ends), children=(keys, items))


def _structs(values: Sequence[Any], depth: int) -> Column:
    names: dict[str, None] = {}
    for row, one in enumerate(values):
        if one and not all(type(name) is str for name in one):
            raise RowMisfit(row, "has a key that is no text, and no name of a field")
        names.update(dict.fromkeys(one or ()))
    if not names:
        raise UnserialisableError("a column of structs has at least one field: these are empty")
    members = ([None if one is None else one.get(name) for one in values] for name in names)
    fields = tuple(_made(one, None, depth=depth) for one in members)
    return Column("struct", len(values), NOTHING, children=fields, names=tuple(names))


def _ends(values: Sequence[Any]) -> list[int]:
    """Where the items of each row begin among all; ends with how many there are."""
    return [0, *accumulate(len(one) if one else 0 for one in values)]


def _offsets(ends: list[int]) -> memoryview:
    return memoryview(array("I", ends).tobytes())


def _in_rows(ends: list[int], make: Callable[[], Any]) -> Any:
    """What ``make`` makes of all items; the error of an item is that of its row."""
    try:
        return make()
    except RowMisfit as misfit:
        raise RowMisfit(bisect_right(ends, misfit.row) - 1, f"holds what {misfit.why}") from None


def _read_lists(column: Column) -> list[Any]:
    ends, (items,) = _children(column)
    return [items[start:end] for start, end in pairwise(ends)]


def _read_maps(column: Column) -> list[Any]:
    ends, (keys, items) = _children(column)
    return [
        _dict(row, keys[start:end], items[start:end]) if there else None
        for row, (there, (start, end)) in enumerate(zip(is_present(column), pairwise(ends), strict=True))
    ]


def _children(column: Column) -> tuple[list[int], list[list[Any]]]:
    """Where each row ends, and the values of all rows; None for those of a null row, which have no meaning."""
    assert column.offsets is not None
    ends = column.offsets.cast("I").tolist()
    rows = zip(is_present(column), pairwise(ends), strict=True)
    meant = [there for there, (start, end) in rows for _ in range(start, end)]
    return ends, [_in_rows(ends, partial(to_values, _meant(child, meant))) for child in column.children]


def _dict(row: int, keys: list[Any], items: list[Any]) -> dict[Any, Any]:
    try:
        made = dict(zip(keys, items, strict=True))
    except TypeError:  # lists and dicts
        raise RowMisfit(row, "has keys that no dict can have") from None
    if len(made) < len(keys):
        raise RowMisfit(row, "has a key twice")
    return made


def _read_structs(column: Column) -> list[Any]:
    present = is_present(column)
    fields = [to_values(_meant(child, present)) for child in column.children]
    return [dict(zip(column.names, row, strict=True)) for row in zip(*fields, strict=True)]


def _meant(child: Column, meant: list[bool]) -> Column:
    """``child`` with nulls where the row that holds it is null."""
    if all(meant):
        return child
    present = map(and_, is_present(child), meant)
    return replace(child, validity=memoryview(_to_bits(list(present))))


_NESTING: dict[str, Callable[[Sequence[Any], int], Column]] = {"list": _lists, "struct": _structs, "map": _maps}
_READERS.update({"list": _read_lists, "struct": _read_structs, "map": _read_maps})
