"""Durable topics whose messages lie in a cluster, as DataFrames and streams: their host gives them, topic by topic.

An offset of a stream is a map from the lane of each topic to the offset that comes next. One task reads a topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from speed.core.log import logger
from speed.errors import ConfigurationError, JournalExpiredError, JournalReplacedError
from speed.journal import LaneInfo
from speed.spark.executor import application_id, worker_node
from speed.spark.source.columns import Records
from speed.spark.source.following import TIMEOUT_SECONDS, Subscription
from speed.spark.source.options import ReadOptions
from speed.spark.source.parts import ALWAYS
from speed.spark.source.topics import TopicBatches
from speed.topic_host import Start, asked
from speed.wire import names

if TYPE_CHECKING:
    import pyarrow as pa

    import speed

log = logger("speed.spark")

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

    def _asked(self, service: str, **arguments: Any) -> Any:
        return asked(self._node(), self._options.host, service, arguments, TIMEOUT_SECONDS)

    def _node(self) -> speed.Node:
        node = worker_node(replace(self._options.settings, application=f"{application_id()}-read"))
        node.wait_for(self._options.host, timeout=TIMEOUT_SECONDS)
        return node

    def bounds(self) -> dict[LaneInfo, tuple[int, int]]:
        """The topics that the options ask for: where each begins and ends."""
        found = {}
        for one in self._asked("list"):
            if "lane" in one and any(names.matches(pattern, one["topic"]) for pattern in self._options.topics):
                lane = LaneInfo(one["lane"], "topic", one["topic"], self._options.host)
                found[lane] = (one["first"], one["end"])
        return found

    def place(self, lane: LaneInfo, start: Start) -> int:
        """The offset of the first message that ``start`` means."""
        answer = self._asked("read", topic=lane.subject, start=start, most=1)
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
            answer = self._asked("read", topic=part.lane.subject, start=place, most=ROWS_AT_ONCE)
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
        self._subscription = None if options.following is None else Subscription(options.following)
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
