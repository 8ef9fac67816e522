"""What runs in the Python workers: functions over Arrow batches that carry settings alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from speed.spark.answers import null_arrays, promised_arrays
from speed.spark.calls import BatchCalls
from speed.spark.executor import worker_node
from speed.spark.settings import CallSettings, NodeSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Accumulator

    Batches = Iterator[pa.RecordBatch]


class Work(NamedTuple):
    """One use of a service: who calls, what, with which columns, for which columns."""

    node: NodeSettings
    call: CallSettings
    columns: tuple[str, ...]
    promised: pa.Schema
    counts: Accumulator[Any]

    def answers(self, batches: Batches) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """Each batch with its answer; what was counted is added at the end, whichever it is."""
        calls = BatchCalls(worker_node(self.node), self.call, self.columns)
        try:
            yield from calls.answers(batches)
        finally:
            self.counts.add(calls.counts)

    def arrays(self, answer: Any, rows: int | None) -> list[pa.Array]:
        """The promised arrays out of an answer; nulls where a batch failed and that is allowed."""
        if answer is None:
            return null_arrays(self.promised, rows or 0)
        return promised_arrays(answer, self.promised, rows, str(self.call))


def enrich_function(work: Work) -> Callable[[Batches], Batches]:
    """Batches in, the same batches with the promised columns out."""

    def enrich(batches: Batches) -> Batches:
        import pyarrow as pa

        for rows, answer in work.answers(batches):
            arrays = [*rows.columns, *work.arrays(answer, rows.num_rows)]
            yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*rows.schema, *work.promised]))

    return enrich


def map_function(work: Work) -> Callable[[Batches], Batches]:
    """Batches in, what the service makes of them out."""

    def map_batches(batches: Batches) -> Batches:
        import pyarrow as pa

        for _, answer in work.answers(batches):
            yield pa.RecordBatch.from_arrays(work.arrays(answer, None), schema=work.promised)

    return map_batches


def udf_function(work: Work) -> Callable[..., Any]:
    """Arrays in, one array of the promised type out, batch by batch."""
    import pyarrow as pa

    def call(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        named = (pa.RecordBatch.from_arrays(list(arrays), names=list(work.columns)) for arrays in batches)
        for rows, answer in work.answers(named):
            yield work.arrays(answer, rows.num_rows)[0]

    # Spark reads the form of the function off its annotations, and wants one array, not a tuple, for one column.
    if len(work.columns) > 1:
        call.__annotations__ = {"batches": Iterator[tuple[pa.Array, ...]], "return": Iterator[pa.Array]}
        return call

    def call_one(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return call((array,) for array in batches)

    call_one.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
    return call_one
