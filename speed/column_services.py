"""Services that are called with columns: whole, as arrays, or row by row.

A service whose parameters are ``speed.Column`` sees the columns themselves. Three adapters spare it that::

    @node.service("totals")
    @by_arrow                                   # a pyarrow.RecordBatch in, one out
    def totals(batch): …

    @node.service("distance")
    @by_array                                   # numpy arrays in, an array out
    def distance(lat1, lon1, lat2, lon2): …

    @node.service("compensation")
    @by_row                                     # one row after the other, each checked like a call
    def compensation(delay: int, miles: float) -> str: …
"""

from __future__ import annotations

import inspect
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
from speed.errors import (
    ApplicationError,
    CallError,
    ConfigurationError,
    ExecutionFailedError,
    InvalidArgumentsError,
    UnserialisableError,
)
from speed.wire.cells import RowMisfit, from_values
from speed.wire.column import Column
from speed.wire.value import plain


def columns_of(answers: Sequence[Any], kind: str | None) -> Column | dict[str, Column]:
    """The column of ``answers``, of ``kind`` or that of the first value; a column for each key where they are dicts.

    Raises ExecutionFailedError, whose ``details["row"]`` is the first row that does not fit.
    """
    first = next((answer for answer in answers if answer is not None), None)
    if kind == "timestamp" and type(first) is datetime and first.tzinfo is None:
        kind = "local_timestamp"  # one class for two kinds
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


_Read = typing.TypeVar("_Read")
_KINDS: Mapping[Any, str] = {
    int: "int64",
    float: "float64",
    bool: "bool",
    str: "utf8",
    bytes: "binary",
    datetime: "timestamp",
    Decimal: "decimal",
    date: "date",
    time: "time",
    UUID: "utf8",
    timedelta: "duration",
    list: "list",
    tuple: "list",
}
_CELLS = frozenset({Decimal, date, time, timedelta})
"""What has a kind of column, though none as a single value."""


class RowService:
    """A function of one row: it answers batches with columns, and single calls as before. See ``by_row``."""

    takes_columns = True

    def __init__(self, function: Callable[..., Any], kind: str | None = None) -> None:
        """Raises ConfigurationError for a function that cannot be called by name, or whose hints cannot be checked."""
        self._row = FunctionService(
            getattr(function, "__name__", "service"), function, {kind: frozenset({kind}) for kind in _CELLS}
        )
        self._kind = kind or _kind_of_answer(function)
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
        try:
            answer = self._whole.invoke(request._replace(arguments={**request.arguments, **arrays}))
        except InvalidArgumentsError as error:
            raise _nulls_named(error, batch) from None
        rows = next(iter(batch.values())).rows if batch and not self._any_rows else None
        if isinstance(answer, dict):
            return {name: _column(array, rows, f" {name!r}") for name, array in answer.items()}
        return _column(answer, rows)


class ArrowService:
    """A function of one RecordBatch: batches only. See ``by_arrow``."""

    def __init__(self, function: Callable[..., Any], any_rows: bool = False) -> None:
        """Raises ConfigurationError for a function without a parameter for the batch, or whose hints are unchecked."""
        self._any_rows = any_rows
        try:
            self._batch = next(iter(inspect.signature(function).parameters))
        except (StopIteration, TypeError, ValueError):
            raise ConfigurationError("a function by Arrow has a parameter for the batch, as its first one") from None
        self._whole = FunctionService(getattr(function, "__name__", "service"), function, _batch_types())

    def invoke(self, request: Request) -> Any:
        """A map of columns, or one where the function answers with an array."""
        import pyarrow as pa

        parts = request.columns
        arrays = [columns.to_arrow(column) for column in parts.values()]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(parts))
        others = {name: value for name, value in request.arguments.items() if name not in parts}
        if self._batch in others:
            raise InvalidArgumentsError(f"argument {self._batch!r} is no column", {"argument": self._batch})
        answer = self._whole.invoke(request._replace(arguments={self._batch: batch, **others}))
        rows = batch.num_rows if parts and not self._any_rows else None
        if isinstance(answer, pa.RecordBatch | pa.Table):
            if len(set(answer.schema.names)) < answer.num_columns:
                raise ExecutionFailedError(f"the answer has a column twice: {answer.schema.names}")
            return {
                name: _column(array, rows, f" {name!r}")
                for name, array in zip(answer.schema.names, answer.columns, strict=True)
            }
        return _column(answer, rows)


def by_row(function: Callable[..., Any], *, kind: str | None = None) -> RowService:
    """Make ``function`` of one row a service for batches too.

    A list of a column is a ``list``, a struct and a map is a ``dict``, times are those of ``datetime``, months an int.
    The kind of the answer is ``kind``, or that of the return annotation (``float``, ``str | None``); without one it is
    that of the first value, float64 where all are None, and a ``dict`` gives a column for each key that any row has. A
    null reaches the function only where it declares ``… | None``. The first row that raises, answers with
    ``Response.error``, or gives what does not fit into the column ends the call, and is ``details["row"]``.
    """
    return RowService(function, kind)


def by_array(function: Callable[..., Any], *, any_rows: bool = False) -> ArrayService:
    """Make ``function`` of numpy arrays a service for batches: it answers with an array, or a dict of arrays.

    With ``any_rows`` these may be longer or shorter than the batch: a filter, an aggregate. Nulls arrive as
    ``columns.to_numpy`` says: integers and booleans with nulls are masked arrays, which a parameter declared as
    ``numpy.ndarray`` refuses.
    """
    return ArrayService(function, any_rows)


def by_arrow(function: Callable[..., Any], *, any_rows: bool = False) -> ArrowService:
    """Make ``function`` of a ``pyarrow.RecordBatch`` a service for batches: it answers with one, or with an array.

    The batch has a column for each argument that is one, under its name, over the bytes that were received; its first
    parameter takes it. Arguments that hold for all rows go to the other parameters by name. With ``any_rows`` the
    answer may have more or fewer rows than the batch. Two columns of one name are EXECUTION_FAILED.
    """
    return ArrowService(function, any_rows)


def _array_types() -> Mapping[Any, frozenset[type]]:
    """numpy's array type, where a hint may name it: then numpy has been imported."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return {}
    masked = numpy.ma.MaskedArray
    return {numpy.ndarray: frozenset({numpy.ndarray}), masked: frozenset({masked, numpy.ndarray})}


def _batch_types() -> Mapping[Any, frozenset[type]]:
    arrow = sys.modules.get("pyarrow")
    return {} if arrow is None else {arrow.RecordBatch: frozenset({arrow.RecordBatch})}


def _array(name: str, column: Column) -> Any:
    return _read(columns.to_numpy, name, column)


def _values(name: str, column: Column) -> list[Any]:
    return _read(columns.to_values, name, column)


def _nulls_named(error: InvalidArgumentsError, batch: Mapping[str, Column]) -> InvalidArgumentsError:
    """``error``, or what it means where a parameter takes no masked array."""
    column = batch.get(str(error.details.get("argument")))
    if column is None or error.details.get("given") != "MaskedArray":
        return error
    row = columns.is_present(column).index(False)
    text = f"row {row}: {error}: it has nulls; declare numpy.ma.MaskedArray, or use @by_arrow"
    return InvalidArgumentsError(text, {**error.details, "row": row})


def _read(read: Callable[[Column], _Read], name: str, column: Column) -> _Read:
    try:
        return read(column)
    except RowMisfit as error:
        text = f"row {error.row}: argument {name!r} {error.why}"
        raise InvalidArgumentsError(text, {"argument": name, "row": error.row}) from None


def _column_of(answer: Any) -> Column:
    """What an array of numpy or Arrow is as a column."""
    if isinstance(answer, Column):
        return answer
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(answer, arrow.Array | arrow.ChunkedArray):
        return columns.from_arrow(answer)
    return columns.from_numpy(answer)


def _column(answer: Any, rows: int | None, name: str = "") -> Column:
    try:
        column = _column_of(answer)
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
    return _KINDS.get(typing.get_origin(hint) or hint)
