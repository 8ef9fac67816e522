"""Columns from and to Python values, numpy and Arrow (``registry_spec/columns.md``).

    column = columns.from_values([1.5, None])         # also from_arrow, from_numpy
    node.call("geo", "distance", {"lat1": column, …})
    columns.to_arrow(answer)                          # also to_values, to_numpy

numpy and pyarrow are imported when first asked for; Arrow's buffers are used where they lie, without a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from speed.errors import UnserialisableError
from speed.wire.cells import RowMisfit, from_values, is_present, to_values
from speed.wire.column import WIDTHS, Column, bit_bytes

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

__all__ = [
    "Column",
    "from_arrow",
    "from_numpy",
    "from_values",
    "is_present",
    "kind_of",
    "to_arrow",
    "to_numpy",
    "to_values",
]

_NOTHING = memoryview(b"")
_NUMPY = {
    "int64": "<i8",
    "float64": "<f8",
    "timestamp": "<M8[us]",
    "local_timestamp": "<M8[us]",
    "duration": "<m8[us]",
    "date": "<i4",
    "months": "<i4",
}
_NULL_OF = {"f": "nan", "M": "NaT", "m": "NaT"}


def from_arrow(array: pa.Array | pa.ChunkedArray) -> Column:
    """The column of an Arrow array, without copying its values where its type is that of a column.

    Narrower numbers and other units of time are widened, lists of all forms become lists. Raises UnserialisableError
    for a type without a column (unions, nulls alone, intervals of months and days), and for a value that would change,
    or text that is not UTF-8, which are named by their row.
    """
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    array = _cast(array, arrow_type_of(array.type))
    if _holds_text(array.type):
        _check_utf8(array)
    return _of_buffers(array)


def _of_buffers(array: pa.Array) -> Column:
    """The column over the buffers of an array whose type is that of a column."""
    kind, rows = _kind_of_arrow(array.type), len(array)
    if kind == "struct":
        fields = [array.type.field(number) for number in range(array.type.num_fields)]
        children = tuple(_of_buffers(array.field(number)) for number in range(len(fields)))
        names = tuple(field.name for field in fields)
        return Column(kind, rows, _NOTHING, _validity(array), children=children, names=names)
    if kind in ("list", "map"):
        parts = (array.values,) if kind == "list" else (array.keys, array.items)
        offsets, first, last = _offsets(array)
        children = tuple(_of_buffers(part[first:last]) for part in parts)
        return Column(kind, rows, _NOTHING, _validity(array), offsets, children=children)
    array = _from_the_start(array)
    buffers, validity = array.buffers(), _validity(array)
    if kind in ("utf8", "binary"):
        offsets = _view(buffers[1], (rows + 1) * 4)
        data = _view(buffers[2], int.from_bytes(offsets[-4:], "little"))
        return Column(kind, rows, data, validity, offsets)
    if kind == "bool":
        return Column(kind, rows, _bits(buffers[1], array), validity)
    scaled = (array.type.precision, array.type.scale) if kind == "decimal" else (0, 0)
    return Column(kind, rows, _view(buffers[1], rows * WIDTHS[kind]), validity, None, *scaled)


def _offsets(array: pa.Array) -> tuple[memoryview, int, int]:
    """Where the items of each row end, from 0 on; and the first and last of them among all that the array has."""
    import pyarrow as pa
    import pyarrow.compute as pc

    offsets = array.offsets if len(array.offsets) else pa.array([0], pa.int32())
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    from_the_start = _from_the_start(pc.subtract(offsets, offsets[0]) if first else offsets)
    return _view(from_the_start.buffers()[1], (len(array) + 1) * 4), first, last


def to_arrow(column: Column) -> pa.Array:
    """The Arrow array over the very bytes of ``column``; months, of which pyarrow has no array, are int32."""
    import pyarrow as pa

    children = [to_arrow(child) for child in column.children]
    kind = _arrow_type(column, [child.type for child in children])
    parts = [column.validity]
    if column.offsets is not None:
        parts.append(column.offsets)
    if not children:
        parts.append(column.data)
    elif column.kind == "map":
        children = [pa.StructArray.from_arrays(children, fields=[kind.key_field, kind.item_field])]
    buffers = [None if part is None else pa.py_buffer(part) for part in parts]
    return pa.Array.from_buffers(kind, column.rows, buffers, children=children or None)


def _arrow_type(column: Column, inner: list[pa.DataType]) -> pa.DataType:
    import pyarrow as pa

    if column.kind == "list":
        return pa.list_(*inner)
    if column.kind == "map":
        return pa.map_(*inner)
    if column.kind == "struct":
        return pa.struct(list(zip(column.names, inner, strict=True)))
    if column.kind == "decimal":
        return pa.decimal128(column.precision, column.scale)
    return _plain_types()[column.kind]


@cache
def _plain_types() -> dict[str, pa.DataType]:
    """The types of Arrow whose buffers are those of a kind."""
    import pyarrow as pa

    return {
        "int64": pa.int64(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "utf8": pa.string(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "date": pa.date32(),
        "time": pa.time64("us"),
        "local_timestamp": pa.timestamp("us"),
        "duration": pa.duration("us"),
        "months": pa.int32(),
    }


def kind_of(arrow_type: pa.DataType) -> str:
    """The kind of column that holds an Arrow type. Raises UnserialisableError for a type without one."""
    return _kind_of_arrow(arrow_type_of(arrow_type))


def from_numpy(array: np.ndarray[Any, Any]) -> Column:
    """The column of a one-dimensional array of numbers, booleans, times or objects.

    ``datetime64`` is in UTC, of days a date, and ``timedelta64`` a duration; NaT is null. What is masked is null, and
    so is None among objects. Raises UnserialisableError for any other shape or type, an integer beyond 64 signed bits,
    a ``longdouble`` that a float64 does not hold, and what is beyond microseconds of 64 bits.
    """
    import numpy as np

    if array.ndim != 1:
        raise UnserialisableError(f"a column has one dimension, not {array.ndim}")
    if not isinstance(array, np.ma.MaskedArray):
        return _from_array(array)
    if array.dtype.kind not in "biufMm":
        return from_values(array.tolist())
    there = ~np.ma.getmaskarray(array)
    nothing = np.array("NaT" if array.dtype.kind in "Mm" else 0, array.dtype)
    filled = array.filled(nothing)  # what is masked has no meaning
    column = _from_array(filled)
    return column if there.all() or column.validity is not None else replace(column, validity=_bits_of(there))


def _from_array(array: np.ndarray[Any, Any]) -> Column:
    import numpy as np

    kind = array.dtype.kind
    if kind == "b":
        return Column("bool", len(array), _bits_of(array))
    if kind in "Mm":
        return _from_moments(array)
    if kind not in "iuf":
        return from_values(array.tolist())
    if kind == "f":
        return Column("float64", len(array), _bytes_of(_exact(array, "<f8", "float64")))
    if kind == "u" and array.size and int(array.max()) >= 2**63:
        raise RowMisfit(int(array.argmax()), "does not fit into a column of int64")
    return Column("int64", len(array), _bytes_of(np.ascontiguousarray(array, "<i8")))


def to_numpy(column: Column) -> np.ndarray[Any, Any]:
    """The rows as an array, without a copy where there is no null and numpy has the type.

    A null is NaN in float64, NaT among times, masked in int64, bool and months, and None among objects, which all other
    kinds are. Raises UnserialisableError for values that Python does not have.
    """
    import numpy as np

    if column.kind not in (*_NUMPY, "bool"):
        objects: np.ndarray[Any, Any] = np.array([*to_values(column), None], object)[:-1]
        return objects
    array = (
        _flags(column.data, column.rows) if column.kind == "bool" else np.frombuffer(column.data, _NUMPY[column.kind])
    )
    if column.kind == "date":
        array = array.astype("<M8[D]")
    if column.validity is None:
        return array
    there = _flags(column.validity, column.rows)
    if array.dtype.kind not in _NULL_OF:
        masked: np.ndarray[Any, Any] = np.ma.masked_array(np.where(there, array, array.dtype.type(0)), ~there)
        return masked
    with_nulls: np.ndarray[Any, Any] = np.where(there, array, np.array(_NULL_OF[array.dtype.kind], array.dtype))
    return with_nulls


def _flags(bits: memoryview, rows: int) -> np.ndarray[Any, Any]:
    import numpy as np

    flags: np.ndarray[Any, Any] = np.unpackbits(np.frombuffer(bits, np.uint8), count=rows, bitorder="little").view(bool)
    return flags


def _from_moments(array: np.ndarray[Any, Any]) -> Column:
    """Microseconds, or days; what is finer is rounded down, what is coarser may be beyond them."""
    import numpy as np

    present = ~np.isnat(array)
    validity = None if present.all() else _bits_of(present)
    unit = np.datetime_data(array.dtype)[0]
    if array.dtype.kind == "M" and unit == "D":
        days = np.where(present, array.astype("<i8"), 0)
        return Column("date", len(array), memoryview(_exact(days, "<i4", "date").tobytes()), validity)
    kind = "timestamp" if array.dtype.kind == "M" else "duration"
    wanted = f"<{array.dtype.kind}8[us]"
    is_finer = unit in ("ns", "ps", "fs", "as")
    data = np.ascontiguousarray(array, wanted) if is_finer else _exact(array, wanted, kind)
    return Column(kind, len(array), _bytes_of(data), validity)


def _exact(array: np.ndarray[Any, Any], dtype: str, kind: str) -> np.ndarray[Any, Any]:
    """The same numbers as another type. Raises RowMisfit for the first that is no longer the same."""
    import numpy as np

    with np.errstate(over="ignore"):
        changed: np.ndarray[Any, Any] = np.ascontiguousarray(array, dtype)
    if array.dtype == changed.dtype:
        return changed
    is_same = (changed.astype(array.dtype) == array) | (array != array)  # NaN and NaT are not themselves
    if not is_same.all():
        raise RowMisfit(int(is_same.argmin()), f"does not fit into a column of {kind}")
    return changed


def _bits_of(flags: np.ndarray[Any, Any]) -> memoryview:
    import numpy as np

    return memoryview(np.packbits(flags, bitorder="little").tobytes())


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    data: memoryview = array.view("<i8").data
    return data.cast("B")


_ARROW: tuple[tuple[str, str], ...] = (
    ("integer", "int64"),
    ("floating", "float64"),
    ("boolean", "bool"),
    ("string", "utf8"),
    ("large_string", "utf8"),
    ("string_view", "utf8"),
    ("binary", "binary"),
    ("large_binary", "binary"),
    ("binary_view", "binary"),
    ("fixed_size_binary", "binary"),
    ("decimal", "decimal"),
    ("date", "date"),
    ("time", "time"),
    ("duration", "duration"),
    ("struct", "struct"),
    ("map", "map"),
    ("list", "list"),
    ("large_list", "list"),
    ("fixed_size_list", "list"),
    ("list_view", "list"),
    ("large_list_view", "list"),
)
"""``pyarrow.types.is_…`` of the types that are a kind of column."""


def _kind_of_arrow(kind: pa.DataType) -> str:
    import pyarrow.types as is_type

    if is_type.is_timestamp(kind):
        return "timestamp" if kind.tz is not None else "local_timestamp"
    for test, name in _ARROW:
        if getattr(is_type, f"is_{test}")(kind):
            return name
    raise UnserialisableError(f"an Arrow column of {kind} has no representation: cast it first")


def arrow_type_of(kind: pa.DataType) -> pa.DataType:
    """The type of Arrow that a column of ``kind`` travels in. Raises UnserialisableError for one without a column."""
    import pyarrow as pa

    name = _kind_of_arrow(kind)
    if name == "list":
        return pa.list_(arrow_type_of(kind.value_type))
    if name == "map":
        return pa.map_(arrow_type_of(kind.key_type), arrow_type_of(kind.item_type))
    if name == "struct":
        return pa.struct([(field.name, arrow_type_of(field.type)) for field in _fields(kind)])
    if name == "decimal":
        if kind.precision > 38 or not 0 <= kind.scale <= kind.precision:
            raise UnserialisableError(f"an Arrow column of {kind} has no representation: cast it first")
        return pa.decimal128(kind.precision, kind.scale)
    return _plain_types()[name]


def _fields(kind: pa.StructType) -> list[pa.Field]:
    fields = [kind.field(number) for number in range(kind.num_fields)]
    if not fields or len({field.name for field in fields}) < len(fields):
        raise UnserialisableError(
            f"a column has structs with fields of different names, and with at least one, not {kind}"
        )
    return fields


def _holds_text(kind: pa.DataType) -> bool:
    import pyarrow.types as is_type

    if is_type.is_nested(kind):
        return any(_holds_text(kind.field(number).type) for number in range(kind.num_fields))
    return bool(is_type.is_string(kind))


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if array.type == wanted:
        return array
    try:
        return array.cast(wanted)
    except pa.ArrowInvalid:
        raise RowMisfit(
            _first(array, lambda one: one.cast(wanted)), f"is of {array.type} and does not fit into {wanted}"
        ) from None
    except pa.ArrowNotImplementedError as error:
        raise UnserialisableError(
            f"an Arrow column of {array.type} has no representation ({error}): cast it first"
        ) from None


def _first(array: pa.Array, check: Callable[[pa.Array], object]) -> int:
    """The first row that ``check`` refuses, as it refused all."""
    import pyarrow as pa

    for row in range(len(array)):
        try:
            check(array[row : row + 1])
        except pa.ArrowInvalid:
            return row
    raise UnserialisableError("a column has at most 2 GiB of text or bytes: send fewer rows at once")


def _check_utf8(array: pa.Array) -> None:
    """Arrow's strings may be any bytes, as Spark makes them of binary."""
    import pyarrow as pa

    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raise RowMisfit(_first(array, lambda one: one.validate(full=True)), "is text that is not UTF-8") from None


def _from_the_start(array: pa.Array) -> pa.Array:
    """``array``, or its copy where it is a slice of a larger one: its bits and offsets begin elsewhere."""
    import pyarrow as pa

    return pa.concat_arrays([array, array[:0]]) if array.offset else array


def _validity(array: pa.Array) -> memoryview | None:
    import pyarrow.compute as pc

    if not array.null_count:
        return None
    if array.offset:
        return _bits(_from_the_start(pc.is_valid(array)).buffers()[1], array)
    return _bits(array.buffers()[0], array)


def _view(buffer: pa.Buffer | None, size: int) -> memoryview:
    """The first ``size`` bytes; Arrow's buffers are longer than what they hold, and absent where that is nothing."""
    return memoryview(bytes(size) if buffer is None else buffer)[:size].toreadonly().cast("B")


def _bits(buffer: pa.Buffer | None, array: pa.Array) -> memoryview:
    """Copied: what Arrow has behind the last bit need not be zero."""
    bits = bytearray(_view(buffer, bit_bytes(len(array))))
    if len(array) % 8:
        bits[-1] &= (1 << len(array) % 8) - 1
    return memoryview(bytes(bits))
