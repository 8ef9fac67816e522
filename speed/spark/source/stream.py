"""Journals as streams. An offset is a map from each lane to the record that comes next in it.

A lane that an offset does not name is new: all of it is still to come. Lanes that retention emptied, or that are no
longer there, keep what is said of them, so that nothing comes twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from speed.core.log import logger
from speed.errors import ConfigurationError, JournalError
from speed.journal import LaneInfo
from speed.spark.source.options import ReadOptions
from speed.spark.source.read import JournalRows, LanePart, cut, first_kept, open_journal, wanted_lanes

if TYPE_CHECKING:
    import pyarrow as pa

log = logger("speed.spark")

Offsets = dict[str, int]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc, unused-ignore]
    """Plans micro-batches on the driver; executors read them. One thread uses it."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options
        self._journal = open_journal(options)
        self._rows = JournalRows(options, schema)
        self._target: Offsets | None = None

    # --- offsets ---

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name, as those below
        """Where a query begins that has no checkpoint yet."""
        if self._options.starting_offsets == "latest":
            return self._ends()
        return {lane.id: self._journal.first(lane.id) for lane in self._lanes()}

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """How far the next micro-batch goes: to the ends of all lanes, or the limit's share of each."""
        ends = self._ends() if self._target is None else self._target
        waiting = {lane: end - start.get(lane, 0) for lane, end in ends.items() if end > start.get(lane, 0)}
        taken = waiting if isinstance(limit, ReadAllAvailable) else shares(waiting, _rows(limit))
        return {**start, **{lane: start.get(lane, 0) + count for lane, count in taken.items()}}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """``maxMessagesPerTrigger``."""
        most = self._options.max_messages_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> Offsets:  # noqa: N802
        """The ends of all lanes, for the query's progress."""
        return self._ends()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes from now on is for the next run."""
        self._target = self._ends()

    def _ends(self) -> Offsets:
        return {lane.id: self._journal.end(lane.id) for lane in self._lanes()}

    def _lanes(self) -> list[LaneInfo]:
        return wanted_lanes(self._journal, self._options)

    # --- reading ---

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[LanePart]:
        """The parts of one micro-batch. Raises JournalExpiredError unless ``failOnDataLoss`` is false."""
        parts: list[LanePart] = []
        for lane_id, stop in end.items():
            begin = start.get(lane_id, 0)
            if begin < stop:
                parts.extend(self._parts(lane_id, begin, stop))
        return parts

    def _parts(self, lane_id: str, begin: int, stop: int) -> Iterator[LanePart]:
        options = self._options
        try:
            lane = self._journal.lane(lane_id)
        except JournalError as error:
            if options.fail_on_data_loss:
                raise
            log.warning("records %d to %d are lost: %s", begin, stop - 1, error)
            return
        begin = first_kept(self._journal, lane, begin, stop, options.fail_on_data_loss)
        yield from cut(lane, begin, stop, options.messages_per_partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: one part of one lane."""
        return self._rows.read(partition)


def shares(waiting: dict[str, int], most: int) -> dict[str, int]:
    """At most ``most`` of what waits, from each lane in proportion, so that none starves; at least one in all."""
    total = sum(waiting.values())
    if total <= most:
        return waiting
    taken = {lane: count * most // total for lane, count in waiting.items()}
    left = most - sum(taken.values())
    for lane in sorted(waiting, key=lambda lane: waiting[lane] * most % total, reverse=True)[:left]:
        taken[lane] += 1
    return taken


def _rows(limit: ReadLimit) -> int:
    if not isinstance(limit, ReadMaxRows):
        raise ConfigurationError(f"a journal is read by messages, not by {type(limit).__name__}")
    return int(limit.max_rows)
