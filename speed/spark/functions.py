"""What runs in the Python workers: functions over Arrow batches that carry settings alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from speed import __version__
from speed.errors import ConfigurationError, SpeedError
from speed.spark.answers import null_arrays, promised_arrays
from speed.spark.calls import Batch, BatchCalls
from speed.spark.executor import live_nodes, worker_node
from speed.spark.hosts import check_here, here
from speed.spark.metrics import Counts
from speed.spark.settings import CallSettings, NodeSettings
from speed.spark.targets import LiveNodes

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Accumulator

    Batches = Iterator[pa.RecordBatch]

_REPORT_SECONDS = 2.0


class Work(NamedTuple):
    """One use of a service: who calls, what, with which columns (None: all), for which columns.

    ``counts`` is None where Spark has no accumulators (Spark Connect): the node ``driver`` is told under ``topic``.
    ``driver`` is None where each host has a root of its own: what the accumulators do not take is not counted.
    ``named`` says that the program chose the names of ``promised``.
    """

    node: NodeSettings
    call: CallSettings
    columns: tuple[str, ...] | None
    promised: pa.Schema
    counts: Accumulator[Any] | None
    driver: str | None
    topic: str
    same_rows: bool = True
    named: bool = True

    def answers(self, batches: Batches) -> Iterator[tuple[pa.RecordBatch, list[pa.Array]]]:
        """Each batch with the promised arrays; what was counted is told to the driver, however it ends."""
        live = live_nodes(self.node)
        if self.driver is not None:
            yield from self._counted(live, batches)
            return
        try:
            check_here(live, self.node, self.call)
            yield from self._counted(live, batches)
        except SpeedError as error:
            raise here(error) from None

    def _counted(self, live: LiveNodes, batches: Batches) -> Iterator[tuple[pa.RecordBatch, list[pa.Array]]]:
        calls = BatchCalls(live, self.call, self.columns, self._promised)
        try:
            for batch in calls.answers(batches):
                yield batch.rows, self._arrays(batch)
        except Exception:
            self._report(calls.counts)  # Spark drops the accumulators of a task that fails
            raise
        except GeneratorExit:  # Spark has rows enough
            self._count(calls.counts)
            raise
        self._count(calls.counts)

    def mapped(self, batches: Batches) -> Batches:
        """What the service makes of whole batches."""
        import pyarrow as pa

        for _, arrays in self.answers(batches):
            yield pa.RecordBatch.from_arrays(arrays, schema=self.promised)

    def called(self, batches: Iterator[pa.Array | tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """One array for the arguments of each batch."""
        import pyarrow as pa

        for _, arrays in self.answers(_named(batch, self.columns) for batch in batches):
            yield arrays[0] if len(arrays) == 1 else pa.StructArray.from_arrays(arrays, fields=list(self.promised))

    def _arrays(self, batch: Batch) -> list[pa.Array]:
        """The promised arrays; nulls where a batch failed and that is allowed."""
        if batch.failed:
            return null_arrays(self.promised, batch.rows.num_rows if self.same_rows else 0)
        arrays: list[pa.Array] = batch.result
        return arrays

    def _promised(self, answer: Any, rows: int) -> list[pa.Array]:
        return promised_arrays(answer, self.promised, rows if self.same_rows else None, named=self.named)

    def _count(self, counts: Counts) -> None:
        if self.counts is None:
            self._report(counts)
        else:
            self.counts.add(counts)

    def _report(self, counts: Counts) -> None:
        if self.driver is None:
            return
        node = worker_node(self.node)
        try:
            node.send(self.driver, counts.payload(), ack=True, timeout=_REPORT_SECONDS, topic=self.topic)
        except SpeedError:
            pass  # figures never fail a task, and never hide why it failed


def map_function(work: Work) -> Callable[[Batches], Batches]:
    """Batches in, what the service makes of them out."""
    begin = begin_with(work)

    def map_batches(batches: Batches) -> Batches:
        yield from begin().mapped(batches)

    return map_batches


def udf_function(work: Work) -> Callable[..., Any]:
    """Arrays in, one array out, batch by batch: of the promised type, or of structures if several are promised."""
    import pyarrow as pa

    begin = begin_with(work)

    def call(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        yield from begin().called(batches)

    # Spark reads the form of the function off its annotations, and hands over one array, not a tuple, for one column.
    form = pa.Array if work.columns is None or len(work.columns) == 1 else tuple[pa.Array, ...]
    call.__annotations__ = {"batches": Iterator[form], "return": Iterator[pa.Array]}  # type: ignore[valid-type]
    return call


def begin_with(work: Any) -> Callable[[], Any]:
    """What gives a worker its work.

    It travels as code that needs nothing, so that a Python without ``speed`` can say what it lacks.
    """
    from pyspark import cloudpickle  # of functions of the program, it takes the code along

    packed = cloudpickle.dumps(work)
    version = __version__

    def begin() -> Any:
        import pickle
        import sys

        try:
            work = pickle.loads(packed)  # noqa: S301 - Spark's workers unpickle whatever its driver sends
        except ImportError as error:
            raise ImportError(
                f"the Python of Spark's workers, {sys.executable}, cannot import speed ({error}): install speed-ipc "
                f"{version} there, or set PYSPARK_PYTHON to a Python that has it, before the session starts"
            ) from None
        return work

    return begin


def _named(batch: pa.Array | tuple[pa.Array, ...], names: tuple[str, ...] | None) -> pa.RecordBatch:
    """One batch of arguments: named by position, or by the fields of a structure."""
    import pyarrow as pa

    arrays = list(batch) if isinstance(batch, tuple) else [batch]
    if names is None:
        names = tuple(field.name for field in arrays[0].type)
        arrays = arrays[0].flatten()
    elif len(arrays) != len(names):
        raise ConfigurationError(f"{len(arrays)} arguments for the columns {', '.join(names)}")
    return pa.RecordBatch.from_arrays(arrays, names=list(names))
