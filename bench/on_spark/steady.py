"""Workers over time: how soon the first result comes, and whether their memory grows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from on_spark import session
from on_spark.distance import PLACES, in_process
from on_spark.enrich import _schema
from speed.spark import Speed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROUNDS, QUICK_ROUNDS = 15, 5
SAMPLE_SECONDS = 2.0
"""Of the memory."""


def first_result(spark: SparkSession, work: Path, quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Milliseconds from asking until a first batch is there: of new workers, without a node, and of the same again.

    The workers are new processes that have run a job without SPEED: the session is warm, SPEED is not.
    """
    frame = spark.range(1000).selectExpr("40D AS lat1", "-73D AS lon1", "id % 90 AS lat2", "0D AS lon2")
    frame = session.cached(frame.selectExpr("lat1", "lon1", "CAST(lat2 AS DOUBLE) AS lat2", "lon2").coalesce(1))
    times: dict[str, list[float]] = {"new worker": [], "same worker": []}
    with session.services(work, "cpp"):
        sp = Speed(spark, root=work / "root", key=work / "speed.key", name="etl.first", path="python")
        for number in range(-1, QUICK_ROUNDS if quick else ROUNDS):
            for worker in workers():
                worker.kill()
            frame.mapInArrow(in_process, _schema(frame)).collect()
            enriched = sp.enrich(frame, node="geo", service="distance", columns=PLACES, returns="miles double")
            for taken in times.values():
                began = time.perf_counter()
                enriched.collect()
                if number >= 0:
                    taken.append(1e3 * (time.perf_counter() - began))
    for name, taken in times.items():
        say(f"first result, {name}: {statistics.median(taken):.0f} ms ({min(taken):.0f} to {max(taken):.0f})")
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    return {"ms": times, "figures": {"first_ms": medians["new worker"], "next_ms": medians["same worker"]}}


def memory(spark: SparkSession, work: Path, minutes: float, say: Callable[[str], None]) -> dict[str, Any]:
    """How the memory of a worker grows while flights go through the C++ service without a pause."""
    with session.services(work, "cpp"):
        sp = Speed(spark, root=work / "root", key=work / "speed.key", name="etl.memory", path="python")
        taken, samples = _samples(sp, session.flights(spark, work), minutes)
        calls = sp.metrics["calls"]
    fifth = max(1, len(samples) // 5)
    early, late = statistics.median(samples[fifth : 2 * fifth]), statistics.median(samples[-fifth:])
    slope = statistics.linear_regression(taken[fifth:], samples[fifth:]).slope if len(samples) > fifth + 1 else 0.0
    say(
        f"memory of a worker: {early:.1f} MB early, {late:.1f} MB after {minutes:g} minutes and {calls:,} calls, "
        f"{slope:+.3f} MB a minute"
    )
    figures = {"memory_growth": late / early, "memory_mb": late, "memory_mb_a_minute": slope}
    return {"minutes": taken, "megabytes": samples, "calls": calls, "figures": figures}


def _samples(sp: Speed, flights: DataFrame, minutes: float) -> tuple[list[float], list[float]]:
    """Minutes since the beginning, and megabytes of the largest worker then."""
    taken: list[float] = []
    samples: list[float] = []
    began = time.monotonic()
    while time.monotonic() < began + 60 * minutes:
        until = time.monotonic() + SAMPLE_SECONDS
        while time.monotonic() < until:
            session.compute(sp.enrich(flights, node="geo", service="distance", columns=PLACES, returns="miles double"))
        taken.append((time.monotonic() - began) / 60)
        samples.append(max(worker.memory_info().rss for worker in workers()) / 1e6)
    return taken, samples


def workers() -> list[psutil.Process]:
    """Spark's Python workers: the children of its daemon, which is a child of the Java machine."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            parent = process.parent()
            if parent is not None and "pyspark.daemon" in parent.cmdline():
                found.append(process)
        except psutil.Error:  # it ended
            continue
    return found
