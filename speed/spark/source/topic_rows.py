"""Rows as messages of a durable topic, published once however often their task runs.

The host recognises a repetition by producer and sequence. The producer is named by run or query and by partition, the
sequence is made of epoch and row: a task that runs again publishes what is missing, and nothing twice. That needs the
rows of a partition in the same order each time, as Spark gives them for what it read or sorted.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from speed.core.topic_messages import outgoing
from speed.errors import ConfigurationError, UnserialisableError
from speed.spark.source.rows import PAYLOAD, check_value, packed_rows, values_of
from speed.topic import Topic

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

TOPIC_ROW_COLUMNS = {"key": "string", "properties": "map<string,string>", "deliver_at": "timestamp"}
"""Columns beside ``payload``, each optional, and so is each of their values."""
_ROWS_OF_EPOCH = 1 << 32
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
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
    return 0 if moment is None else (moment - _EPOCH) // _MILLISECOND
