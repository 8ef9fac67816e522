"""Journals as DataFrames: lanes in parts that executors read in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.datasource import DataSourceReader, InputPartition

from speed.core.log import logger
from speed.errors import JournalDamagedError, JournalError, JournalExpiredError
from speed.journal import Block, Journal, LaneInfo
from speed.spark.source.calls import CallBatches
from speed.spark.source.columns import MessageBatches, RecordBatches
from speed.spark.source.options import ReadOptions
from speed.spark.source.parts import ALWAYS, LanePart, LaneParts, cut, pack
from speed.spark.source.schemas import schemas_of
from speed.spark.source.topics import TopicBatches
from speed.wire import names

if TYPE_CHECKING:
    import pyarrow as pa

log = logger("speed.spark")

T = TypeVar("T")
BATCH_ROWS = 8192


class JournalRows:
    """Reads parts of lanes in a task. Travels to the executors: it holds paths and settings alone."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        """Raises ConfigurationError for a schema file that is none."""
        self._options = options
        self._schema = schema
        self._schemas = schemas_of(options)

    def read(self, part: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raises JournalExpiredError, JournalDamagedError for lost records, unless the options let it go on."""
        if not isinstance(part, LaneParts):  # Spark's own, where no lane is asked for
            return
        journal = open_journal(self._options)
        for one in part.parts:
            blocks = _until(self._blocks(journal, one), one.until_ms)
            yield from self._batches(one.lane).batches(blocks, BATCH_ROWS)

    def _blocks(self, journal: Journal, part: LanePart) -> Iterator[Block]:
        """The blocks; a warning says how many records could not be read. Raises for those if the options say so."""
        fail = self._options.fail_on_data_loss
        following = part.start
        try:
            following = first_kept(journal, part.lane, part.start, part.end, fail)
            for block in journal.blocks(part.lane.id, following, part.end, skip_damaged=not fail):
                _count_lost(part.lane, following, block.offset)
                following = block.end
                yield block
        except JournalError as error:
            if fail:
                raise
            log.warning("%s", error)
        if following < part.end and fail:
            raise _ended_early(part, following)
        _count_lost(part.lane, following, part.end)

    def _batches(self, lane: LaneInfo) -> CallBatches | RecordBatches:
        if lane.kind == "calls":
            return CallBatches(self._schema, lane)
        batches = TopicBatches if self._options.durable else MessageBatches
        return batches(self._schema, lane, self._options.on_error, self._schemas)


class BatchReader(DataSourceReader):  # type: ignore[misc, unused-ignore]
    """Reads what a journal holds when the query is planned.

    It takes no filters from Spark, which hands those of one query of a DataFrame to its next one too, if that one has
    none (seen in 4.1 and 4.3): rows would be missing. Options choose lanes and ranges.
    """

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options
        self._rows = JournalRows(options, schema)

    def partitions(self) -> Sequence[LaneParts]:
        """Lanes that are asked for, between the places that are asked for, in tasks of about equal size."""
        journal, options = open_journal(self._options), self._options
        until_ms = ALWAYS if options.ending_ms is None else options.ending_ms - 1
        parts: list[LanePart] = []
        for lane, (start, end) in still_there(wanted_lanes(journal, options, set()), partial(self._between, journal)):
            parts.extend(cut(lane, start, end, options.messages_per_partition, until_ms))
        return pack(parts, options)

    def _between(self, journal: Journal, lane: LaneInfo) -> tuple[int, int]:
        """The records that the options take of a lane."""
        options, fail = self._options, self._options.fail_on_data_loss
        start, end = journal.first(lane.id), journal.end(lane.id, skip_damaged=not fail)
        if options.starting_ms is not None:
            start = first_recorded_since(journal, lane, options.starting_ms, fail)
        if not isinstance(options.starting_offsets, str):
            start = max(start, options.starting_offsets.get(lane.id, 0))
        if not isinstance(options.ending_offsets, str):
            end = min(end, options.ending_offsets.get(lane.id, end))
        return start, end

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: its parts of lanes, one after the other."""
        return self._rows.read(partition)


def first_recorded_since(journal: Journal, lane: LaneInfo, unix_ms: int, fail: bool) -> int:
    """The offset of the first record that is not older; the lane's end if all are. Where it is damaged, its first."""
    try:
        begin = journal.offset_at(lane.id, unix_ms)
        records = journal.read(lane.id, begin, journal.end(lane.id, skip_damaged=not fail))
        return next((one.offset for one in records if one.recorded_at_ms >= unix_ms), begin)
    except JournalDamagedError:
        if fail:
            raise
        return journal.first(lane.id)


def open_journal(options: ReadOptions) -> Journal:
    """The journal, with its keys as they are now."""
    return Journal(options.journal, options.key)


def wanted_lanes(journal: Journal, options: ReadOptions, said: set[str]) -> list[LaneInfo]:
    """The lanes that the options ask for; a warning counts damaged ones, unless they are ``said``.

    Raises JournalDamagedError for them if the options say so.
    """
    lanes, damaged = journal.survey()
    error = next(iter(damaged.values()), None)
    if error is not None and options.fail_on_data_loss:
        raise JournalDamagedError(f"{error}; set failOnDataLoss=false to go on without that lane", error.offset)
    if not damaged.keys() <= said:
        log.warning("%d lanes are damaged and not read, the first: %s", len(damaged), error)
    said.update(damaged)
    return [lane for lane in lanes if _is_wanted(lane, options)]


def still_there(lanes: Iterable[LaneInfo], ask: Callable[[LaneInfo], T]) -> Iterator[tuple[LaneInfo, T]]:
    """What is asked of each lane, without those that retention removed since they were listed."""
    for lane in lanes:
        with suppress(JournalExpiredError):
            yield lane, ask(lane)


def _is_wanted(lane: LaneInfo, options: ReadOptions) -> bool:
    if (lane.kind == "calls") is not options.calls:
        return False
    if options.topics and not (
        lane.kind == "topic" and any(names.matches(one, lane.subject) for one in options.topics)
    ):
        return False
    if options.inbox and (lane.kind, lane.subject) != ("inbox", options.inbox):
        return False
    return not options.source or names.matches(options.source, lane.source)


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


def _ended_early(part: LanePart, offset: int) -> JournalDamagedError:
    return JournalDamagedError(
        f"{_named(part.lane)} (lane {part.lane.id}) ends at offset {offset}, it was to be read to {part.end}: it was "
        "cut or replaced meanwhile; set failOnDataLoss=false to go on behind it",
        offset,
    )


def _count_lost(lane: LaneInfo, start: int, end: int) -> None:
    if start < end:
        log.warning("%d messages of %s are damaged (lane %s)", end - start, _named(lane), lane.id)


def _named(lane: LaneInfo) -> str:
    return f"{lane.kind} {lane.subject} from {lane.source}"


def _until(blocks: Iterator[Block], until_ms: int) -> Iterator[Block]:
    """Records up to a time; that of a lane never goes back (J-4)."""
    for block in blocks:
        wanted = block.until(until_ms)
        yield wanted
        if wanted.end < block.end:
            return
