"""Services that are called with columns: whole, as arrays, or row by row.

A service whose parameters are ``speed.Column`` sees the columns themselves. Two adapters spare it that::

    @node.service("distance")
    @by_array                                   # numpy arrays in, an array out
    def distance(lat1, lon1, lat2, lon2): …

    @node.service("compensation")
    @by_row                                     # one row after the other, each checked like a call
    def compensation(delay: int, miles: float) -> str: …
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from speed import columns
from speed.core.services import FunctionService, Request, Response, failure, is_cancellation, response_of
from speed.errors import ApplicationError, CallError, ExecutionFailedError, InvalidArgumentsError, UnserialisableError
from speed.wire.column import Column, RowMisfit, from_values
from speed.wire.value import plain


def columns_of(answers: Sequence[Any], kind: str | None) -> Column | dict[str, Column]:
    """The column of ``answers``, of ``kind`` or that of the first value; a column for each key where they are dicts.

    Raises ExecutionFailedError, whose ``details["row"]`` is the first row that does not fit.
    """
    first = next((answer for answer in answers if answer is not None), None)
    if type(first) is not dict:
        return _column_of_cells(answers, kind)
    names = _names(answers)
    return {name: _column_of_cells([_cell(row, name) for row in answers], None, f" {name!r}") for name in names}


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


def _column_of_cells(values: Sequence[Any], kind: str | None, name: str = "") -> Column:
    try:
        return from_values(values, kind)
    except RowMisfit as error:
        raise _misfit(error.row, f"the result{name} {error.why}") from None
    except UnserialisableError as error:
        row = next(row for row, value in enumerate(values) if value is not None)
        raise _misfit(row, f"the result{name}: {error}") from None


def _misfit(row: int, text: str) -> ExecutionFailedError:
    return ExecutionFailedError(f"row {row}: {text}", {"row": row})


_KINDS: Mapping[Any, str] = {
    int: "int64",
    float: "float64",
    bool: "bool",
    str: "utf8",
    bytes: "binary",
    datetime: "timestamp",
    Decimal: "decimal",
    date: "utf8",
    time: "utf8",
    UUID: "utf8",
    timedelta: "int64",
}
_CELLS = frozenset({Decimal})
"""What has a kind of column, though none as a single value."""


class RowService:
    """A function of one row: it answers batches with columns, and single calls as before. See ``by_row``."""

    takes_columns = True

    def __init__(self, function: Callable[..., Any]) -> None:
        """Raises ConfigurationError for a function that cannot be called by name, or whose hints cannot be checked."""
        self._row = FunctionService(getattr(function, "__name__", "service"), function, {Decimal: frozenset({Decimal})})
        self._kind = _kind_of_answer(function)
        self.described = self._row

    def invoke(self, request: Request) -> Any:
        """A column, or a map of columns where the function answers with dicts."""
        batch = request.columns
        if not batch:
            return self._row.invoke(request)
        rows = zip(*(_values(name, column) for name, column in batch.items()), strict=True)
        answers = [self._answer(request, number, dict(zip(batch, row, strict=True))) for number, row in enumerate(rows)]
        return columns_of(answers, self._kind)

    def _answer(self, request: Request, number: int, row: dict[str, Any]) -> Any:
        try:
            row_request = request._replace(arguments={**request.arguments, **row})
            answer = response_of(self._row.invoke(row_request))
            answer = answer._replace(result=plain(answer.result, _CELLS))
        except BaseException as error:
            if request.cancelled and is_cancellation(error):
                raise  # no row is to blame
            answer = failure(request.service, request.caller, error, is_cancelled=False)
        if answer.ok:
            return answer.result
        raise failed_row(number, answer)


class ArrayService:
    """A function of numpy arrays: batches only. See ``by_array``."""

    takes_columns = True

    def __init__(self, function: Callable[..., Any], any_rows: bool = False) -> None:
        """Raises ConfigurationError for a function that cannot be called by name, or whose hints cannot be checked."""
        self._any_rows = any_rows
        self._whole = FunctionService(getattr(function, "__name__", "service"), function, _array_types())
        self.described = self._whole

    def invoke(self, request: Request) -> Any:
        """A column, or a map of columns where the function answers with a dict of arrays."""
        batch = request.columns
        arrays = {name: _array(name, column) for name, column in batch.items()}
        answer = self._whole.invoke(request._replace(arguments={**request.arguments, **arrays}))
        rows = next(iter(batch.values())).rows if batch and not self._any_rows else None
        if isinstance(answer, dict):
            return {name: _column(array, rows, f" {name!r}") for name, array in answer.items()}
        return _column(answer, rows)


def by_row(function: Callable[..., Any]) -> RowService:
    """Make ``function`` of one row a service for batches too.

    The kind of the answer is that of the return annotation (``float``, ``str | None``); without one it is that of
    the first value, float64 where all are None, and a ``dict`` gives a column for each key that any row has. A null
    reaches the function only where it declares ``… | None``. The first row that raises, answers with
    ``Response.error``, or gives what does not fit into the column ends the call, and is ``details["row"]``.
    """
    return RowService(function)


def by_array(function: Callable[..., Any], *, any_rows: bool = False) -> ArrayService:
    """Make ``function`` of numpy arrays a service for batches: it answers with an array, or a dict of arrays.

    With ``any_rows`` these may be longer or shorter than the batch: a filter, an aggregate. Nulls arrive as
    ``columns.to_numpy`` says; numbers and booleans with nulls are INVALID_ARGUMENTS.
    """
    return ArrayService(function, any_rows)


def _array_types() -> Mapping[Any, frozenset[type]]:
    """numpy's array type, where a hint may name it: then numpy has been imported."""
    numpy = sys.modules.get("numpy")
    return {} if numpy is None else {numpy.ndarray: frozenset({numpy.ndarray})}


def _array(name: str, column: Column) -> Any:
    try:
        return columns.to_numpy(column)
    except UnserialisableError as error:
        row = columns.is_present(column).index(False)
        raise InvalidArgumentsError(f"argument {name!r}: {error}", {"argument": name, "row": row}) from None


def _values(name: str, column: Column) -> list[Any]:
    try:
        return columns.to_values(column)
    except RowMisfit as error:
        text = f"row {error.row}: argument {name!r} {error.why}"
        raise InvalidArgumentsError(text, {"argument": name, "row": error.row}) from None


def _column(answer: Any, rows: int | None, name: str = "") -> Column:
    try:
        column = answer if isinstance(answer, Column) else columns.from_numpy(answer)
    except RowMisfit as error:
        raise ExecutionFailedError(f"row {error.row}: the result{name} {error.why}", {"row": error.row}) from None
    if rows is not None and column.rows != rows:
        raise ExecutionFailedError(f"the answer has {column.rows} rows for a batch of {rows}")
    return column


def _kind_of_answer(function: Callable[..., Any]) -> str | None:
    """The kind that the return annotation names, if it names one."""
    try:
        hint = typing.get_type_hints(function).get("return")
    except Exception:  # annotations run the user's code: any exception may come out of it
        return None
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = [part for part in typing.get_args(hint) if part is not type(None)]
        hint = kinds[0] if len(kinds) == 1 else None
    return _KINDS.get(hint)
