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
from speed.journal.volume_writer import Incoming
from speed.journal.writer import JournalWriter
from speed.message.writing import MessageIds
from speed.spark import register
from speed.spark.source.rows import MessageSeries
from speed.wire.journal import Subject
from speed.wire.value import BYTES_TYPE, encode_content

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAYLOAD_BYTES = 200
LANES = 2
BATCHES, QUICK_BATCHES = 8, 4
BATCH_MESSAGES = 400_000
RECORDED_AT_ONCE = 4096


def measure(spark: SparkSession, work: Path, quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Thousand messages a second, median of micro-batches; a first query, in which all is new, does not count."""
    register(spark)
    root, key = make_root(work)
    batches = QUICK_BATCHES if quick else BATCHES
    options = {"root": str(root), "key": str(key)}
    record(work, batches * BATCH_MESSAGES)
    found = {}
    for number in ("0", "1"):
        found["read"] = rates(recorded(spark, options), "noop", {"checkpointLocation": str(work / "read" / number)})
    messages = waiting(spark, work, batches)
    with session.services(work, "sink"):
        for number in ("0", "1"):
            sent = {**options, "node": "sink", "checkpointLocation": str(work / "write" / number)}
            found["write"] = rates(messages, "speed", sent)
    for what, (per_second, cpu_us) in found.items():
        low, high = min(per_second) / 1e3, max(per_second) / 1e3
        median = statistics.median(per_second) / 1e3
        say(f"streaming {what}: {median:.0f} thousand/s ({low:.0f} to {high:.0f}), {cpu_us:.1f} us of processors each")
    figures = {f"{what}_thousand": statistics.median(per_second) / 1e3 for what, (per_second, _) in found.items()}
    figures |= {f"{what}_cpu_us": cpu_us for what, (_, cpu_us) in found.items()}
    return {"per_second": {what: per_second for what, (per_second, _) in found.items()}, "figures": figures}


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


def waiting(spark: SparkSession, work: Path, batches: int) -> DataFrame:
    """As many messages in Parquet files, as a stream."""
    parts = str(work / "parts")
    messages = spark.range(batches * BATCH_MESSAGES).selectExpr(f"unhex(repeat('5a', {PAYLOAD_BYTES})) AS payload")
    messages.repartition(2 * batches).write.parquet(parts)
    return spark.readStream.schema(messages.schema).option("maxFilesPerTrigger", 2).parquet(parts)


def rates(frame: DataFrame, sink: str, options: dict[str, str]) -> tuple[list[float], float]:
    """Rows a second of each micro-batch until the stream has no more, and the processors' microseconds a row."""
    cpu = session.cpu_seconds()
    query = frame.writeStream.format(sink).options(**options).trigger(availableNow=True).start()
    query.awaitTermination()
    full = [one for one in query.recentProgress if one.numInputRows]
    rows = sum(one.numInputRows for one in full)
    return [1e3 * one.numInputRows / one.batchDuration for one in full], 1e6 * (session.cpu_seconds() - cpu) / rows
