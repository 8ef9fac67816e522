"""What a service answered, as the Arrow columns that were promised to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from speed import columns
from speed.errors import ExecutionFailedError
from speed.wire.column import Column

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBERS = frozenset({"int64", "float64", "decimal"})
_MOST_DIGITS = 38


def promised_arrays(answer: Any, promised: pa.Schema, rows: int | None, source: str) -> list[pa.Array]:
    """The arrays of ``promised``, in its order: of one column, or of a map of columns by name.

    ``rows`` is how many are expected, None for as many as come. Raises ExecutionFailedError, which says what was
    promised and what came; ``source`` names node, service and batch.
    """
    by_name = _by_name(answer, promised, source)
    arrays = [_promised(by_name[field.name], field, source) for field in promised]
    lengths = {len(array) for array in arrays}
    if len(lengths) > 1 or (rows is not None and lengths != {rows}):
        expected = "columns of one length" if rows is None else f"{rows} rows"
        raise ExecutionFailedError(f"{source} answered with {sorted(lengths)} rows, promised were {expected}")
    return arrays


def null_arrays(promised: pa.Schema, rows: int) -> list[pa.Array]:
    """As many nulls of each promised type."""
    import pyarrow as pa

    return [pa.nulls(rows, field.type) for field in promised]


def _by_name(answer: Any, promised: pa.Schema, source: str) -> dict[str, Column]:
    if isinstance(answer, Column) and len(promised) == 1:
        return {promised.names[0]: answer}
    if not isinstance(answer, dict) or not all(isinstance(value, Column) for value in answer.values()):
        kind = "one column" if isinstance(answer, Column) else type(answer).__name__
        raise ExecutionFailedError(f"{source} answered with {kind}, promised were columns {promised.names}")
    missing = [name for name in promised.names if name not in answer]
    if missing:
        raise ExecutionFailedError(f"{source} answered without the promised columns {missing}")
    return answer


def _promised(column: Column, field: pa.Field, source: str) -> pa.Array:
    array = columns.to_arrow(column)
    if not field.nullable and array.null_count:
        row = columns.is_present(column).index(False)
        raise ExecutionFailedError(
            f"{source} answered null for {field.name!r} in row {row}, which was promised NOT NULL"
        )
    if array.type == field.type:
        return array
    fitting = _cast(array, column.kind, field.type)
    if fitting is None:
        came = f"{source} answered with {column.kind} for {field.name!r}"
        raise ExecutionFailedError(f"{came}, promised was {field.type}, which does not hold it")
    return fitting


def _cast(array: pa.Array, kind: str, wanted: pa.DataType) -> pa.Array | None:
    """Numbers become other numbers if none changes, and nulls any nulls: they have no kind a service could know."""
    import pyarrow as pa

    if array.null_count == len(array):
        return pa.nulls(len(array), wanted)
    promised = columns.kind_of(wanted)
    if kind != promised and not {kind, promised} <= _NUMBERS:
        return None
    try:
        if kind == "int64" and promised == "decimal":  # Arrow wants room for all that an int64 could be
            array = array.cast(pa.decimal128(_MOST_DIGITS, wanted.scale))
        return array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
