"""How many messages a second a streaming query takes out of a journal, and sends to a node."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contenders.root import make_root

from on_spark import session
from speed.journal.lane_writer import Incoming
from speed.journal.writer import JournalWriter
from speed.spark import register
from speed.wire.content import BYTES_TYPE, encode_content
from speed.wire.journal import Subject
from speed.wire.message_series import MessageIds, MessageSeries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAYLOAD_BYTES = 200
LANES = 2
BATCHES, QUICK_BATCHES = 9, 4
BATCH_MESSAGES = 400_000
RECORDED_AT_ONCE = 4096


def measure(spark: SparkSession, work: Path, quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Thousand messages a second, median of micro-batches; the first, in which all is new, does not count."""
    register(spark)
    root, key = make_root(work)
    batches = QUICK_BATCHES if quick else BATCHES
    record(work, batches * BATCH_MESSAGES)
    options = {"root": str(root), "key": str(key)}
    read = rates(spark, work / "read", recorded(spark, options), "noop", {})
    say(f"streaming read: {_thousands(read)}")
    parts = str(work / "parts")
    messages = spark.range(batches * BATCH_MESSAGES).selectExpr(f"unhex(repeat('5a', {PAYLOAD_BYTES})) AS payload")
    messages.repartition(2 * batches).write.parquet(parts)
    waiting = spark.readStream.schema(messages.schema).option("maxFilesPerTrigger", 2).parquet(parts)
    with session.services(work, "sink"):
        write = rates(spark, work / "write", waiting, "speed", {**options, "node": "sink"})
    say(f"streaming write: {_thousands(write)}")
    figures = {"read_thousand": statistics.median(read) / 1e3, "write_thousand": statistics.median(write) / 1e3}
    return {"read_per_second": read, "write_per_second": write, "figures": figures}


def record(work: Path, count: int) -> None:
    """A journal of so many events of 200 bytes, in two lanes."""
    root, key = make_root(work)
    payload = os.urandom(PAYLOAD_BYTES)
    with JournalWriter(root / "journal", key) as writer:
        for lane in range(LANES):
            subject = Subject("topic", "bench.events", f"source{lane}")
            for number, messages in _messages(subject, payload, count // LANES):
                writer.record(subject, [Incoming(number + at, False, one) for at, one in enumerate(messages, 1)])


def _messages(subject: Subject, payload: bytes, count: int) -> Iterator[tuple[int, list[bytes]]]:
    now_ms = time.time_ns() // 1_000_000
    series = MessageSeries(
        encode_content(b"", BYTES_TYPE), now_ms, topic=subject.subject, namespace="default", publisher_id=subject.source
    )
    ids = MessageIds(*subject)
    for begin in range(0, count, RECORDED_AT_ONCE):
        taken = ids.take(begin, min(RECORDED_AT_ONCE, count - begin))
        yield begin, [series.encode(message_id, payload) for message_id in taken]


def recorded(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """The journal as a stream, all columns."""
    limits = {"maxMessagesPerTrigger": str(BATCH_MESSAGES), "messagesPerPartition": str(BATCH_MESSAGES // 4)}
    return spark.readStream.format("speed").options(**options, topic="bench.events", **limits).load()


def rates(spark: SparkSession, work: Path, frame: DataFrame, sink: str, options: dict[str, str]) -> list[float]:
    """Rows a second of each micro-batch but the first, until the stream has no more."""
    writer = frame.writeStream.format(sink).options(**options, checkpointLocation=str(work))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    full = [one for one in query.recentProgress if one.numInputRows]
    return [1e3 * one.numInputRows / one.batchDuration for one in full[1:]]


def _thousands(rates: list[float]) -> str:
    return f"{statistics.median(rates) / 1e3:.0f} thousand/s ({min(rates) / 1e3:.0f} to {max(rates) / 1e3:.0f})"
