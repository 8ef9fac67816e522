"""Batches of rows to a service and back: several calls under way at once, answers in order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import speed
from speed import columns
from speed.errors import CallError, CallTimeoutError, NodeLeftError, SpeedError, UnserialisableError
from speed.spark.metrics import Counts
from speed.spark.settings import CallSettings
from speed.spark.targets import Targets
from speed.wire.limits import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BATCH_BYTES = MAX_PAYLOAD_BYTES // 4
"""A batch of more goes in halves: its answer must fit into an envelope too."""
_MAY_SUCCEED_AGAIN = (NodeLeftError, CallTimeoutError)


@dataclass
class Batch:
    """Rows under way: where they lie in the partition, what is sent of them, to whom, and what comes of it."""

    number: int
    first_row: int
    rows: pa.RecordBatch
    arguments: dict[str, Any]
    target: str = ""
    attempts: int = 0
    started: float = 0.0
    answer: Future[Any] | None = None


class BatchCalls:
    """The calls of one service for one partition. One thread uses it."""

    def __init__(self, node: speed.Node, settings: CallSettings, columns: tuple[str, ...]) -> None:
        """``columns`` of each batch are sent, the others only come back beside the answer."""
        self.counts = Counts()
        self._node = node
        self._settings = settings
        self._columns = columns
        self._targets = Targets(node, settings)

    def answers(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """Each batch with its answer, in order; None where ``on_error`` makes nulls of a batch that failed.

        Raises what ended the first bad batch; the message names node, service, batch and row.
        """
        under_way: deque[Batch] = deque()
        for batch in self._numbered(batches):
            under_way.append(batch)
            self._start(batch)
            if len(under_way) >= self._settings.in_flight:
                yield self._finish(under_way.popleft())
        while under_way:
            yield self._finish(under_way.popleft())

    def _numbered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
        first_row = 0
        parts = (part for batch in batches for part in halved(batch, self._columns))
        for number, rows in enumerate(parts):
            yield Batch(number, first_row, rows, _arguments(rows, self._columns))
            first_row += rows.num_rows

    def _start(self, batch: Batch) -> None:
        settings = self._settings
        batch.target = self._targets.take()
        batch.attempts += 1
        batch.started = time.perf_counter()
        self.counts.calls += 1
        batch.answer = self._node.submit(
            batch.target, settings.service, batch.arguments, timeout=settings.timeout_seconds
        )

    def _finish(self, batch: Batch) -> tuple[pa.RecordBatch, Any]:
        """The answer, after as many attempts as the settings allow."""
        while True:
            assert batch.answer is not None
            error = batch.answer.exception()
            self._targets.done(batch.target)
            if error is None:
                self.counts.add(batch.rows, time.perf_counter() - batch.started)
                return batch.rows, batch.answer.result()
            if not isinstance(error, _MAY_SUCCEED_AGAIN) or batch.attempts > self._settings.retries:
                self._fail(batch, error)
                return batch.rows, None
            self.counts.retries += 1
            self._start(batch)

    def _fail(self, batch: Batch, error: BaseException) -> None:
        """Raise ``error``, unless it becomes nulls."""
        if isinstance(error, CallError) and self._settings.on_error == "null":
            self.counts.failed_rows += batch.rows.num_rows
            return
        if isinstance(error, SpeedError):
            raise located(error, batch, self._settings.service) from None
        raise error


def located(error: SpeedError, batch: Batch, service: str) -> SpeedError:
    """``error`` of the same class, with node, service, batch and first bad row in its message and details."""
    row = getattr(error, "details", {}).get("row")
    where = f"{batch.target}.{service}, batch {batch.number} (rows {batch.first_row} to "
    where += f"{batch.first_row + batch.rows.num_rows - 1} of the partition)"
    if isinstance(row, int):
        where += f", row {batch.first_row + row}"
    message = f"{where}: {error}"
    return type(error)(message, error.details) if isinstance(error, CallError) else type(error)(message)


def halved(rows: pa.RecordBatch, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """``rows`` in as many parts as it takes for what is sent of each to fit into an envelope."""
    if rows.num_rows < 2 or rows.select(list(names)).nbytes <= MAX_BATCH_BYTES:
        yield rows
        return
    half = rows.num_rows // 2
    yield from halved(rows.slice(0, half), names)
    yield from halved(rows.slice(half), names)


def _arguments(rows: pa.RecordBatch, names: tuple[str, ...]) -> dict[str, Any]:
    arguments = {}
    for name in names:
        try:
            arguments[name] = columns.from_arrow(rows.column(name))
        except UnserialisableError as error:
            raise UnserialisableError(f"column {name!r}: {error}") from None
    return arguments
