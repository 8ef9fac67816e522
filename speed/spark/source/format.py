"""The format ``speed``: Spark's Python data source for journals and topics, and journals as streams.

A lane that an offset does not name is new: all of it is still to come. A lane that is gone, ends before its offset, or
holds something else there was lost or replaced: that is an error unless ``failOnDataLoss`` is false.

    from speed.spark import register
    register(spark)
    spark.readStream.format("speed").option("root", …).option("topic", "flights.*").load()
    df.write.format("speed").mode("append").option("root", …).option("node", "billing").save()

Options are checked while Spark analyses the query (``options``). Where the package ``pyspark_speed`` can be
imported by Spark's own workers, it finds the format by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from speed.core.log import logger
from speed.errors import (
    ConfigurationError,
    JournalDamagedError,
    JournalError,
    JournalExpiredError,
    JournalReplacedError,
)
from speed.journal import LaneInfo
from speed.spark.source.columns import check_schema, default_schema
from speed.spark.source.options import ReadOptions, WriteOptions, check_names, read_options, write_options
from speed.spark.source.read import (
    BatchReader,
    HostedReader,
    HostedStream,
    JournalRows,
    LanePart,
    LaneParts,
    QuerySubscription,
    cut,
    first_kept,
    first_recorded_since,
    open_journal,
    pack,
    still_there,
    wanted_lanes,
)
from speed.spark.source.rows import check_rows
from speed.spark.source.write import BatchWriter, StreamWriter, check_topic_rows

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from speed.node.consumer import Start


# Journals as streams. An offset is a map from each lane to the record that comes next in it, and the mark before it.

log = logger("speed.spark")

Offsets = dict[str, list[int | str] | int]
"""As Spark keeps them, by lane. Those of before were numbers."""


class LanePosition(NamedTuple):
    """Where a query stands in a lane: the offset that comes next, and the mark of the block before it."""

    next: int = 0
    mark: str = ""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc, unused-ignore]
    """Plans micro-batches on the driver; executors read them. One thread uses it."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options = options
        self._journal = open_journal(options)
        self._rows = JournalRows(options, schema)
        self._subscription = None if options.following is None else QuerySubscription(options.following)
        self._target: dict[str, int] | None = None
        self._reported: set[str] = set()
        """Damaged lanes that were reported."""
        self._checked: set[str] = set()
        """Lanes in which the place of the checkpoint was looked at."""

    # --- offsets ---

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name, as those below
        """Where a query begins that has no checkpoint yet."""
        if self._subscription is not None:
            return _offsets({lane.id: self._subscribed(lane, self._subscription) for lane in self._one_lane()})
        if self._options.starting_offsets == "latest":
            return _offsets({lane: self._place(lane, end) for lane, end in self._ends().items()})
        since = self._options.starting_ms
        if since is not None:
            return _offsets({lane: self._place(lane, first) for lane, first in self._firsts_since(since)})
        firsts = still_there(self._lanes(), self._first)
        return _offsets({lane.id: place for lane, place in firsts})

    def _first(self, lane: LaneInfo) -> LanePosition:
        """What the options say of this lane, else its first record."""
        given = self._options.starting_offsets
        if isinstance(given, str) or lane.id not in given:
            return LanePosition(self._journal.first(lane.id))
        return self._place(lane.id, given[lane.id])

    def _one_lane(self) -> list[LaneInfo]:
        lanes = self._lanes()
        if not lanes:
            raise ConfigurationError(f"there is no durable topic {self._options.topics[0]!r}: create it first")
        return lanes

    def _subscribed(self, lane: LaneInfo, subscription: QuerySubscription) -> LanePosition:
        since, given = self._options.starting_ms, self._options.starting_offsets
        start: Start = given if isinstance(given, str) else given.get(lane.id, "earliest")
        if since is not None:
            start = {"at_ms": since}
        return self._place(lane.id, subscription.cursor(start))

    def commit(self, end: Offsets) -> None:
        """What is before ``end`` was written: a subscription that follows the query is moved there."""
        if self._subscription is not None:
            for place in _places(end).values():
                self._subscription.move(place.next)

    def _firsts_since(self, unix_ms: int) -> Iterator[tuple[str, int]]:
        fail = self._options.fail_on_data_loss
        found = still_there(self._lanes(), lambda lane: first_recorded_since(self._journal, lane, unix_ms, fail))
        return ((lane.id, first) for lane, first in found)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """How far the next micro-batch goes: to the ends of all lanes, or the limit's share of each.

        Raises JournalReplacedError, JournalExpiredError for a place that is lost, and JournalDamagedError for a lane
        that was cut, unless ``failOnDataLoss`` is false.
        """
        ends = self._ends() if self._target is None else self._target
        places = self._kept(_places(start), ends)
        begins = {lane: places.get(lane, LanePosition()).next for lane in ends}
        waiting = {lane: end - begins[lane] for lane, end in ends.items() if end > begins[lane]}
        if self._options.fail_on_data_loss:
            self._check_ends(waiting)
        taken = waiting if isinstance(limit, ReadAllAvailable) else shares(waiting, _rows(limit))
        moved = {lane: self._place(lane, begins[lane] + count) for lane, count in taken.items() if count}
        return _offsets({**places, **moved})

    def _check_ends(self, lanes: Iterable[str]) -> None:
        for lane in lanes:
            try:
                self._journal.end(lane)
            except JournalDamagedError as error:
                raise JournalDamagedError(f"{error}: failOnDataLoss=false does", error.offset) from None

    def _kept(self, places: dict[str, LanePosition], ends: dict[str, int]) -> dict[str, LanePosition]:
        """The places in lanes that are still there; one of another journal goes back to the beginning."""
        there = {lane: place for lane, place in places.items() if lane in ends or self._is_there(lane, place)}
        for lane in there.keys() & ends.keys():
            if lane not in self._checked or there[lane].next > ends[lane]:
                there[lane] = self._sound(lane, there[lane])
        self._checked.update(ends)
        return there

    def _sound(self, lane_id: str, place: LanePosition) -> LanePosition:
        try:
            self._check(lane_id, place)
        except JournalDamagedError:
            return place  # that is told where it is read
        except JournalReplacedError:
            if self._options.fail_on_data_loss:
                raise
            return LanePosition(self._journal.first(lane_id))
        return place

    def _is_there(self, lane_id: str, place: LanePosition) -> bool:
        """Whether a lane is there, wanted or not; one that was read to its end may be removed."""
        try:
            self._journal.lane(lane_id)
        except JournalDamagedError:
            return True
        except JournalError as error:
            if isinstance(error, JournalExpiredError) and place.next >= error.first:
                return False
            lost = _lost(lane_id, place, error)
            if self._options.fail_on_data_loss:
                raise lost from None
            log.warning("%s", lost)
            return False
        return True

    def _place(self, lane_id: str, offset: int) -> LanePosition:
        try:
            return LanePosition(offset, self._journal.mark(lane_id, offset))
        except JournalError:
            if self._options.fail_on_data_loss:
                raise
            return LanePosition(offset)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """``maxMessagesPerTrigger``."""
        limit = self._options.max_messages_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def reportLatestOffset(self) -> Offsets:  # noqa: N802
        """The ends of all lanes, for the query's progress."""
        return _offsets({lane: LanePosition(end) for lane, end in self._ends().items()})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes from now on is for the next run."""
        self._target = self._ends()

    def _ends(self) -> dict[str, int]:
        """Of lanes that were cut, where they ended before: who is there already has lost nothing."""
        ends = still_there(self._lanes(), lambda lane: self._journal.end(lane.id, skip_damaged=True))
        return {lane.id: end for lane, end in ends}

    def _lanes(self) -> list[LaneInfo]:
        return wanted_lanes(self._journal, self._options, self._reported)

    # --- reading ---

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[LaneParts]:
        """The tasks of one micro-batch, with about equally much to read.

        Raises JournalExpiredError, JournalDamagedError, JournalReplacedError unless ``failOnDataLoss`` is false.
        """
        begins = _places(start)
        parts: list[LanePart] = []
        for lane_id, stop in _places(end).items():
            begin = begins.get(lane_id, LanePosition())
            if begin != stop:
                parts.extend(self._parts(lane_id, begin, stop.next))
        return pack(parts, self._options)

    def _parts(self, lane_id: str, place: LanePosition, stop: int) -> Sequence[LanePart]:
        options = self._options
        try:
            lane = self._journal.lane(lane_id)
            begin = first_kept(self._journal, lane, self._begin(lane, place), stop, options.fail_on_data_loss)
        except JournalError as error:
            if options.fail_on_data_loss:
                raise
            log.warning("%d messages of lane %s are lost: %s", stop - place.next, lane_id, error)
            return ()
        return tuple(cut(lane, begin, stop, options.messages_per_partition))

    def _begin(self, lane: LaneInfo, place: LanePosition) -> int:
        """Where reading goes on: at the place if that is one of this lane, else at the first record kept."""
        try:
            self._check(lane.id, place)
        except JournalDamagedError:
            if self._options.fail_on_data_loss:
                raise
            return place.next  # what is damaged is counted where it is read
        except JournalReplacedError as error:
            if self._options.fail_on_data_loss:
                raise
            first = self._journal.first(lane.id)
            log.warning("%d messages that were read may come again: %s", place.next - first, error)
            return first
        return place.next

    def _check(self, lane_id: str, place: LanePosition) -> None:
        try:
            self._journal.check(lane_id, *place)
        except JournalReplacedError as error:
            raise JournalReplacedError(f"{error}, which failOnDataLoss=false does") from None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: its parts of lanes, one after the other."""
        return self._rows.read(partition)


def _places(offsets: Offsets) -> dict[str, LanePosition]:
    return {
        lane: LanePosition(position) if isinstance(position, int) else LanePosition(int(position[0]), str(position[1]))
        for lane, position in offsets.items()
    }


def _offsets(places: dict[str, LanePosition]) -> Offsets:
    return {lane: list(place) for lane, place in places.items()}


def _lost(lane_id: str, place: LanePosition, error: JournalError) -> JournalError:
    """What it means that a lane is gone that was read up to a place."""
    todo = "set failOnDataLoss=false to go on without it, or begin anew with another checkpoint"
    if isinstance(error, JournalExpiredError):
        lost = error.first - place.next
        return JournalExpiredError(f"{lost} messages were not read yet when {error}; {todo}", error.first)
    return JournalReplacedError(
        f"lane {lane_id}, read up to offset {place.next}, is not in this journal, and retention did not remove it: the "
        f"journal was made anew or restored from a copy; {todo}"
    )


def shares(waiting: dict[str, int], limit: int) -> dict[str, int]:
    """At most ``limit`` of what waits, from each lane in proportion, so that none starves; at least one in all."""
    total = sum(waiting.values())
    if total <= limit:
        return waiting
    taken = {lane: count * limit // total for lane, count in waiting.items()}
    left = limit - sum(taken.values())
    for lane in sorted(waiting, key=lambda lane: waiting[lane] * limit % total, reverse=True)[:left]:
        taken[lane] += 1
    return taken


def _rows(limit: ReadLimit) -> int:
    if not isinstance(limit, ReadMaxRows):
        raise ConfigurationError(f"a journal is read by messages, not by {type(limit).__name__}")
    return int(limit.max_rows)


FORMAT = "speed"


class SpeedDataSource(DataSource):  # type: ignore[misc, unused-ignore]
    """What Spark makes for each use of the format; all state is in the options."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        check_names(options)
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> str:
        """What reading gives if the program asks for no schema. Raises ConfigurationError."""
        return default_schema(read_options(self.options, streaming=None))

    def reader(self, schema: StructType) -> BatchReader | HostedReader:
        """For ``spark.read``. Raises ConfigurationError."""
        options = read_options(self.options, streaming=False)
        return (HostedReader if options.hosted else BatchReader)(options, _arrow(schema, options))

    def streamReader(self, schema: StructType) -> StreamReader | HostedStream:  # noqa: N802 - Spark's name
        """For ``spark.readStream``. Raises ConfigurationError."""
        options = read_options(self.options)
        return (HostedStream if options.hosted else StreamReader)(options, _arrow(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """For ``df.write``. Raises ConfigurationError."""
        if overwrite:
            raise ConfigurationError("mode is overwrite: what was sent cannot be taken back; use mode('append')")
        return BatchWriter(self._writing(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """For ``df.writeStream``. Raises ConfigurationError."""
        if overwrite:
            raise ConfigurationError(
                "the output mode is complete: what was sent cannot be taken back; use append or update"
            )
        return StreamWriter(self._writing(schema))

    def _writing(self, schema: StructType) -> WriteOptions:
        options = write_options(self.options)
        if options.durable_topic:
            check_topic_rows(schema)
        else:
            check_rows(schema, topic_is_needed=not (options.node or options.topic))
        return options


def _arrow(schema: StructType, options: ReadOptions) -> pa.Schema:
    """The Arrow schema that Spark expects for ``schema``."""
    from pyspark.sql.pandas.types import to_arrow_schema

    check_schema(schema, options)
    return to_arrow_schema(schema, timezone="UTC")
