"""What a service answered row by row, as columns (C-8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from speed.core.services import Response
from speed.errors import ApplicationError, CallError, ExecutionFailedError, InvalidArgumentsError, UnserialisableError
from speed.wire.column import Column
from speed.wire.column_values import RowMisfit, from_values


def columns_of(answers: Sequence[Any], kind: str | None) -> Column | dict[str, Column]:
    """The column of ``answers``, of ``kind`` or that of the first value; a column for each key where they are dicts.

    Raises ExecutionFailedError, whose ``details["row"]`` is the first row that does not fit.
    """
    first = next((answer for answer in answers if answer is not None), None)
    if type(first) is not dict:
        return _column(answers, kind)
    names = _names(answers)
    return {name: _column([_cell(row, name) for row in answers], None, f" {name!r}") for name in names}


def _cell(row: dict[str, Any] | None, name: str) -> Any:
    return None if row is None else row.get(name)


def failed_row(row: int, answer: Response) -> CallError:
    """The error that ends a batch because of one row: it refuses its arguments, has a code of its own, or failed."""
    text, details = f"row {row}: {answer.error_message}", {**(answer.details or {}), "row": row}
    if answer.error_code == InvalidArgumentsError.code:
        return InvalidArgumentsError(text, details)
    if answer.has_own_code:
        return ApplicationError(str(answer.error_code), text, details)
    return ExecutionFailedError(text, details)


def _names(answers: Sequence[Any]) -> list[str]:
    """The keys of all rows, in the order in which they are met."""
    names: dict[str, None] = {}
    for row, answer in enumerate(answers):
        if answer is None:
            continue
        if type(answer) is not dict or not all(type(name) is str for name in answer):
            raise _misfit(row, "the result is no dict with keys of text, as those before are")
        names.update(dict.fromkeys(answer))
    return list(names)


def _column(values: Sequence[Any], kind: str | None, name: str = "") -> Column:
    try:
        return from_values(values, kind)
    except RowMisfit as error:
        raise _misfit(error.row, f"the result{name} {error.why}") from None
    except UnserialisableError as error:
        row = next(row for row, value in enumerate(values) if value is not None)
        raise _misfit(row, f"the result{name}: {error}") from None


def _misfit(row: int, text: str) -> ExecutionFailedError:
    return ExecutionFailedError(f"row {row}: {text}", {"row": row})
