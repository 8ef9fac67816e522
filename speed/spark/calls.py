"""Batches of rows to a service and back: several calls under way at once, answers in order, and counted."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from speed import columns
from speed.core.log import logger
from speed.engine.options import may_repeat
from speed.errors import (
    AccessDeniedError,
    CallError,
    CallTimeoutError,
    ExecutionFailedError,
    InternalError,
    InvalidArgumentsError,
    NodeLeftError,
    SpeedError,
    UnknownNodeError,
    UnserialisableError,
)
from speed.spark.nodes import CallSettings, JobNodes, Targets, check_columns
from speed.wire.cells import RowMisfit
from speed.wire.column import Column
from speed.wire.entry import Entry

if TYPE_CHECKING:
    import pyarrow as pa


# What the workers count; the driver adds it up.

_STEPS_PER_DOUBLING = 8
WAITING = "waiting"
"""What a worker tells the driver while no node takes its calls: the name of that text in the message."""
_SHOWN_SECONDS = 10.0
_log = logger(__name__)


@dataclass
class Counts:
    """Calls, rows, bytes and times of batches. ``latency`` counts calls by logarithmic step, 9 % each."""

    calls: int = 0
    rows: int = 0
    bytes: int = 0
    retries: int = 0
    failed_rows: int = 0
    latency: Counter[int] = field(default_factory=Counter)

    def add(self, rows: int, size: int, seconds: float) -> None:
        """One batch that was answered."""
        self.rows += rows
        self.bytes += size
        self.latency[math.ceil(math.log2(max(seconds, 1e-9)) * _STEPS_PER_DOUBLING)] += 1

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)})

    def percentile_seconds(self, percent: float) -> float:
        """The time within which so many percent of the answered calls ended, to 9 %; NaN without a call."""
        wanted = percent / 100 * self.latency.total()
        seen = 0
        for step in sorted(self.latency):
            seen += self.latency[step]
            if seen >= wanted:
                return float(2 ** (step / _STEPS_PER_DOUBLING))
        return math.nan

    def summary(self) -> dict[str, Any]:
        """The figures by name; times in seconds."""
        return {
            **self._numbers(),
            "p50_seconds": self.percentile_seconds(50),
            "p99_seconds": self.percentile_seconds(99),
        }

    def payload(self) -> dict[str, Any]:
        """The counts as a message carries them."""
        return {**self._numbers(), "latency": {str(step): count for step, count in self.latency.items()}}

    @classmethod
    def of_payload(cls, payload: Mapping[str, Any]) -> Counts:
        """The counts of a message. Raises KeyError, TypeError or ValueError for anything else."""
        numbers = {one.name: int(payload[one.name]) for one in fields(cls) if one.name != "latency"}
        return cls(**numbers, latency=Counter({int(step): int(count) for step, count in payload["latency"].items()}))

    def _numbers(self) -> dict[str, int]:
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "latency"}


class Reports:
    """The counts that came as messages: of tasks that failed, whose accumulators Spark drops, and of all tasks where
    there are no accumulators. The topic of a message tells whose they are. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, Counts] = {}
        self._shown_at: dict[str, float] = {}

    def take(self, message: Any) -> None:
        """Handle one message; what no worker of this package sent is left alone."""
        payload: Any = getattr(message, "payload", None)
        if isinstance(payload, Mapping) and isinstance(payload.get(WAITING), str):
            self._show(message.topic, payload[WAITING])
            return
        try:
            counts = Counts.of_payload(payload)
        except (AttributeError, KeyError, TypeError, ValueError):
            return
        with self._lock:
            self._counts[message.topic] = self.of(message.topic) + counts

    def of(self, topic: str) -> Counts:
        """The sum of what came under ``topic``."""
        return self._counts.get(topic, Counts())

    def _show(self, topic: str, text: str) -> None:
        """A line where the user looks; of all workers that wait, one."""
        with self._lock:
            if time.monotonic() - self._shown_at.get(topic, -math.inf) < _SHOWN_SECONDS:
                return
            self._shown_at[topic] = time.monotonic()
        _log.warning("%s", text)


# What a service answered, as the Arrow columns that were promised to Spark.


class _BrokenRowError(Exception):
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
    except _BrokenRowError as broken:
        if rows is None:  # no row that was sent is to blame
            text, details = f"row {broken.row} of the answer: {broken}", {"row_of_answer": broken.row}
        else:
            text, details = str(broken), {"row": broken.row}
        raise ExecutionFailedError(text, details) from None


def promised_row(answer: Any, promised: pa.Schema) -> list[pa.Array]:
    """One row of ``promised``: of one value, or of a map of values by name. Raises as ``promised_arrays``."""
    from speed.spark.declared import MisfitError, array_of

    if isinstance(answer, Column):
        raise ExecutionFailedError("the answer is a column: a service of columns is asked by enrich")
    if len(promised) == 1:
        answer = {promised.names[0]: answer}
    elif not isinstance(answer, Mapping | None):
        raise ExecutionFailedError(f"the answer is {type(answer).__name__}, promised were {promised.names}")
    arrays = []
    for one in promised:
        value = (answer or {}).get(one.name)
        if value is None and not one.nullable:
            text = f"the answer for {one.name!r} is null, which was promised NOT NULL"
            raise ExecutionFailedError(text, {"row": 0})
        try:
            arrays.append(array_of([value], one.type))
        except MisfitError as error:
            raise ExecutionFailedError(f"the answer for {one.name!r} {error.why}", {"row": 0}) from None
    return arrays


def null_arrays(promised: pa.Schema, rows: int) -> list[pa.Array]:
    """As many nulls of each promised type."""
    import pyarrow as pa

    return [pa.nulls(rows, one.type) for one in promised]


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
            place = error.inside(field.name).path
            raise _BrokenRowError(error.row, f"the answer for {place!r} {error.why}") from None
    if not field.nullable and array.null_count:
        row = array.is_null().index(True).as_py()
        missing = "nothing" if column is None else "null"
        raise _BrokenRowError(row, f"the answer for {field.name!r} is {missing}, which was promised NOT NULL")
    return array


Promised = Callable[[Any, int], Any]
ROWS_A_CALL = 65_536
"""To so many rows batches of Spark are joined while calls are quick."""
_QUICK_SECONDS = 0.05
_OF_THE_ROWS = (InvalidArgumentsError, ExecutionFailedError, CallTimeoutError, InternalError)
"""Errors that other rows might not meet; those alone become nulls."""


@dataclass
class Batch:
    """Rows under way: where they lie in the partition, what is sent of them, to whom, and what comes of it."""

    number: int | None
    """None for one row that is a request of its own."""
    first_row: int
    rows: pa.RecordBatch
    arguments: dict[str, Any]
    service: str
    target: Entry | None = None
    attempts: int = 0
    give_up: float = 0.0
    """When a batch that no node accepts has waited long enough."""
    started: float = 0.0
    answer: Future[Any] | None = None
    result: Any = None
    failed: bool = False
    """It has no result, and that is allowed."""
    error: str | None = None
    """Why it has none: code and text."""
    refused: InvalidArgumentsError | None = None
    """A row of it cannot be sent."""
    bad_row: int | None = None
    """The row of it that the service named."""
    within: str = " of the partition"

    def __str__(self) -> str:
        last_row = self.first_row + self.rows.num_rows - 1
        node = f"{self.target.name}." if self.target else ""
        if self.number is None:
            return f"{node}{self.service}, row {self.first_row}{self.within}"
        return f"{node}{self.service}, batch {self.number} (rows {self.first_row} to {last_row} of the partition)"

    @property
    def sent_bytes(self) -> int:
        """Of all columns that are arguments."""
        return sum(one.nbytes for one in self.arguments.values() if isinstance(one, Column))


class BatchCalls:
    """The calls of one service for one partition. One thread uses it."""

    def __init__(
        self,
        live: JobNodes,
        settings: CallSettings,
        columns: tuple[str, ...] | None,
        promised: Promised,
        say: Callable[[str], None] | None = None,
        traceparent: str | None = None,
    ) -> None:
        """``columns`` of each batch are sent (None: all), the others only come back beside the answer.

        ``promised`` makes the result of a batch out of an answer and the batch's rows, or raises ExecutionFailedError.
        ``say`` is told that a node is waited for. The calls belong to ``traceparent``, or to the trace at hand.
        """
        self.counts = Counts()
        self._node = live.node
        self._settings = settings
        self._columns = columns
        self._promised = promised
        self._traceparent = traceparent
        self._targets = Targets(live, settings, say)
        self._in_flight: deque[Batch] = deque()
        self._rows_wanted = 1  # of a call: as many as Spark gives at once

    def answers(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
        """Each batch with its result, in order, or its parts; ``failed`` where ``on_error`` makes nulls of them.

        Raises what ended the first bad batch; the message names node, service, batch and row.
        """
        return self._answered(self._numbered(batches))

    def each(self, requests: Iterable[Mapping[str, Any]], within: str = Batch.within) -> Iterator[Batch]:
        """A call for each request, which is a row of its own, with its result; in order, as ``answers``."""
        row, service = one_row(), self._settings.service
        return self._answered(
            Batch(None, number, row, dict(one), service, within=within) for number, one in enumerate(requests)
        )

    def _answered(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self._start(batch)
            self._in_flight.append(batch)
            if len(self._in_flight) >= self._settings.in_flight:
                yield from self._finished(self._in_flight.popleft())
        while self._in_flight:
            yield from self._finished(self._in_flight.popleft())

    def _finished(self, batch: Batch) -> Iterator[Batch]:
        """The batch with its result; in parts, where only rows that the service named are to become nulls."""
        waiting = [batch]
        while waiting:
            part = waiting.pop()
            if not part.failed:
                self._finish(part)
            if parts := self._around(part):
                waiting.extend(reversed(parts))
                continue
            self.counts.failed_rows += part.rows.num_rows if part.failed else 0
            yield part

    def _around(self, batch: Batch) -> list[Batch]:
        """A batch that failed at a row as the rows before it, that row, and those behind it, which may fail too.

        The others are asked for again, so their service must be idempotent. Those behind go in halves: the more rows
        are bad, the less is sent again.
        """
        row, rows = batch.bad_row, batch.rows.num_rows
        if row is None or rows == 1 or not self._settings.idempotent:
            return []
        bounds = [0, row, row + 1, (row + 1 + rows) // 2, rows]
        parts = [self._part(batch, *ends) for ends in pairwise(bounds) if ends[0] < ends[1]]
        bad = next(part for part in parts if part.first_row == batch.first_row + row)
        bad.failed, bad.error = True, batch.error
        return parts

    def _part(self, batch: Batch, start: int, end: int) -> Batch:
        return self._batch(batch.number, batch.first_row + start, batch.rows.slice(start, end - start))

    def _batch(self, number: int | None, first_row: int, rows: pa.RecordBatch) -> Batch:
        try:
            arguments = _arguments(rows, self._names(rows))
        except InvalidArgumentsError as error:
            return Batch(number, first_row, rows, {}, self._settings.service, refused=error)
        return Batch(number, first_row, rows, arguments, self._settings.service)

    def _numbered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
        first_row = 0
        for number, rows in enumerate(part for batch in self._joined(batches) for part in self._parts(batch)):
            yield self._batch(number, first_row, rows)
            first_row += rows.num_rows

    def _joined(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Several batches in one while calls are quick, since a call costs what thousands of rows do.

        Where a batch that failed becomes nulls as a whole, it stays that of Spark.
        """
        waiting: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            batch_size = batch.select(list(self._names(batch))).nbytes
            if waiting and size + batch_size > self._settings.batch_bytes:
                yield one_of(waiting)
                waiting, rows, size = [], 0, 0
            waiting.append(batch)
            rows += batch.num_rows
            size += batch_size
            if rows + batch.num_rows > self._rows_wanted:  # the next one would be too many
                yield one_of(waiting)
                waiting, rows, size = [], 0, 0
        if waiting:
            yield one_of(waiting)

    def _learn(self, rows: int, seconds: float) -> None:
        """How many rows the next call may carry, from how long this one took."""
        if self._settings.on_error == "raise" or self._settings.idempotent:
            more = max(self._rows_wanted, min(2 * rows, ROWS_A_CALL))
            self._rows_wanted = more if seconds < _QUICK_SECONDS else 1

    def _parts(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        return halved(rows, self._names(rows), self._settings.batch_bytes)

    def _names(self, rows: pa.RecordBatch) -> tuple[str, ...]:
        return self._columns or check_columns(rows.schema.names)

    def _start(self, batch: Batch) -> None:
        """Send it; what prevents that becomes its outcome. Raises when there is nobody to send it to."""
        settings = self._settings
        try:
            batch.target = self._targets.take(self._calls_of_nodes())
        except SpeedError as error:
            raise located(error, batch) from None
        batch.attempts += 1
        batch.started = time.perf_counter()
        try:
            if batch.refused is not None:
                raise batch.refused
            self.counts.calls += 1
            batch.answer = self._node.submit(
                batch.target.name,
                settings.service,
                batch.arguments,
                timeout=settings.timeout_seconds,
                traceparent=self._traceparent,
            )
        except SpeedError as error:
            batch.answer = Future()
            batch.answer.set_exception(error)

    def _finish(self, batch: Batch) -> Batch:
        """The batch with its result, after as many attempts as the settings allow."""
        if batch.answer is None:
            self._start(batch)
        while True:
            assert batch.answer is not None
            error = batch.answer.exception() or self._take(batch)
            if error is None:
                return batch
            if not self._may_go_again(batch, error):
                self._fail(batch, error)
                return batch
            self.counts.retries += 1
            self._start(batch)

    def _take(self, batch: Batch) -> SpeedError | None:
        """The result out of the answer; the error of one that breaks its promise."""
        assert batch.answer is not None
        try:
            batch.result = self._promised(batch.answer.result(), batch.rows.num_rows)
        except ExecutionFailedError as error:
            if not error.details:
                raise located(error, batch) from None  # no row is to blame: the service is another one than expected
            return error
        seconds = time.perf_counter() - batch.started
        self.counts.add(batch.rows.num_rows, batch.sent_bytes, seconds)
        self._learn(batch.rows.num_rows, seconds)
        return None

    def _calls_of_nodes(self) -> Counter[str]:
        """How many calls each node has not answered yet; its answer may be there and wait for its turn."""
        unanswered = (batch for batch in self._in_flight if batch.answer and not batch.answer.done())
        return Counter(batch.target.name for batch in unanswered if batch.target)

    def _may_go_again(self, batch: Batch, error: BaseException) -> bool:
        """What no node accepted goes to the next one; what may have run goes again only where that is allowed."""
        assert batch.target is not None
        if isinstance(error, UnknownNodeError | NodeLeftError):
            self._targets.left(batch.target)
        if self._never_ran(batch.target, error):
            batch.attempts -= 1
            batch.give_up = batch.give_up or time.monotonic() + self._settings.wait_seconds
            return time.monotonic() < batch.give_up
        return may_repeat(error, idempotent=True) and batch.attempts <= self._settings.retries

    def _never_ran(self, target: Entry, error: BaseException) -> bool:
        """Whether the node was not there, left before it began, or does not serve this one (any more)."""
        if isinstance(error, AccessDeniedError):
            return self._targets.denies(target)
        return may_repeat(error, idempotent=False)

    def _fail(self, batch: Batch, error: BaseException) -> None:
        """Raise ``error``, unless it becomes nulls."""
        if isinstance(error, _OF_THE_ROWS) and self._settings.on_error == "null":
            batch.failed = True
            batch.bad_row = _bad_row(error, batch)
            batch.error = f"{error.code}: {error}"
            return
        if isinstance(error, CallTimeoutError):
            error.args = (f"{error}; {_too_slow(batch, self._settings.timeout_seconds)}",)
        if isinstance(error, SpeedError):
            raise located(error, batch) from None
        raise error


def located(error: SpeedError, batch: Batch) -> SpeedError:
    """``error`` itself, with node, service, batch and first bad row in its message."""
    row = _bad_row(error, batch)
    where = str(batch) if row is None or batch.number is None else f"{batch}, row {batch.first_row + row}"
    error.args = (f"{where}: {error}",)
    return error


def _too_slow(batch: Batch, seconds: float) -> str:
    """What a time-out means for the rows, and what would help."""
    rows = max(1, batch.rows.num_rows)
    return (
        f"{rows} rows in {seconds:g} s are {seconds / rows:.2g} s a row: raise timeout_seconds, or send fewer rows a "
        "batch (spark.sql.execution.arrow.maxRecordsPerBatch), or have the service take whole arrays (@by_array)"
    )


def _bad_row(error: SpeedError, batch: Batch) -> int | None:
    """The row of the batch that an error names (C-7)."""
    row = error.details.get("row") if isinstance(error, CallError) else None
    return row if type(row) is int and 0 <= row < batch.rows.num_rows else None


def one_of(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of all of them, which have one schema."""
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]
    columns_of_all = zip(*(batch.columns for batch in batches), strict=True)
    return pa.RecordBatch.from_arrays(list(map(pa.concat_arrays, columns_of_all)), schema=batches[0].schema)


def one_row() -> pa.RecordBatch:
    """What stands for a row whose values are no columns."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.nulls(1)], ["request"])


def halved(rows: pa.RecordBatch, names: tuple[str, ...], max_bytes: int) -> Iterator[pa.RecordBatch]:
    """``rows`` in as many parts as it takes for what is sent of each, its columns ``names``, to have ``max_bytes``."""
    if rows.num_rows < 2 or rows.select(list(names)).nbytes <= max_bytes:
        yield rows
        return
    half = rows.num_rows // 2
    yield from halved(rows.slice(0, half), names, max_bytes)
    yield from halved(rows.slice(half), names, max_bytes)


def _arguments(rows: pa.RecordBatch, names: tuple[str, ...]) -> dict[str, Any]:
    """The columns of a batch. Raises InvalidArgumentsError for a value of a row that no column holds."""
    arguments = {}
    for name in names:
        try:
            arguments[name] = columns.from_arrow(rows.column(name))
        except RowMisfit as error:
            raise InvalidArgumentsError(f"column {name!r} {error.why}", {"row": error.row}) from None
        except UnserialisableError as error:
            raise UnserialisableError(f"column {name!r}: {error}") from None
    return arguments
