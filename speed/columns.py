"""Columns from and to Python values, numpy and Arrow (``registry_spec/columns.md``).

    column = columns.from_values([1.5, None])         # also from_arrow, from_numpy
    node.call("geo", "distance", {"lat1": column, …})
    columns.to_arrow(answer)                          # also to_values, to_numpy

numpy and pyarrow are imported when first asked for; Arrow's buffers are used where they lie, without a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from speed.errors import UnserialisableError
from speed.wire.column import Column, RowMisfit, bit_bytes, from_values, is_present, to_values

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

_NUMPY = {"int64": "<i8", "float64": "<f8", "timestamp": "<M8[us]"}


def from_arrow(array: pa.Array | pa.ChunkedArray) -> Column:
    """The column of an Arrow array, without copying its values where its type is that of a column.

    Narrower numbers and other units of time are widened. Raises UnserialisableError for a type without a column
    (dates, times without a zone, nested types: cast them first), and for a value that would change, or text that is
    not UTF-8, which are named by their row.
    """
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    kind, wanted = _kind_of_arrow(array.type)
    array = _from_the_start(_cast(array, wanted))
    if kind == "utf8":
        _check_utf8(array)
    buffers = array.buffers()
    validity = _bits(buffers[0], array) if array.null_count else None
    scaled = (array.type.precision, array.type.scale) if kind == "decimal" else (0, 0)
    if kind in ("utf8", "binary"):
        offsets = _view(buffers[1], (len(array) + 1) * 4)
        data = _view(buffers[2], int.from_bytes(offsets[-4:], "little"))
        return Column(kind, len(array), data, validity, offsets)
    if kind == "bool":
        return Column(kind, len(array), _bits(buffers[1], array), validity)
    return Column(kind, len(array), _view(buffers[1], len(array) * wanted.bit_width // 8), validity, None, *scaled)


def to_arrow(column: Column) -> pa.Array:
    """The Arrow array over the very bytes of ``column``."""
    import pyarrow as pa

    types = {
        "int64": pa.int64(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "utf8": pa.string(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    kind = types.get(column.kind) or pa.decimal128(column.precision, column.scale)
    parts = (column.validity, column.offsets, column.data) if column.offsets else (column.validity, column.data)
    return pa.Array.from_buffers(kind, column.rows, [None if part is None else pa.py_buffer(part) for part in parts])


def kind_of(arrow_type: pa.DataType) -> str:
    """The kind of column that holds an Arrow type. Raises UnserialisableError for a type without one."""
    return _kind_of_arrow(arrow_type)[0]


def from_numpy(array: np.ndarray[Any, Any]) -> Column:
    """The column of a one-dimensional array of numbers, booleans, ``datetime64`` (UTC; NaT is null) or objects.

    What is masked is null, and so is None among objects. Raises UnserialisableError for any other shape or type, for
    an integer beyond 64 signed bits, a ``longdouble`` that a float64 does not hold, and a moment beyond microseconds
    of 64 bits; ``timedelta64`` has no column: make it an integer of microseconds.
    """
    import numpy as np

    if array.ndim != 1:
        raise UnserialisableError(f"a column has one dimension, not {array.ndim}")
    if array.dtype.kind == "m":
        raise UnserialisableError(f"an array of {array.dtype} has no column: make it an integer of microseconds")
    if not isinstance(array, np.ma.MaskedArray):
        return _from_array(array)
    if array.dtype.kind not in "biufM":
        return from_values(array.tolist())
    there = ~np.ma.getmaskarray(array)
    nothing = np.array("NaT" if array.dtype.kind == "M" else 0, array.dtype)
    filled = array.filled(nothing)  # what is masked has no meaning
    column = _from_array(filled)
    return column if there.all() or column.validity is not None else replace(column, validity=_bits_of(there))


def _from_array(array: np.ndarray[Any, Any]) -> Column:
    import numpy as np

    kind = array.dtype.kind
    if kind == "b":
        return Column("bool", len(array), _bits_of(array))
    if kind == "M":
        return _from_instants(array)
    if kind not in "iuf":
        return from_values(array.tolist())
    if kind == "f":
        return Column("float64", len(array), _bytes_of(_exact(array, "<f8", "float64")))
    if kind == "u" and array.size and int(array.max()) >= 2**63:
        raise RowMisfit(int(array.argmax()), "does not fit into a column of int64")
    return Column("int64", len(array), _bytes_of(np.ascontiguousarray(array, "<i8")))


def to_numpy(column: Column) -> np.ndarray[Any, Any]:
    """The rows as an array, without a copy where there is no null.

    A null is NaN in float64, NaT in timestamp and None among objects (utf8, binary, decimal). Raises
    UnserialisableError for nulls in int64 and bool, which numpy cannot say: use ``to_arrow``.
    """
    import numpy as np

    if column.validity is not None and column.kind in ("int64", "bool"):
        raise UnserialisableError(f"a column of {column.kind} with nulls is no numpy array: use to_arrow or to_values")
    if column.kind == "bool":
        bits: np.ndarray[Any, Any] = np.frombuffer(column.data, np.uint8)
        flags: np.ndarray[Any, Any] = np.unpackbits(bits, count=column.rows, bitorder="little").view(bool)
        return flags
    if column.kind not in _NUMPY:
        objects: np.ndarray[Any, Any] = np.array([*to_values(column), None], object)[:-1]
        return objects
    array: np.ndarray[Any, Any] = np.frombuffer(column.data, _NUMPY[column.kind])
    if column.validity is None:
        return array
    null = np.array("nan" if column.kind == "float64" else "NaT", array.dtype)
    with_nulls: np.ndarray[Any, Any] = np.where(is_present(column), array, null)
    return with_nulls


def _from_instants(array: np.ndarray[Any, Any]) -> Column:
    """Microseconds; what is finer is rounded down, what is coarser may be beyond them."""
    import numpy as np

    present = ~np.isnat(array)
    is_finer = np.datetime_data(array.dtype)[0] in ("ns", "ps", "fs", "as")
    data = np.ascontiguousarray(array, "<M8[us]") if is_finer else _exact(array, "<M8[us]", "timestamp")
    validity = None if present.all() else _bits_of(present)
    return Column("timestamp", len(array), _bytes_of(data), validity)


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


def _kind_of_arrow(kind: pa.DataType) -> tuple[str, pa.DataType]:
    import pyarrow.types as is_type
    from pyarrow import binary, bool_, float64, int64, string, timestamp

    if is_type.is_integer(kind):
        return "int64", int64()
    if is_type.is_floating(kind):
        return "float64", float64()
    if is_type.is_boolean(kind):
        return "bool", bool_()
    if is_type.is_string(kind) or is_type.is_large_string(kind):
        return "utf8", string()
    if is_type.is_binary(kind) or is_type.is_large_binary(kind) or is_type.is_fixed_size_binary(kind):
        return "binary", binary()
    if is_type.is_timestamp(kind) and kind.tz is not None:
        return "timestamp", timestamp("us", tz="UTC")
    if is_type.is_decimal128(kind) and kind.scale >= 0:
        return "decimal", kind
    raise UnserialisableError(f"an Arrow column of {kind} has no representation: cast it first")


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


def _first(array: pa.Array, check: Callable[[pa.Array], object]) -> int:
    """The first row that ``check`` refuses, as it refused all."""
    import pyarrow as pa

    for row in range(len(array)):
        try:
            check(array[row : row + 1])
        except pa.ArrowInvalid:
            return row
    raise AssertionError("an array is refused, and none of its rows is")


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


def _view(buffer: pa.Buffer | None, size: int) -> memoryview:
    """The first ``size`` bytes; Arrow's buffers are longer than what they hold, and absent where that is nothing."""
    return memoryview(bytes(size) if buffer is None else buffer)[:size].toreadonly().cast("B")


def _bits(buffer: pa.Buffer | None, array: pa.Array) -> memoryview:
    """Copied: what Arrow has behind the last bit need not be zero."""
    bits = bytearray(_view(buffer, bit_bytes(len(array))))
    if len(array) % 8:
        bits[-1] &= (1 << len(array) % 8) - 1
    return memoryview(bytes(bits))
