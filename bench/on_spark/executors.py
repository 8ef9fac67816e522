"""Executors that call services themselves: how soon the first batch comes, and what memory calls take.

Each executor is a process of its own, of two cores, whose heap is all there from the start: what its memory grows by
lies beside the heap.
"""

from __future__ import annotations

import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from on_spark import session
from on_spark.distance import PLACES
from speed.spark import Speed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = 2
ROWS, QUICK_ROWS = 100_000_000, 4_000_000
FIRSTS, QUICK_FIRSTS = 5, 3
SAMPLE_SECONDS = 3.0
HEAP_MEGABYTES = 1024
_SETTINGS = {"spark.executor.extraJavaOptions": f"-Xms{HEAP_MEGABYTES}m -XX:+AlwaysPreTouch"}


def measure(work: Path, quick: bool, say: Callable[[str], None], rows: int | None = None) -> dict[str, Any]:
    """Milliseconds of first batches in fresh executors; megabytes of calls, and how they grow over many rows."""
    firsts = [_first(work / f"first{number}") for number in range(QUICK_FIRSTS if quick else FIRSTS)]
    say(f"first batch of a fresh executor: {statistics.median(firsts):.0f} ms ({min(firsts):.0f} to {max(firsts):.0f})")
    rows = rows or (QUICK_ROWS if quick else ROWS)
    with _executor(work / "memory") as spark, session.services(work / "memory", "cpp"):
        sp = _speed(spark, work / "memory")
        frame = places(spark, rows)
        without = _watched(lambda: session.compute(frame.selectExpr("*", "lat1 + lat2 AS miles")))
        calling = _watched(lambda: session.compute(enriched(sp, frame)))
    live = statistics.median(one.live for one in calling) - statistics.median(one.live for one in without)
    beside = statistics.median(one.resident for one in calling) - statistics.median(one.resident for one in without)
    fifth = max(1, len(calling) // 5)
    early, late = (
        statistics.median(one.live + one.resident for one in some)
        for some in (calling[fifth : 2 * fifth] or calling, calling[-fifth:])
    )
    say(
        f"{rows:,} rows: calls take {live:.0f} MB of the executor's heap and {beside:.0f} MB beside it; "
        f"heap and all else {early:.0f} MB early, {late:.0f} MB late ({len(calling)} looks)"
    )
    figures = {
        "executor_first_ms": statistics.median(firsts),
        "executor_mb_a_core": (live + beside) / CORES,
        "executor_growth": late / early,
    }
    return {"ms": firsts, "rows": rows, "megabytes": [vars(one) for one in calling], "figures": figures}


def _executor(work: Path) -> Any:
    """A session with one executor, which has run a job without SPEED."""
    work.mkdir()
    return session.session(work, "2g", master=f"local-cluster[1,{CORES},{HEAP_MEGABYTES}]", settings=_SETTINGS)


def _speed(spark: SparkSession, work: Path) -> Speed:
    spark.range(1000).repartition(CORES).selectExpr("sum(id)").collect()
    return Speed(spark, root=work / "root", key=work / "speed.key", path="jvm")


def places(spark: SparkSession, rows: int) -> DataFrame:
    """Pairs of places, made row by row."""
    made = spark.range(0, rows, 1, 4 * CORES)
    return made.selectExpr(
        "id % 90 / 1D AS lat1", "id % 180 / 1D AS lon1", "id % 89 / 1D AS lat2", "id % 179 / 1D AS lon2"
    )


def enriched(sp: Speed, frame: DataFrame) -> DataFrame:
    """With what the service in C++ answers."""
    return sp.enrich(frame, node="geo", service="distance", columns=PLACES, returns="miles double")


def _first(work: Path) -> float:
    with _executor(work) as spark, session.services(work, "cpp"):
        sp = _speed(spark, work)
        frame = enriched(sp, places(spark, 1000).coalesce(1))
        spark.range(10).selectExpr("id / 2D").coalesce(1).collect()
        began = time.perf_counter()
        frame.collect()
        return 1e3 * (time.perf_counter() - began)


class Look:
    """Megabytes of an executor: what lives in its heap, and what it has beside the heap."""

    def __init__(self, process: psutil.Process) -> None:
        told = subprocess.run(
            ["jcmd", str(process.pid), "GC.class_histogram"], capture_output=True, text=True, check=True, timeout=60
        )
        total = next(line for line in reversed(told.stdout.splitlines()) if line.startswith("Total"))
        self.live = int(total.split()[2]) / 1e6
        self.resident = process.memory_info().rss / 1e6 - HEAP_MEGABYTES * 1.048576


def _watched(run: Callable[[], None]) -> list[Look]:
    """Looks at the executor while this runs."""
    process, looks, done = executor(), [], threading.Event()

    def look() -> None:
        while not done.wait(SAMPLE_SECONDS):
            looks.append(Look(process))

    watch = threading.Thread(target=look, name="bench-memory")
    watch.start()
    try:
        run()
    finally:
        done.set()
        watch.join()
    return looks or [Look(process)]


def executor() -> psutil.Process:
    """The process of the one executor."""
    for process in psutil.Process().children(recursive=True):
        if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in process.cmdline():
            return process
    raise RuntimeError("no executor runs")
