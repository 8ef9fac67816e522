"""The call log as Arrow record batches: who called what, when, for how long, and with which outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from speed.journal.record import Call, read_call

if TYPE_CHECKING:
    from speed.journal import Block, LaneInfo, Record

_COLUMNS: dict[str, Callable[[Any, Call, Any], Any]] = {
    "answered_at": lambda lane, call, record: call.answered_at_ms * 1000,
    "service": lambda lane, call, record: call.service,
    "caller": lambda lane, call, record: call.caller,
    "microseconds": lambda lane, call, record: call.microseconds,
    "outcome": lambda lane, call, record: call.outcome,
    "source": lambda lane, call, record: lane.source,
    "lane": lambda lane, call, record: lane.id,
    "offset": lambda lane, call, record: record.offset,
}


class CallBatches:
    """Makes record batches out of the records of one lane of the call log."""

    def __init__(self, schema: pa.Schema, lane: LaneInfo) -> None:
        self._schema = schema
        self._lane = lane

    def batches(self, blocks: Iterable[Block], rows: int) -> Iterator[pa.RecordBatch]:
        """Batches of at most ``rows`` rows. Raises WireError for a record that is no call."""
        records = chain.from_iterable(block.records(self._lane.source) for block in blocks)
        while some := list(islice(records, rows)):
            yield self._batch(some)

    def _batch(self, records: Sequence[Record]) -> pa.RecordBatch:
        calls = [read_call(record, self._lane.subject) for record in records]
        arrays = [
            pa.array([_COLUMNS[field.name](self._lane, *pair) for pair in zip(calls, records, strict=True)], field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
