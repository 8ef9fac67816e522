"""The Spark job: a stream of flights to hours of carriers in Parquet, and from there to alerts.

    python -m examples.pipeline.job stream --root … --key … --work DIR    until the replay is over, also after a crash
    python -m examples.pipeline.job batch --root … --key … --work DIR     the same of the tables, and a comparison

Exit status: 0 done, 1 the comparison failed, or a service did.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.flights import data
from examples.pipeline import events, windows
from speed.errors import SpeedError
from speed.spark import Speed, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

BATCH_EVENTS = 20_000
POLL_SECONDS = 0.2


class Places:
    """Where things are: communication directory and key, the job's own files; and how many events a batch takes."""

    def __init__(self, root: str, key: str, work: Path, batch_events: int) -> None:
        self.root, self.key, self.batch_events = root, key, batch_events
        self.hours, self.checkpoints, self.alerts = str(work / "hours"), work / "checkpoints", work / "expected.json"


def say(text: str) -> None:
    """One line of progress."""
    print(f"spark     | {text}", flush=True)


def recorded(spark: SparkSession, places: Places) -> DataFrame:
    """The events as they were recorded, from the journal."""
    reader = spark.readStream.format("speed").options(root=places.root, key=places.key, topic=events.TOPIC)
    return reader.option("maxMessagesPerTrigger", places.batch_events).schema(events.SCHEMA).load()


def count_hours(spark: SparkSession, sp: Speed, places: Places) -> StreamingQuery:
    """The query from the journal to Parquet: each hour of a carrier once, when no late event can change it."""
    flights = windows.enriched(sp, recorded(spark, places).withWatermark("event_time", events.WATERMARK))
    writer = windows.by_carrier_and_hour(flights).writeStream.format("parquet").outputMode("append")
    options = {"path": places.hours, "checkpointLocation": str(places.checkpoints / "hours")}
    return writer.options(**options).queryName("hours").start()


def tell_alerts(spark: SparkSession, places: Places) -> StreamingQuery:
    """The query from Parquet to events, for whoever subscribes."""
    Path(places.hours).mkdir(parents=True, exist_ok=True)
    hours = spark.readStream.schema(hours_schema()).parquet(places.hours)
    writer = windows.alerts(hours).writeStream.format("speed").options(root=places.root, key=places.key)
    options = {"topic": windows.ALERT_TOPIC, "checkpointLocation": str(places.checkpoints / "alerts")}
    return writer.options(**options).queryName("alerts").start()


def hours_schema() -> str:
    """Of what is in Parquet."""
    return "hour timestamp, carrier string, " + ", ".join(f"{name} bigint" for name in windows.COUNTS)


def stream(spark: SparkSession, sp: Speed, places: Places) -> None:
    """Both queries, until the last window of the replay is closed and told."""
    hours, alerts = count_hours(spark, sp, places), tell_alerts(spark, places)
    told = -1
    while not is_over(hours):
        for query in (hours, alerts):
            if (error := query.exception()) is not None:
                raise error
        progress = hours.lastProgress
        if progress is not None and progress.batchId > told:
            told = progress.batchId
            say(batch_line(progress))
        time.sleep(POLL_SECONDS)
    hours.stop()
    alerts.processAllAvailable()
    alerts.stop()
    say("the last hour is closed")


def is_over(query: StreamingQuery) -> bool:
    """The last event moved the watermark behind all windows but its own."""
    progress = query.lastProgress
    if progress is None or not progress.stateOperators or progress.numInputRows:
        return False
    return progress.stateOperators[0].numRowsTotal == 1 and progress.eventTime.get("watermark", "") > "2013"


def batch_line(progress: Any) -> str:
    """What one micro-batch did."""
    seconds = progress.batchDuration / 1000
    state = progress.stateOperators[0].numRowsTotal if progress.stateOperators else 0
    return (
        f"batch {progress.batchId}: {progress.numInputRows:,} events in {seconds:.1f} s, {state:,} hours open, "
        f"watermark {progress.eventTime.get('watermark', '-')[:16]}"
    )


def batch(spark: SparkSession, sp: Speed, places: Places, sample: int | None) -> int:
    """Count the tables themselves, and compare with what the stream wrote. Prints totals; 1 if they differ."""
    from pyspark.sql import functions as f

    table = events.table(data.package_folder(), sample)
    expected = windows.by_carrier_and_hour(windows.enriched(sp, spark.createDataFrame(table))).cache()
    found = spark.read.schema(hours_schema()).parquet(places.hours).cache()
    say("the same of the tables, as a batch")
    totals = [f.count("*").alias("hours"), *(f.sum(name).alias(name) for name in windows.COUNTS)]
    of_batch, of_stream = (frame.agg(*totals).first() for frame in (expected, found))
    print(f"\n{'':20}{'batch':>14}{'stream':>14}")
    for name in of_batch.__fields__:
        print(f"  {name:18}{of_batch[name] or 0:>14,}{of_stream[name] or 0:>14,}")
    missing, other = expected.exceptAll(found).count(), found.exceptAll(expected).count()
    alerts = [row.asDict() for row in windows.alerts(expected).orderBy("hour", "carrier").collect()]
    places.alerts.write_text(json.dumps(alerts))
    if missing or other:
        print(f"FAIL  {missing} hours of the batch are not in the stream's, {other} of the stream's not in the batch's")
        return 1
    print(f"ok    all {of_batch['hours']:,} hours of carriers are equal, each there once")
    return 0


def main() -> int:
    """One of both."""
    parser = argparse.ArgumentParser(description="Flights to hours of carriers, as a stream or as a batch.")
    parser.add_argument("what", choices=["stream", "batch"], nargs="+", help="one after the other")
    parser.add_argument("--root", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--work", type=Path, required=True, help="for checkpoints and Parquet files")
    parser.add_argument("--sample", type=int, help="only the first so many flights")
    parser.add_argument("--batch-events", type=int, default=BATCH_EVENTS, help="events a micro-batch has at most")
    chosen = parser.parse_args()
    places = Places(chosen.root, chosen.key, chosen.work, chosen.batch_events)
    spark = data.session(progress=False)
    try:
        register(spark)
        sp = Speed(spark, root=chosen.root, key=chosen.key)
        if "stream" in chosen.what:
            stream(spark, sp, places)
        return batch(spark, sp, places, chosen.sample) if "batch" in chosen.what else 0
    except SpeedError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
