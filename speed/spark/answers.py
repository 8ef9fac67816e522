"""What a service answered, as the Arrow columns that were promised to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from speed import columns
from speed.errors import ExecutionFailedError
from speed.wire.column import Column

if TYPE_CHECKING:
    import pyarrow as pa


class _BrokenError(Exception):
    """A row of the answer that is not as it was promised."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row = row


def promised_arrays(answer: Any, promised: pa.Schema, rows: int | None, *, named: bool = True) -> list[pa.Array]:
    """The arrays of ``promised``, in its order: of one column, or of a map of columns by name.

    ``rows`` is how many are expected, None for as many as come. What the answer lacks is null, unless the names of
    ``promised`` are not those of the program (``named``). Raises ExecutionFailedError, which says what was promised
    and what came; ``details`` have the row of a value, as ``row`` where ``rows`` are those that were sent.
    """
    by_name = _by_name(answer, promised)
    if not named and by_name and not by_name.keys() & set(promised.names):
        raise ExecutionFailedError(f"the answer has the columns {list(by_name)}, promised was one column")
    lengths = {column.rows for column in by_name.values()}
    if len(lengths) > 1 or (rows is not None and lengths - {rows}):
        expected = "columns of one length" if rows is None else f"{rows} rows"
        raise ExecutionFailedError(f"the answer has {sorted(lengths)} rows, promised were {expected}")
    there = next(iter(lengths), rows or 0)
    try:
        return [_promised(by_name.get(field.name), field, there) for field in promised]
    except _BrokenError as broken:
        if rows is None:  # no row that was sent is to blame
            text, details = f"row {broken.row} of the answer: {broken}", {"row_of_answer": broken.row}
        else:
            text, details = str(broken), {"row": broken.row}
        raise ExecutionFailedError(text, details) from None


def null_arrays(promised: pa.Schema, rows: int) -> list[pa.Array]:
    """As many nulls of each promised type."""
    import pyarrow as pa

    return [pa.nulls(rows, field.type) for field in promised]


def _by_name(answer: Any, promised: pa.Schema) -> dict[str, Column]:
    if isinstance(answer, Column) and (len(promised) == 1 or _is_null(answer)):
        # Rows that all answered with nothing are one column, though they would have been a map.
        return dict.fromkeys(promised.names, answer)
    if not isinstance(answer, dict) or not all(isinstance(value, Column) for value in answer.values()):
        kind = "one column" if isinstance(answer, Column) else type(answer).__name__
        raise ExecutionFailedError(f"the answer is {kind}, promised were columns {promised.names}")
    return answer


def _is_null(column: Column) -> bool:
    return not any(columns.is_present(column))


def _promised(column: Column | None, field: pa.Field, rows: int) -> pa.Array:
    """The promise decides, not what a batch has: a column that is missing is one of nulls."""
    import pyarrow as pa

    from speed.spark.declared import MisfitError, cast

    if column is None:
        array = pa.nulls(rows, field.type)
    else:
        try:
            array = cast(columns.to_arrow(column), field.type)
        except MisfitError as error:
            raise _BrokenError(error.row, f"the answer for {field.name!r} {error.why}") from None
    if not field.nullable and array.null_count:
        row = array.is_null().index(True).as_py()
        missing = "nothing" if column is None else "null"
        raise _BrokenError(row, f"the answer for {field.name!r} is {missing}, which was promised NOT NULL")
    return array
