"""Batches of rows to a service and back: several calls under way at once, answers in order."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from speed import columns
from speed.errors import (
    AccessDeniedError,
    CallError,
    CallTimeoutError,
    Execution,
    ExecutionFailedError,
    InternalError,
    InvalidArgumentsError,
    NodeLeftError,
    NodeStartingError,
    SpeedError,
    UnknownNodeError,
    UnserialisableError,
)
from speed.spark.metrics import Counts
from speed.spark.settings import CallSettings, check_columns
from speed.spark.targets import LiveNodes, Targets
from speed.wire.entry import Entry

if TYPE_CHECKING:
    import pyarrow as pa

_MAY_SUCCEED_AGAIN = (NodeLeftError, CallTimeoutError)
_OF_THE_ROWS = (InvalidArgumentsError, ExecutionFailedError, CallTimeoutError, InternalError)
"""Errors that other rows might not meet; those alone become nulls."""


@dataclass
class Batch:
    """Rows under way: where they lie in the partition, what is sent of them, to whom, and what comes of it."""

    number: int
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
    bad_row: int | None = None
    """The row of it that the service named."""

    def __str__(self) -> str:
        last_row = self.first_row + self.rows.num_rows - 1
        node = f"{self.target.name}." if self.target else ""
        return f"{node}{self.service}, batch {self.number} (rows {self.first_row} to {last_row} of the partition)"

    @property
    def sent_bytes(self) -> int:
        """Of all columns that are arguments."""
        parts = (part for one in self.arguments.values() for part in (one.validity, one.offsets, one.data))
        return sum(part.nbytes for part in parts if part is not None)


class BatchCalls:
    """The calls of one service for one partition. One thread uses it."""

    def __init__(self, live: LiveNodes, settings: CallSettings, columns: tuple[str, ...] | None) -> None:
        """``columns`` of each batch are sent (None: all), the others only come back beside the answer."""
        self.counts = Counts()
        self._node = live.node
        self._settings = settings
        self._columns = columns
        self._targets = Targets(live, settings)
        self._under_way: deque[Batch] = deque()

    def answers(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
        """Each batch with its result, in order, or its parts; ``failed`` where ``on_error`` makes nulls of them.

        Raises what ended the first bad batch; the message names node, service, batch and row.
        """
        for batch in self._numbered(batches):
            self._start(batch)
            self._under_way.append(batch)
            if len(self._under_way) >= self._settings.in_flight:
                yield from self._finished(self._under_way.popleft())
        while self._under_way:
            yield from self._finished(self._under_way.popleft())

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
        next(part for part in parts if part.first_row == batch.first_row + row).failed = True
        return parts

    def _part(self, batch: Batch, start: int, end: int) -> Batch:
        rows = batch.rows.slice(start, end - start)
        return Batch(batch.number, batch.first_row + start, rows, _arguments(rows, self._names(rows)), batch.service)

    def _numbered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
        first_row = 0
        for number, rows in enumerate(part for batch in batches for part in self._parts(batch)):
            arguments = _arguments(rows, self._names(rows))
            yield Batch(number, first_row, rows, arguments, self._settings.service)
            first_row += rows.num_rows

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
        self.counts.calls += 1
        try:
            batch.answer = self._node.submit(
                batch.target.name, settings.service, batch.arguments, timeout=settings.timeout_seconds
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
            error = batch.answer.exception()
            if error is None:
                self.counts.add(batch.rows.num_rows, batch.sent_bytes, time.perf_counter() - batch.started)
                batch.result = batch.answer.result()
                return batch
            if not self._may_go_again(batch, error):
                self._fail(batch, error)
                return batch
            self.counts.retries += 1
            self._start(batch)

    def _calls_of_nodes(self) -> Counter[str]:
        """How many calls each node has not answered yet; its answer may be there and wait for its turn."""
        unanswered = (batch for batch in self._under_way if batch.answer and not batch.answer.done())
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
        return isinstance(error, _MAY_SUCCEED_AGAIN) and batch.attempts <= self._settings.retries

    def _never_ran(self, target: Entry, error: BaseException) -> bool:
        """Whether the node was not there, left before it began, or does not serve this one (any more)."""
        if isinstance(error, AccessDeniedError):
            return self._targets.denies(target)
        if not isinstance(error, UnknownNodeError | NodeLeftError | NodeStartingError):
            return False
        return error.execution is Execution.NOT_BEGUN

    def _fail(self, batch: Batch, error: BaseException) -> None:
        """Raise ``error``, unless it becomes nulls."""
        if isinstance(error, _OF_THE_ROWS) and self._settings.on_error == "null":
            batch.failed = True
            batch.bad_row = _bad_row(error, batch)
            return
        if isinstance(error, CallTimeoutError):
            error.args = (f"{error}; {_too_slow(batch, self._settings.timeout_seconds)}",)
        if isinstance(error, SpeedError):
            raise located(error, batch) from None
        raise error


def located(error: SpeedError, batch: Batch) -> SpeedError:
    """``error`` itself, with node, service, batch and first bad row in its message."""
    row = _bad_row(error, batch)
    where = str(batch) if row is None else f"{batch}, row {batch.first_row + row}"
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


def halved(rows: pa.RecordBatch, names: tuple[str, ...], most_bytes: int) -> Iterator[pa.RecordBatch]:
    """``rows`` in as many parts as it takes for what is sent of each, its columns ``names``, to have ``most_bytes``."""
    if rows.num_rows < 2 or rows.select(list(names)).nbytes <= most_bytes:
        yield rows
        return
    half = rows.num_rows // 2
    yield from halved(rows.slice(0, half), names, most_bytes)
    yield from halved(rows.slice(half), names, most_bytes)


def _arguments(rows: pa.RecordBatch, names: tuple[str, ...]) -> dict[str, Any]:
    arguments = {}
    for name in names:
        try:
            arguments[name] = columns.from_arrow(rows.column(name))
        except UnserialisableError as error:
            raise UnserialisableError(f"column {name!r}: {error}") from None
    return arguments
