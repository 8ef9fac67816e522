"""Journals, and topics that lie in a cluster, as DataFrames: in parts that executors read in parallel.

The query's checkpoint rules: the subscription gives a new query its first offset, and is moved by each commit.

An offset of a stream is a map from the lane of each topic to the offset that comes next. One task reads a topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from heapq import heapify, heapreplace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from speed.core.log import logger
from speed.errors import (
    ConfigurationError,
    JournalDamagedError,
    JournalError,
    JournalExpiredError,
    JournalReplacedError,
    SpeedError,
)
from speed.journal import Block, Journal, LaneInfo
from speed.journal.files import Call, read_call
from speed.node.calls import call_when_allowed
from speed.node.consumer import Start
from speed.spark.nodes import application_id, worker_node
from speed.spark.source.columns import MessageBatches, RecordBatches, Records, TopicBatches
from speed.spark.source.options import Following, ReadOptions
from speed.spark.source.schemas import schemas_of
from speed.wire import names

if TYPE_CHECKING:
    import speed
    from speed.journal import Record
    from speed.node.topic import Topic


# The call log as Arrow record batches: who called what, when, for how long, and with which outcome.

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


# What each task reads: lanes cut where they are long, and packed into few tasks where they are many and short.

ALWAYS = 1 << 62
"""A time that never comes."""
USUAL_PARTITIONS = 64
"""Of small lanes. A constant: a micro-batch that runs again after a restart must have the same tasks, whose rows then
keep their message ids, even where Spark has more cores than before."""
_LANE_ROWS = 200
"""Opening a lane takes about as long as reading so many records."""


@dataclass
class LanePart:
    """Records ``start`` to ``end`` of one lane, of which those recorded after ``until_ms`` are not wanted."""

    lane: LaneInfo
    start: int
    end: int
    until_ms: int = ALWAYS

    @property
    def rows(self) -> int:
        """How many records it has at most."""
        return self.end - self.start


@dataclass
class LaneParts(InputPartition):  # type: ignore[misc, unused-ignore]
    """What one task reads, in this order: that of a lane is kept."""

    parts: tuple[LanePart, ...]


def cut(lane: LaneInfo, start: int, end: int, limit: int, until_ms: int = ALWAYS) -> Iterator[LanePart]:
    """``start`` to ``end`` in parts of at most ``limit`` records, as equal as can be."""
    count = -(-(end - start) // limit)
    for number in range(count):
        begin = start + (end - start) * number // count
        yield LanePart(lane, begin, start + (end - start) * (number + 1) // count, until_ms)


def pack(parts: Sequence[LanePart], options: ReadOptions) -> list[LaneParts]:
    """The parts in tasks that have about equally much to do; the same parts always give the same tasks."""
    limit = options.max_partitions or _usual_partitions(parts, options.messages_per_partition)
    tasks: list[list[LanePart]] = [[] for _ in range(min(limit, len(parts)))]
    loads = [(0, number) for number in range(len(tasks))]
    heapify(loads)
    for part in sorted(parts, key=lambda part: (-part.rows, part.lane.id, part.start)):
        load, number = loads[0]
        tasks[number].append(part)
        heapreplace(loads, (load + part.rows + _LANE_ROWS, number))
    return [LaneParts(tuple(sorted(task, key=lambda part: (part.lane.id, part.start)))) for task in tasks]


def _usual_partitions(parts: Sequence[LanePart], rows: int) -> int:
    """As many as long lanes need, so that a large journal keeps all executors busy."""
    return max(USUAL_PARTITIONS, -(-sum(part.rows for part in parts) // rows))


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


def wanted_lanes(journal: Journal, options: ReadOptions, reported: set[str]) -> list[LaneInfo]:
    """The lanes that the options ask for; a warning counts damaged ones, unless they are ``reported``.

    Raises JournalDamagedError for them if the options say so.
    """
    lanes, damaged = journal.survey()
    error = next(iter(damaged.values()), None)
    if error is not None and options.fail_on_data_loss:
        raise JournalDamagedError(f"{error}; set failOnDataLoss=false to go on without that lane", error.offset)
    if not damaged.keys() <= reported:
        log.warning("%d lanes are damaged and not read, the first: %s", len(damaged), error)
    reported.update(damaged)
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


# A subscription that stands where a query does, so that others see how far it is, and retention waits for it.

TIMEOUT_SECONDS = 30.0


class QuerySubscription:
    """For the driver of a query. One thread uses it."""

    def __init__(self, following: Following) -> None:
        self._following = following

    def cursor(self, start: Start) -> int:
        """The offset that comes next; a subscription that is not there is made at ``start``.

        Raises what ``Topic.consumer`` raises; TAKEN if it has a consumer.
        """
        topic, consumer = self._topic(), f"spark-{uuid4().hex[:12]}"
        named = {"topic": topic.name, "subscription": self._following.subscription, "consumer": consumer}
        joining = {**named, "type": "exclusive", "start": start}
        answer = call_when_allowed(topic.node, topic.host, "topics.subscribe", joining, TIMEOUT_SECONDS)
        with suppress(SpeedError):  # its node leaves in the end
            call_when_allowed(topic.node, topic.host, "topics.leave", {**named, "unseen": []}, TIMEOUT_SECONDS)
        return int(answer["cursor"])

    def move(self, offset: int) -> None:
        """Acknowledge what is before ``offset``. A host that is away is named in the log: the next commit moves on."""
        try:
            self._topic().seek(self._following.subscription, offset, timeout=TIMEOUT_SECONDS)
        except SpeedError as error:
            log.warning("subscription %s stays behind its query: %s", self._following.subscription, error)

    def _topic(self) -> Topic:
        following = self._following
        node = worker_node(replace(following.settings, application=f"{application_id()}-read"))
        node.wait_for(following.host, timeout=TIMEOUT_SECONDS)
        return node.topic(following.topic, host=following.host)


ROWS_AT_ONCE = 4096


@dataclass
class HostedPart(InputPartition):  # type: ignore[misc, unused-ignore]
    """Messages ``start`` to ``end`` of one topic, of which those recorded after ``until_ms`` are not wanted."""

    lane: LaneInfo
    start: int
    end: int
    until_ms: int = ALWAYS


class HostedTopics:
    """Asks the host, on the driver and in tasks. Travels to the executors: it holds settings alone."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options, self._schema = options, schema

    def _call(self, service: str, **arguments: Any) -> Any:
        return call_when_allowed(self._node(), self._options.host, f"topics.{service}", arguments, TIMEOUT_SECONDS)

    def _node(self) -> speed.Node:
        node = worker_node(replace(self._options.settings, application=f"{application_id()}-read"))
        node.wait_for(self._options.host, timeout=TIMEOUT_SECONDS)
        return node

    def bounds(self) -> dict[LaneInfo, tuple[int, int]]:
        """The topics that the options ask for: where each begins and ends."""
        found = {}
        for one in self._call("list"):
            if "lane" in one and any(names.matches(pattern, one["topic"]) for pattern in self._options.topics):
                lane = LaneInfo(one["lane"], "topic", one["topic"], self._options.host)
                found[lane] = (one["first"], one["end"])
        return found

    def place(self, lane: LaneInfo, start: Start) -> int:
        """The offset of the first message that ``start`` means."""
        answer = self._call("read", topic=lane.subject, start=start, most=1)
        return int(answer["messages"][0][0] if answer["messages"] else answer["next"])

    def part(self, lane: LaneInfo, start: int, bounds: tuple[int, int], until_ms: int = ALWAYS) -> HostedPart:
        """From ``start`` to the end. Raises JournalExpiredError for what is gone, unless it may be."""
        first, end = bounds
        if start < first:
            text = f"messages of topic {lane.subject} from offset {start} to {first} were removed before they were read"
            if self._options.fail_on_data_loss:
                raise JournalExpiredError(f"{text}; set failOnDataLoss=false to go on behind them", first)
            log.warning("%s; going on behind them", text)
        return HostedPart(lane, max(start, first), end, until_ms)

    def read(self, part: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: the messages of a part."""
        if not isinstance(part, HostedPart):  # Spark's own, where no topic is asked for
            return
        batches = TopicBatches(self._schema, part.lane, self._options.on_error)
        place = part.start
        while place < part.end:
            answer = self._call("read", topic=part.lane.subject, start=place, most=ROWS_AT_ONCE)
            rows = [(row[0], row[2], row[3]) for row in answer["messages"] if row[0] < part.end]
            wanted = [row for row in rows if row[1] <= part.until_ms]
            if wanted:
                yield from batches.batches_of(Records.listed(wanted))
            if not rows:
                return
            place = answer["next"]


class HostedReader(DataSourceReader):  # type: ignore[misc, unused-ignore]
    """Reads what topics hold when the query is planned."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        self._options, self._topics = options, HostedTopics(options, schema)

    def partitions(self) -> Sequence[HostedPart]:
        """One for each topic, between the places that are asked for."""
        options = self._options
        until_ms = ALWAYS if options.ending_ms is None else options.ending_ms - 1
        parts = []
        for lane, (first, end) in self._topics.bounds().items():
            if not isinstance(options.ending_offsets, str):
                end = min(end, options.ending_offsets.get(lane.id, end))
            start = _start(self._topics, options, lane, first)
            parts.append(self._topics.part(lane, start, (first, end), until_ms))
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: one topic."""
        return self._topics.read(partition)


class HostedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc, unused-ignore]
    """Plans micro-batches on the driver; executors read them. One thread uses it."""

    def __init__(self, options: ReadOptions, schema: pa.Schema) -> None:
        if options.max_messages_per_trigger is not None:
            raise ConfigurationError("maxMessagesPerTrigger is given: it is not for topics that lie in a cluster")
        self._options, self._topics = options, HostedTopics(options, schema)
        self._subscription = None if options.following is None else QuerySubscription(options.following)
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name, as those below
        """Where a query begins that has no checkpoint yet."""
        bounds = self._topics.bounds()
        if self._subscription is not None and not bounds:
            raise ConfigurationError(f"there is no durable topic {self._options.topics[0]!r}: create it first")
        return {lane.id: self._initial(lane, *places) for lane, places in bounds.items()}

    def _initial(self, lane: LaneInfo, first: int, end: int) -> int:
        options = self._options
        if self._subscription is not None:
            given = options.starting_offsets
            start: Start = given if isinstance(given, str) else given.get(lane.id, "earliest")
            return self._subscription.cursor(start if options.starting_ms is None else {"at_ms": options.starting_ms})
        return end if options.starting_offsets == "latest" else _start(self._topics, options, lane, first)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """The ends of all topics."""
        return {**start, **(self._ends() if self._target is None else self._target)}

    def _ends(self) -> dict[str, int]:
        return {lane.id: end for lane, (_, end) in self._topics.bounds().items()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """None: a micro-batch has all that is there."""
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """The ends of all topics, for the query's progress."""
        return self._ends()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes from now on is for the next run."""
        self._target = self._ends()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[HostedPart]:
        """One for each topic with something new.

        Raises JournalExpiredError, JournalReplacedError unless ``failOnDataLoss`` is false.
        """
        bounds = {lane.id: (lane, first) for lane, (first, _) in self._topics.bounds().items()}
        parts = []
        for lane_id, stop in end.items():
            if lane_id in bounds:
                lane, first = bounds[lane_id]
                begin = start.get(lane_id, first)
                parts += [self._topics.part(lane, begin, (first, stop))] if begin < stop else []
            elif start.get(lane_id, 0) < stop:
                self._lost(lane_id, stop)
        return parts

    def _lost(self, lane_id: str, stop: int) -> None:
        text = f"the topic of lane {lane_id}, which was to be read to {stop}, is gone or was made anew"
        if self._options.fail_on_data_loss:
            raise JournalReplacedError(f"{text}; set failOnDataLoss=false to go on without it")
        log.warning("%s; going on without it", text)

    def commit(self, end: dict[str, int]) -> None:
        """What is before ``end`` was written: a subscription that follows the query is moved there."""
        if self._subscription is not None:
            for place in end.values():
                self._subscription.move(place)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: one topic."""
        return self._topics.read(partition)


def _start(topics: HostedTopics, options: ReadOptions, lane: LaneInfo, first: int) -> int:
    """Where the options let a topic begin."""
    if options.starting_ms is not None:
        return topics.place(lane, {"at_ms": options.starting_ms})
    given = options.starting_offsets
    return first if isinstance(given, str) else given.get(lane.id, first)
