"""Values in the types that Spark declares: as they are, exactly, or refused (``registry_spec/values.md``, V-5).

The one converter of the data source (``array_of``), of answers to columns (``cast``) and of rows that are written
(``rows_of``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from itertools import accumulate, chain
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_type

from speed.wire.text import WrittenFloat

_MAX_DIGITS = 38
_MAX_EXACT = 2**53
"""Up to here every integer is a float of its own."""
_NONE = type(None)


class MisfitError(ValueError):
    """A value that its declared type does not hold: ``row`` from 0, ``path`` of the field, and ``why``."""

    def __init__(self, row: int, why: str, path: str = "") -> None:
        super().__init__(f"{path or 'it'} {why}")
        self.row, self.why, self.path = row, why, path

    def inside(self, name: str, row: int | None = None) -> MisfitError:
        """The same seen from the value that holds it."""
        return MisfitError(self.row if row is None else row, self.why, _joined(name, self.path))


def _joined(name: str, path: str) -> str:
    return name + path if path.startswith("[") or not path else f"{name}.{path}"


def array_of(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    """The array of ``wanted`` that holds ``values``. Raises MisfitError for the first that it does not hold."""
    if is_type.is_struct(wanted):
        return _structs(values, wanted)
    if is_type.is_map(wanted):
        return _maps(values, wanted)
    if is_type.is_list(wanted) or is_type.is_large_list(wanted):
        return _lists(values, wanted)
    kinds = set(map(type, values)) - {_NONE}
    if len(kinds) < 2:
        return _of_one_kind(values, next(iter(kinds), _NONE), wanted)
    return _of_kinds(values, kinds, wanted)


def cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column as an array of ``wanted``, without a pass where it is one. Raises MisfitError."""
    came, kind = _kind_of(array.type), _kind_of(wanted)
    if kind == "text" and came in _WITH_TEXT:
        return pa.array([None if one is None else one.isoformat() for one in array.to_pylist()], wanted)
    if kind == "integer" and came == "duration":
        return _numbers(array.cast(pa.int64()), kind, kind, wanted)
    return _cast(array, wanted)


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type.equals(wanted, check_metadata=True):
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), wanted)
    came, kind = _kind_of(array.type), _kind_of(wanted)
    if kind in _HOLDING:
        return _held(array, came, kind, wanted)
    if {came, kind} <= _NUMBERS:
        return _numbers(array, came, kind, wanted)
    if came != kind or kind == "other":
        raise MisfitError(_first(array.is_valid()), f"is {_DESCRIPTIONS[came]}, which {wanted} does not hold")
    return _same_kind(array, wanted)


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch as values: instants in UTC, whatever zone the session has. Raises MisfitError."""
    batch = batch.cast(pa.schema([pa.field(one.name, _in_utc(one.type)) for one in batch.schema]))
    try:
        return batch.to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return, unused-ignore]
    except (OverflowError, ValueError, KeyError) as error:
        raise _misfit_in(batch) from error


# --- what a type is ---

_NUMBERS = frozenset({"integer", "float", "decimal"})
_WITH_TEXT = frozenset({"date", "time", "local"})
_HOLDING = frozenset({"list", "map", "struct"})
_DESCRIPTIONS = {
    "boolean": "a boolean",
    "integer": "an integer",
    "float": "a float",
    "decimal": "a decimal",
    "text": "text",
    "bytes": "bytes",
    "instant": "an instant",
    "local": "a date and time without a zone",
    "date": "a date",
    "time": "a time of day",
    "duration": "a duration",
    "list": "a list",
    "map": "a map",
    "struct": "a struct",
    "null": "null",
    "other": "of no kind that is known here",
}
_KINDS: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("boolean", is_type.is_boolean),
    ("integer", is_type.is_integer),
    ("float", is_type.is_floating),
    ("decimal", is_type.is_decimal128),
    ("text", lambda kind: is_type.is_string(kind) or is_type.is_large_string(kind)),
    ("bytes", lambda kind: is_type.is_binary(kind) or is_type.is_large_binary(kind)),
    ("instant", lambda kind: is_type.is_timestamp(kind) and kind.tz is not None),
    ("local", lambda kind: is_type.is_timestamp(kind) and kind.tz is None),
    ("date", is_type.is_date),
    ("time", is_type.is_time),
    ("duration", is_type.is_duration),
    ("map", is_type.is_map),
    ("struct", is_type.is_struct),
    ("list", is_type.is_list),
)


def _kind_of(arrow_type: pa.DataType) -> str:
    return next((kind for kind, is_it in _KINDS if is_it(arrow_type)), "other")


_UTC = pa.timestamp("us", "UTC")
_LOCAL = pa.timestamp("us")
_TYPE_OF: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    WrittenFloat: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    date: pa.date32(),
    time: pa.time64("us"),
    timedelta: pa.duration("us"),
    UUID: pa.string(),
}


# --- values of one kind ---


def _of_kinds(values: Sequence[Any], kinds: set[type], wanted: pa.DataType) -> pa.Array:
    """Each kind in an array of its own, laid over each other: 1 and 2.5 are floats."""
    parts, misfits = [], []
    for kind in kinds:
        try:
            parts.append(_of_one_kind([one if type(one) is kind else None for one in values], kind, wanted))
        except MisfitError as error:
            misfits.append(error)
    if misfits:
        raise min(misfits, key=lambda error: error.row)
    return pc.coalesce(*parts)


def _of_one_kind(values: Sequence[Any], kind: type, wanted: pa.DataType) -> pa.Array:
    if kind is _NONE:
        return pa.nulls(len(values), wanted)
    if kind is datetime:
        return _moments(values, wanted)
    if kind is UUID:
        values = [one and str(one) for one in values]
    if kind is Decimal or (kind is WrittenFloat and is_type.is_decimal128(wanted)):
        return _each(values, wanted)
    if kind not in _TYPE_OF:
        raise MisfitError(_present(values), f"is {_description_of(kind)}, which {wanted} does not hold")
    try:
        array = pa.array(values, _TYPE_OF[kind])
    except (OverflowError, pa.ArrowInvalid):
        if kind is not int:
            raise
        return _each(values, wanted)  # beyond 64 bits
    return _cast(array, wanted)


def _description_of(kind: type) -> str:
    if issubclass(kind, Mapping):
        return _DESCRIPTIONS["map"]
    return _DESCRIPTIONS["list"] if issubclass(kind, list | tuple) else _DESCRIPTIONS["other"]


def _moments(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    """With and without a zone, which are two kinds of one class."""
    local = [one is not None and one.tzinfo is None for one in values]
    if not any(local):
        return _cast(pa.array(values, _UTC), wanted)
    if all(is_local or one is None for one, is_local in zip(values, local, strict=True)):
        return _cast(pa.array(values, _LOCAL), wanted)
    raise MisfitError(local.index(True), f"is {_DESCRIPTIONS['local']} among instants, which {wanted} does not hold")


def _same_kind(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Other units, other widths of offsets; nothing is cut off."""
    try:
        return array.cast(wanted)
    except pa.ArrowInvalid:
        return _each_by(array, wanted, lambda one: one.cast(wanted))


def _each_by(array: pa.Array, wanted: pa.DataType, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Row by row, to name the first that does not fit."""
    rows = []
    for row in range(len(array)):
        try:
            rows.append(convert(array[row : row + 1]))
        except pa.ArrowInvalid:
            raise MisfitError(row, f"does not fit into {wanted}") from None
    return pa.concat_arrays(rows)


# --- numbers ---


def _numbers(array: pa.Array, came: str, kind: str, wanted: pa.DataType) -> pa.Array:
    if came == kind == "float":
        return _floats(array, wanted)
    if came == "float":
        return _each(array.to_pylist(), wanted) if kind == "decimal" else _whole(array, wanted)
    if kind == "float" and came == "decimal":
        return _each(array.to_pylist(), wanted)
    try:
        if came == "integer" and kind == "decimal":  # Arrow wants room for all that an int64 could be
            array = array.cast(pa.decimal128(_MAX_DIGITS, wanted.scale))
        return array.cast(wanted)
    except pa.ArrowInvalid:
        return _each(array.to_pylist(), wanted)  # Arrow refuses some that fit, and names no row


def _floats(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Rounded to the nearest float of the type; one beyond its range does not fit."""
    rounded = array.cast(wanted, safe=False)
    became_infinite = pc.and_(pc.is_inf(rounded), pc.is_finite(array))
    if pc.any(became_infinite).as_py():
        raise MisfitError(_first(became_infinite), f"is beyond the range of {wanted}")
    return rounded


def _whole(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Floats that are whole; beyond 2^53 one stands for several integers."""
    fits = pc.and_(pc.equal(array, pc.trunc(array)), pc.less_equal(pc.abs(array), float(_MAX_EXACT)))
    if pc.all(fits).as_py() is False:
        raise MisfitError(_first(pc.invert(fits)), f"is a float that {wanted} does not hold")
    return _same_kind(array, wanted)


def _each(values: Iterable[Any], wanted: pa.DataType) -> pa.Array:
    """Numbers one by one."""
    convert: Callable[[Any, pa.DataType], Any] = _CONVERTERS.get(_kind_of(wanted), _no_number)
    rows = []
    for row, value in enumerate(values):
        fitting = None if value is None else convert(value, wanted)
        if fitting is None and value is not None:
            came = "a decimal" if isinstance(value, Decimal) else _DESCRIPTIONS[_kind_of(_TYPE_OF[type(value)])]
            raise MisfitError(row, f"is {came} that {wanted} does not hold")
        rows.append(fitting)
    return pa.array(rows, wanted)


def _no_number(_: Any, __: pa.DataType) -> None:
    return None


def _as_integer(value: Any, wanted: pa.DataType) -> int | None:
    if not Decimal(value).is_finite() or value != int(value):
        return None
    whole = int(value)
    bits = wanted.bit_width
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_type.is_signed_integer(wanted) else (0, (1 << bits) - 1)
    return whole if low <= whole <= high else None


def _as_float(value: Any, wanted: pa.DataType) -> float | None:
    """An integer that loses no digit; a decimal whose digits are those by which the float is written."""
    width = np.float32 if is_type.is_float32(wanted) else np.float64
    try:
        with np.errstate(over="ignore"):
            number = width(float(value))
    except OverflowError:
        return None
    if not np.isfinite(number):
        return None
    is_same = int(number) == value if isinstance(value, int) else Decimal(str(number)) == value
    return float(number) if is_same else None


def _as_decimal(value: Any, wanted: pa.DataType) -> Decimal | None:
    """A float by the digits by which it is written: the fewest that are read as it, or those that stood in a JSON."""
    digits = _digits(value)
    if not digits.is_finite():
        return None
    exact = Context(prec=max(1, wanted.precision), traps=[Inexact, InvalidOperation])
    try:
        return digits.quantize(Decimal(1).scaleb(-wanted.scale), context=exact)
    except (Inexact, InvalidOperation):
        return None


def _digits(value: Any) -> Decimal:
    if isinstance(value, WrittenFloat):
        return Decimal(value.text)
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


_CONVERTERS: dict[str, Callable[[Any, pa.DataType], Any]] = {
    "integer": _as_integer,
    "float": _as_float,
    "decimal": _as_decimal,
}


# --- what holds others ---


def _structs(values: Sequence[Any], wanted: pa.StructType) -> pa.Array:
    _check_form(values, Mapping, wanted)
    if not wanted.num_fields:
        return pa.array([None if one is None else {} for one in values], wanted)
    fields = [wanted.field(number) for number in range(wanted.num_fields)]
    children = []
    for field in fields:
        members = [None if one is None else one.get(field.name) for one in values]
        if not field.nullable:
            _check_not_null(members, field.name, (one is not None for one in values))
        try:
            children.append(array_of(members, field.type))
        except MisfitError as error:
            raise error.inside(field.name) from None
    return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array([one is None for one in values]))


def _lists(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    _check_form(values, list, wanted)
    starts = _starts(values)
    items = _items(list(chain.from_iterable(filter(None, values))), wanted.value_field, "[]", starts)
    made = pa.ListArray.from_arrays(_offsets(values, starts), items)
    return made if made.type == wanted else made.cast(wanted)


def _maps(values: Sequence[Any], wanted: pa.MapType) -> pa.Array:
    _check_form(values, Mapping, wanted)
    starts = _starts(values)
    present = [one for one in values if one]
    keys = _items(list(chain.from_iterable(present)), wanted.key_field, "[key]", starts)
    items = _items(list(chain.from_iterable(one.values() for one in present)), wanted.item_field, "[]", starts)
    made = pa.MapArray.from_arrays(_offsets(values, starts), keys, items)
    return made if made.type == wanted else made.cast(wanted)


def _held(array: pa.Array, came: str, kind: str, wanted: pa.DataType) -> pa.Array:
    """A column of lists, maps or structs, whose children are cast; a struct of maps by their keys."""
    if (came, kind) == ("map", "struct"):
        return _by_rows(array, wanted)
    if came != kind:
        raise MisfitError(_first(array.is_valid()), f"is {_DESCRIPTIONS[came]}, which {wanted} does not hold")
    try:
        return _cast_fields(array, wanted) if kind == "struct" else _cast_items(array, wanted)
    except MisfitError as error:
        if array[error.row].is_valid:
            raise
    return _by_rows(array, wanted)  # what lies in a row that is null has no meaning


def _by_rows(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    try:
        return array_of(array.to_pylist(maps_as_pydicts="strict"), wanted)
    except (OverflowError, ValueError, KeyError) as error:
        if isinstance(error, MisfitError):
            raise
        raise MisfitError(_first(array.is_valid()), f"holds what Python has not, or a key twice ({error})") from None


def _cast_fields(array: pa.StructArray, wanted: pa.StructType) -> pa.Array:
    fields = [wanted.field(number) for number in range(wanted.num_fields)]
    children = []
    for field in fields:
        place = array.type.get_field_index(field.name)
        child = pa.nulls(len(array), field.type) if place < 0 else array.field(place)
        try:
            child = cast(child, field.type)
            if not field.nullable and child.null_count:
                _check_present(pc.and_(child.is_null(), array.is_valid()))
        except MisfitError as error:
            raise error.inside(field.name) from None
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null() if array.null_count else None)


def _cast_items(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Of lists and maps that begin with their first item, as columns do."""
    if is_type.is_map(wanted):
        held = [("[key]", array.keys, wanted.key_field), ("[]", array.items, wanted.item_field)]
    else:
        held = [("[]", array.values, wanted.value_field)]
    children = []
    for name, items, field in held:
        try:
            child = cast(items, field.type)
            if not field.nullable and child.null_count:
                _check_present(child.is_null())
        except MisfitError as error:
            raise error.inside(name, bisect_right(array.offsets.to_pylist(), error.row) - 1) from None
        children.append(child)
    if len(children) == 2:
        children = [pa.StructArray.from_arrays(children, fields=[wanted.key_field, wanted.item_field])]
    return pa.Array.from_buffers(wanted, len(array), array.buffers()[:2], children=children)


def _check_present(is_missing: pa.Array) -> None:
    if pc.any(is_missing).as_py():
        raise MisfitError(_first(is_missing), "is null, and declared NOT NULL")


def _starts(values: Sequence[Any]) -> list[int]:
    """Where the items of each row begin among all; ends with how many there are."""
    return [0, *accumulate(len(one) if one else 0 for one in values)]


def _offsets(values: Sequence[Any], starts: list[int]) -> pa.Array:
    """As Arrow takes them: a null where the row is null."""
    rows = [None if one is None else start for one, start in zip(values, starts, strict=False)]
    return pa.array([*rows, starts[-1]], pa.int32())


def _items(items: list[Any], field: pa.Field, name: str, starts: list[int]) -> pa.Array:
    """The items of all rows in one array; the error is that of the row."""
    try:
        if not field.nullable:
            _check_not_null(items, "")
        return array_of(items, field.type)
    except MisfitError as error:
        raise error.inside(name, bisect_right(starts, error.row) - 1) from None


def _check_form(values: Sequence[Any], form: type, wanted: pa.DataType) -> None:
    for kind in set(map(type, values)) - {_NONE}:
        if not issubclass(kind, form):
            row = next(row for row, one in enumerate(values) if type(one) is kind)
            came = _TYPE_OF.get(kind)
            description = _description_of(kind) if came is None else _DESCRIPTIONS[_kind_of(came)]
            raise MisfitError(row, f"is {description}, which {wanted} does not hold")


def _check_not_null(values: Sequence[Any], path: str, expected: Iterable[bool] | None = None) -> None:
    present = [True] * len(values) if expected is None else expected
    for row, (one, is_expected) in enumerate(zip(values, present, strict=True)):
        if one is None and is_expected:
            raise MisfitError(row, "is null, and declared NOT NULL", path)


def _present(values: Sequence[Any]) -> int:
    return next(row for row, one in enumerate(values) if one is not None)


def _first(bits: pa.Array) -> int:
    found: int = pc.index(bits, pa.scalar(True)).as_py()
    return found


# --- rows that are written ---


def _in_utc(kind: pa.DataType) -> pa.DataType:
    """The same type with its instants in UTC: Python has no year 0, which other zones give to the first instants."""
    if is_type.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if is_type.is_struct(kind):
        fields = (kind.field(number) for number in range(kind.num_fields))
        return pa.struct([one.with_type(_in_utc(one.type)) for one in fields])
    if is_type.is_map(kind):
        return pa.map_(*(one.with_type(_in_utc(one.type)) for one in (kind.key_field, kind.item_field)))
    if is_type.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_utc(kind.value_type)))
    return kind


def _misfit_in(batch: pa.RecordBatch) -> MisfitError:
    """The first row of a batch that has no values, and its column."""
    for row in range(batch.num_rows):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                column[row : row + 1].to_pylist(maps_as_pydicts="strict")
            except OverflowError:
                return MisfitError(row, "is an instant beyond the years 1 to 9999", name)
            except UnicodeDecodeError:
                return MisfitError(row, "is text that is not UTF-8", name)
            except (ValueError, KeyError):
                return MisfitError(row, "holds a moment beyond the years 1 to 9999, or a key twice", name)
    raise AssertionError("all rows have values")
