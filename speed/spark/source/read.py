"""Journals as DataFrames: lanes in parts that executors read in parallel, pruned by what is asked for."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from speed.core.log import logger
from speed.errors import JournalExpiredError
from speed.journal import Block, Journal, LaneInfo
from speed.spark.source.calls import CallBatches
from speed.spark.source.columns import MessageBatches
from speed.spark.source.options import ReadOptions
from speed.wire import names

if TYPE_CHECKING:
    import pyarrow as pa

log = logger("speed.spark")

BATCH_ROWS = 8192
_ALWAYS = 1 << 62


@dataclass
class LanePart(InputPartition):  # type: ignore[misc, unused-ignore]
    """Records ``start`` to ``end`` of one lane, of which those recorded after ``until_ms`` are not wanted."""

    lane: LaneInfo
    start: int
    end: int
    until_ms: int = _ALWAYS


class JournalRows:
    """Reads parts of lanes in a task. Travels to the executors: it holds paths and settings alone."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def read(self, part: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raises JournalExpiredError for records that retention removed, unless the options let it go on."""
        if not isinstance(part, LanePart):  # Spark's own, where no lane is asked for
            return iter(())
        journal = open_journal(self._options)
        fail = self._options.fail_on_data_loss
        start = first_kept(journal, part.lane, part.start, part.end, fail)
        found = journal.blocks(part.lane.id, start, part.end, skip_damaged=not fail)
        blocks = _until(_counted(found, part.lane, start, part.end), part.until_ms)
        return self._batches(part.lane).batches(blocks, BATCH_ROWS)

    def _batches(self, lane: LaneInfo) -> CallBatches | MessageBatches:
        if lane.kind == "calls":
            return CallBatches(self._schema, lane)
        return MessageBatches(self._schema, lane, self._options.on_error)


class BatchReader(DataSourceReader):  # type: ignore[misc, unused-ignore]
    """Reads what a journal holds when the query is planned."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options
        self._rows = JournalRows(options, schema)
        self._pruning = Pruning()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Note which lanes and times are asked for. Spark still looks at each row."""
        for one in filters:
            self._pruning.note(one)
        return filters

    def partitions(self) -> Sequence[LanePart]:
        """Lanes that are asked for, between the times that are asked for, in parts of about equal size."""
        journal = open_journal(self._options)
        parts: list[LanePart] = []
        for lane in wanted_lanes(journal, self._options):
            if not self._pruning.takes(lane):
                continue
            start, end = self._pruning.offsets(journal, lane)
            parts.extend(cut(lane, start, end, self._options.messages_per_partition, self._pruning.until_ms))
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: one part of one lane."""
        return self._rows.read(partition)


class Pruning:
    """What filters say about lanes and times: only equality, and bounds of the time of recording."""

    def __init__(self) -> None:
        self.from_ms = 0
        self.until_ms = _ALWAYS
        self._wanted: dict[str, set[Any]] = {}

    def note(self, one: Filter) -> None:
        """Take in one of several filters that all must hold."""
        if isinstance(one, EqualTo | EqualNullSafe | In) and len(one.attribute) == 1:
            values = set(one.value) if isinstance(one, In) else {one.value}
            name = one.attribute[0]
            self._wanted[name] = self._wanted.get(name, values) & values
            if name in _TIMES and not isinstance(one, In):
                self._bound(one.value, one.value)
        elif isinstance(one, GreaterThan | GreaterThanOrEqual) and one.attribute in _TIME_PATHS:
            self._bound(one.value, None)
        elif isinstance(one, LessThan | LessThanOrEqual) and one.attribute in _TIME_PATHS:
            self._bound(None, one.value)

    def _bound(self, low: Any, high: Any) -> None:
        if isinstance(low, datetime.datetime):
            self.from_ms = max(self.from_ms, _unix_ms(low))
        if isinstance(high, datetime.datetime):
            self.until_ms = min(self.until_ms, _unix_ms(high))

    def takes(self, lane: LaneInfo) -> bool:
        """Whether a row of this lane may pass."""
        subject = {"topic": "topic", "inbox": "inbox", "calls": "service"}[lane.kind]
        known: dict[str, str | None] = {
            "lane": lane.id,
            "kind": lane.kind,
            "source": lane.source,
            subject: lane.subject,
        }
        if lane.kind == "topic":
            known["inbox"] = None
        return all(name not in self._wanted or value in self._wanted[name] for name, value in known.items())

    def offsets(self, journal: Journal, lane: LaneInfo) -> tuple[int, int]:
        """The records between the times, with what lies in the same blocks."""
        start = journal.offset_at(lane.id, self.from_ms) if self.from_ms > 0 else journal.first(lane.id)
        return start, journal.end(lane.id)


_TIMES = frozenset({"recorded_at", "answered_at"})
_TIME_PATHS = frozenset((name,) for name in _TIMES)


def open_journal(options: ReadOptions) -> Journal:
    """The journal, with its keys as they are now."""
    return Journal(options.journal, options.key)


def wanted_lanes(journal: Journal, options: ReadOptions) -> list[LaneInfo]:
    """The lanes that the options ask for."""
    return [lane for lane in journal.lanes() if _is_wanted(lane, options)]


def _is_wanted(lane: LaneInfo, options: ReadOptions) -> bool:
    if (lane.kind == "calls") is not options.calls:
        return False
    if options.topic and not (lane.kind == "topic" and names.matches(options.topic, lane.subject)):
        return False
    if options.inbox and (lane.kind, lane.subject) != ("inbox", options.inbox):
        return False
    return not options.source or names.matches(options.source, lane.source)


def cut(lane: LaneInfo, start: int, end: int, most: int, until_ms: int = _ALWAYS) -> Iterator[LanePart]:
    """``start`` to ``end`` in parts of at most ``most`` records, as equal as can be."""
    count = -(-(end - start) // most)
    for number in range(count):
        begin = start + (end - start) * number // count
        yield LanePart(lane, begin, start + (end - start) * (number + 1) // count, until_ms)


def first_kept(journal: Journal, lane: LaneInfo, start: int, end: int, fail: bool) -> int:
    """``start``, or what retention kept behind it. Raises JournalExpiredError if ``fail``, else warns and counts."""
    first = journal.first(lane.id)
    if start >= first or start >= end:
        return start
    lost = min(first, end) - start
    what = f"{lost} messages of {_named(lane)} (lane {lane.id}, offsets {start} to {start + lost - 1})"
    if fail:
        raise JournalExpiredError(
            f"{what} were removed by the journal's retention before they were read: keep more "
            "(max_bytes, max_age_seconds), or set failOnDataLoss=false to go on behind them",
            first,
        )
    log.warning("%s were removed by the journal's retention before they were read; going on behind them", what)
    return min(first, end)


def _counted(blocks: Iterator[Block], lane: LaneInfo, start: int, end: int) -> Iterator[Block]:
    """The blocks; a warning says how many records between them could not be read."""
    following = start
    for block in blocks:
        if block.offset > following:
            log.warning("%d messages of %s are damaged (lane %s)", block.offset - following, _named(lane), lane.id)
        following = block.end
        yield block
    if following < end:
        log.warning("%d messages of %s are damaged (lane %s)", end - following, _named(lane), lane.id)


def _named(lane: LaneInfo) -> str:
    return f"{lane.kind} {lane.subject} from {lane.source}"


def _until(blocks: Iterator[Block], until_ms: int) -> Iterator[Block]:
    """Records up to a time; that of a lane never goes back (J-4)."""
    for block in blocks:
        wanted = block.until(until_ms)
        yield wanted
        if wanted.end < block.end:
            return


def _unix_ms(moment: datetime.datetime) -> int:
    return int(moment.timestamp() * 1000)
