"""What a service answered, as the Arrow columns that were promised to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from speed import columns
from speed.errors import ExecutionFailedError
from speed.wire.column import Column

if TYPE_CHECKING:
    import pyarrow as pa


def promised_arrays(answer: Any, promised: pa.Schema, rows: int | None, source: str) -> list[pa.Array]:
    """The arrays of ``promised``, in its order: of one column, or of a map of columns by name.

    ``rows`` is how many are expected, None for as many as come. Raises ExecutionFailedError, which says what was
    promised and what came.
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
    import pyarrow as pa

    array = columns.to_arrow(column)
    if array.type == field.type:
        return array
    try:
        if _is_text(array.type) == _is_text(field.type):  # Arrow would read numbers out of text
            return array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    raise ExecutionFailedError(
        f"{source} answered with {column.kind} for {field.name!r}, promised was {field.type}, which does not hold it"
    )


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow.types as is_type

    return bool(is_type.is_string(kind) or is_type.is_large_string(kind) or is_type.is_binary(kind))
