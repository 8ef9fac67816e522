"""Rows of a DataFrame or a stream as messages to a node, to a durable topic, or as events to subscribers.

The host recognises a repetition by producer and sequence. The producer is named by run or query and by partition, the
sequence is made of epoch and row: a task that runs again publishes what is missing, and nothing twice. That needs the
rows of a partition in the same order each time, as Spark gives them for what it read or sorted.

Delivery is at least once. A task that fails is run again and sends its rows again under the same message ids (M-13), so
a receiver that keeps ids together with their effects has each effect once. That needs the rows of a partition in the
same order each time, as Spark gives them for what it read or sorted; a column ``message_id`` needs nothing.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

import speed
from speed.engine.message import Turns, subscribers
from speed.errors import ConfigurationError, NodeLeftError, SpeedError, UnknownNodeError, UnserialisableError
from speed.message.view import DEFAULT_TOPIC
from speed.message.writing import MessageIds
from speed.node.topic import Topic
from speed.spark.nodes import application_id, here, worker_node
from speed.spark.source.options import WriteOptions
from speed.spark.source.rows import PAYLOAD, RowEncoder, check_value, packed_rows, values_of
from speed.wire import names
from speed.wire.topic import outgoing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


# Rows as messages of a durable topic, published once however often their task runs.

TOPIC_ROW_COLUMNS = {"key": "string", "properties": "map<string,string>", "deliver_at": "timestamp"}
"""Columns beside ``payload``, each optional, and so is each of their values."""
_ROWS_OF_EPOCH = 1 << 32
_UNIX_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MILLISECOND = datetime.timedelta(milliseconds=1)


def check_topic_rows(schema: StructType) -> None:
    """Raises ConfigurationError for columns that no message of a topic has a place for, before anything runs."""
    if not schema.names:
        raise ConfigurationError("there are no columns to write")
    for field in schema:
        expected, kind = TOPIC_ROW_COLUMNS.get(field.name), field.dataType.simpleString()
        if PAYLOAD not in schema.names or field.name == PAYLOAD:
            check_value(field.name, field.dataType)
        elif expected is None:
            raise ConfigurationError(
                f"column {field.name!r} has no place beside 'payload': there are {', '.join(TOPIC_ROW_COLUMNS)}; "
                "or make it part of the payload: struct(…) AS payload"
            )
        elif kind != expected:
            raise ConfigurationError(f"column {field.name!r} is {kind}: it must be {expected}")


class TopicRows:
    """Publishes the rows of one partition."""

    def __init__(self, topic: Topic, producer: str, owner: str, epoch: int, timeout_seconds: float) -> None:
        """``owner``: the family of all nodes that a task may run under."""
        self._topic, self._timeout_seconds = topic, timeout_seconds
        self._named = {"producer": producer, "owner": owner}
        self._first = epoch * _ROWS_OF_EPOCH + 1
        self.rows = 0

    def publish(self, batch: pa.RecordBatch) -> None:
        """Raises what ``Topic.publish`` raises, and UnserialisableError, which names the row."""
        self._topic.publish_all(self._messages(batch), timeout=self._timeout_seconds, **self._named)

    def _messages(self, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        for row in values_of(batch, self.rows):
            about: dict[str, Any] = row if PAYLOAD in batch.schema.names else {PAYLOAD: row}
            if about[PAYLOAD] is None:
                raise UnserialisableError(f"row {self.rows} of the partition: payload is null")
            (payload,) = packed_rows([about[PAYLOAD]], self.rows)
            due = _unix_ms(about.get("deliver_at"))
            yield outgoing(payload, about.get("key"), about.get("properties"), due, self._first + self.rows)
            self.rows += 1


def _unix_ms(moment: datetime.datetime | None) -> int:
    return 0 if moment is None else (moment - _UNIX_EPOCH) // _MILLISECOND


_QUERY_ID, _EPOCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""What Spark tells the tasks of a micro-batch, which is more than it tells a stream writer."""
_SUBSCRIBER_POLL_SECONDS = 0.05


@dataclass
class WrittenRows(WriterCommitMessage):  # type: ignore[misc, unused-ignore]
    """What a task sent: the receivers have it."""

    rows: int


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc, unused-ignore]
    """Sends the rows of one DataFrame. Carries settings alone; its run has a name that all its tasks share."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._run = options.run or str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """In a task: send the rows of its partition."""
        return send_rows(iterator, self._options, "batch", self._run)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc, unused-ignore]
    """Sends the rows of each micro-batch. The query's id, which outlives a restart, names them."""

    def __init__(self, options: WriteOptions) -> None:
        if options.run:
            raise ConfigurationError("run is given for a stream: the query's id in its checkpoint names its rows")
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """In a task: send the rows of its partition."""
        task = _task()
        query, epoch = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_EPOCH)
        if query is None or epoch is None:
            raise ConfigurationError("this Spark does not tell its tasks query and epoch: no stable ids can be made")
        return send_rows(iterator, self._options, "stream", query, epoch)


def send_rows(batches: Iterable[pa.RecordBatch], options: WriteOptions, *work: str) -> WrittenRows:
    """Send all rows of the partition at hand; when this returns, all receivers have acknowledged them."""
    node = worker_node(replace(options.settings, application=_application(options)))
    try:
        return _send(node, batches, options, *work)
    except SpeedError as error:
        raise here(error) from None


def _send(node: speed.Node, batches: Iterable[pa.RecordBatch], options: WriteOptions, *work: str) -> WrittenRows:
    if options.durable_topic:
        return _publish(node, batches, options, *work)
    ids = MessageIds(*work, str(_task().partitionId()))
    rows = RowEncoder(ids, options.topic or (DEFAULT_TOPIC if options.node else None), options.content_type, node.name)
    receivers = OneNode(node, options) if options.node else Subscribers(node, options)
    for batch in batches:
        for topic, messages in rows.encode(batch):
            receivers.send(topic, messages)
    receivers.finish()
    return WrittenRows(rows.rows)


def _publish(
    node: speed.Node, batches: Iterable[pa.RecordBatch], options: WriteOptions, kind: str, run: str, epoch: str = "0"
) -> WrittenRows:
    assert options.durable_topic is not None
    node.wait_for(options.host, timeout=options.timeout_seconds)
    producer = f"spark.{sha256(f'{kind} {run}'.encode()).hexdigest()[:32]}.{_task().partitionId()}"
    topic = node.topic(options.durable_topic, host=options.host)
    rows = TopicRows(topic, producer, options.settings.prefix, int(epoch), options.timeout_seconds)
    for batch in batches:
        rows.publish(batch)
    return WrittenRows(rows.rows)


class OneNode:
    """Messages to one node; the last one is held back, since its acknowledgement says that all arrived."""

    def __init__(self, node: speed.Node, options: WriteOptions) -> None:
        assert options.node is not None
        self._node = node
        self._lane = _ReceiverLane(node, options.node, False, options.timeout_seconds)
        self._target, self._timeout_seconds = options.node, options.timeout_seconds
        self._is_there = False

    def send(self, topic: str, messages: list[bytes]) -> None:
        """Raises what ``Node.forward`` raises, after waiting for room, and at first for the node."""
        if not self._is_there:
            self._node.wait_for(self._target, timeout=self._timeout_seconds)
            self._is_there = True
        self._lane.send(messages)

    def finish(self) -> None:
        """Wait until the node has them all."""
        self._lane.finish()


class Subscribers:
    """Events to all who subscribe to their topics; those who leave are no longer waited for."""

    def __init__(self, node: speed.Node, options: WriteOptions) -> None:
        self._node = node
        self._options = options
        self._lanes: dict[str, _ReceiverLane] = {}
        self._turns = Turns()

    def send(self, topic: str, messages: list[bytes]) -> None:
        """Raises UnknownNodeError if there are fewer subscribers than the options ask for, even after waiting."""
        for target in self._subscribers(names.check_topic(topic)):
            lane = self._lanes.get(target)
            if lane is None:
                lane = self._lanes[target] = _ReceiverLane(self._node, target, True, self._options.timeout_seconds)
            self._unless_it_left(lane, partial(lane.send, messages))

    def finish(self) -> None:
        """Wait until each has them all."""
        for lane in list(self._lanes.values()):
            self._unless_it_left(lane, lane.finish)

    def _unless_it_left(self, lane: _ReceiverLane, act: Callable[[], None]) -> None:
        try:
            act()
        except (NodeLeftError, UnknownNodeError):
            self._lanes.pop(lane.target, None)

    def _subscribers(self, topic: str) -> list[str]:
        deadline = monotonic() + self._options.timeout_seconds
        while True:
            who = subscribers(self._node.nodes(), topic, self._node.name)
            found = [*who.each, *(self._one_of(family, able) for family, able in who.shared.items())]
            if len(found) >= self._options.min_subscribers:
                return found
            if monotonic() >= deadline:
                raise UnknownNodeError(
                    f"{len(found)} nodes subscribe to {topic!r} and allow {self._node.name!r}, "
                    f"minSubscribers is {self._options.min_subscribers}"
                )
            sleep(_SUBSCRIBER_POLL_SECONDS)

    def _one_of(self, family: str, able: list[str]) -> str:
        chosen = self._turns.order(family, able)[0]
        self._turns.took(family, chosen)
        return chosen


class _ReceiverLane:
    """What one receiver gets, in order, with the last message held back."""

    def __init__(self, node: speed.Node, target: str, event: bool, timeout_seconds: float) -> None:
        self.target = target
        self._node = node
        self._event = event
        self._timeout_seconds = timeout_seconds
        self._held: list[bytes] = []

    def send(self, messages: list[bytes]) -> None:
        due = [*self._held, *messages]
        self._forward(due[:-1], ack=False)
        self._held = due[-1:]

    def finish(self) -> None:
        self._forward(self._held, ack=True)
        self._held = []

    def _forward(self, messages: list[bytes], *, ack: bool) -> None:
        if messages:
            self._node.forward(self.target, messages, event=self._event, ack=ack, timeout=self._timeout_seconds)


def _application(options: WriteOptions) -> str:
    """Names a node of its own: it may be more durable, or lie elsewhere, than the one that calls services."""
    return f"{application_id()}-write" + ("-disk" if options.settings.durability == "disk" else "")


def _task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise ConfigurationError("rows are written by the tasks of a Spark job only")
    return task
