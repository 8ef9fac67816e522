"""Executors that call services themselves: how soon the first batch comes, and what memory calls take over many rows.

Each executor is a process of its own, of two cores, whose heap is all there from the start: what its memory grows by
lies beside the heap.
"""

from __future__ import annotations

import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from on_spark import session
from on_spark.distance import PLACES
from speed.spark import Speed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = 2
ROWS, QUICK_ROWS, MANY_ROWS = 20_000_000, 4_000_000, 100_000_000
TENTHS = 10
FIRSTS, QUICK_FIRSTS = 5, 3
SAMPLE_SECONDS = 3.0
HEAP_MEGABYTES = 1024
_HEAP = f"-Xms{HEAP_MEGABYTES}m -XX:+AlwaysPreTouch"
_COUNTED = "-XX:NativeMemoryTracking=summary"


def measure(work: Path, quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Milliseconds of first batches in fresh executors; megabytes that calls take beside none."""
    firsts = [_first(work / f"first{number}") for number in range(QUICK_FIRSTS if quick else FIRSTS)]
    say(f"first batch of a fresh executor: {statistics.median(firsts):.0f} ms ({min(firsts):.0f} to {max(firsts):.0f})")
    rows = QUICK_ROWS if quick else ROWS
    with _executor(work / "memory") as spark, session.services(work / "memory", "cpp"):
        sp = _speed(spark, work / "memory")
        frame = places(spark, rows)
        without = _watched(spark, lambda: _total(frame.selectExpr("*", "lat1 + lat2 AS miles")))
        calling = _watched(spark, lambda: _total(enriched(sp, frame)))
    live, beside = (
        statistics.median(of(one) for one in calling) - statistics.median(of(one) for one in without)
        for of in (lambda one: one.live, lambda one: one.resident)
    )
    say(f"{rows:,} rows: calls take {live:.0f} MB of the executor's heap and {beside:.0f} MB beside it")
    figures = {"executor_first_ms": statistics.median(firsts), "executor_mb_a_core": (live + beside) / CORES}
    return {"ms": firsts, "rows": rows, "megabytes": [vars(one) for one in calling], "figures": figures}


def flat(work: Path, quick: bool, say: Callable[[str], None], rows: int | None = None) -> dict[str, Any]:
    """What an executor holds at every tenth of many rows, which one job sends through a service."""
    rows = rows or (QUICK_ROWS if quick else MANY_ROWS)
    with _executor(work / "flat", _COUNTED) as spark, session.services(work / "flat", "cpp"):
        sp = _speed(spark, work / "flat")
        looks = _watched(spark, lambda: _total(enriched(sp, places(spark, rows))))
    tenths = [[one for one in looks if one.tenth == tenth] for tenth in range(TENTHS)]
    for tenth, some in enumerate(tenths):
        if some:
            heap, beside, buffers = (
                statistics.median(of(one) for one in some)
                for of in (lambda one: one.live, lambda one: one.resident, lambda one: one.buffers)
            )
            say(
                f"{rows * (tenth + 1) // TENTHS:,} rows: {heap:.0f} MB live in the heap, {beside:.0f} MB resident "
                f"beside the heap, {buffers:.0f} MB of them buffers"
            )
    totals = [statistics.median(one.live + one.resident for one in some) for some in tenths if some]
    return {
        "rows": rows,
        "megabytes": [vars(one) for one in looks],
        "figures": {"executor_growth": totals[-1] / totals[min(1, len(totals) - 1)]},
    }


def _total(frame: DataFrame) -> None:
    """Runs it, and keeps one row of it."""
    frame.selectExpr("sum(miles)").collect()


def _executor(work: Path, *options: str) -> Any:
    """A session with one executor, whose JVM has these options."""
    work.mkdir()
    settings = {"spark.executor.extraJavaOptions": " ".join([_HEAP, *options])}
    return session.session(work, "2g", master=f"local-cluster[1,{CORES},{HEAP_MEGABYTES}]", settings=settings)


def _speed(spark: SparkSession, work: Path) -> Speed:
    """Behind a job without SPEED."""
    spark.range(1000).repartition(CORES).selectExpr("sum(id)").collect()
    return Speed(spark, root=work / "root", key=work / "speed.key", path="jvm")


def places(spark: SparkSession, rows: int) -> DataFrame:
    """Pairs of places, made row by row."""
    made = spark.range(0, rows, 1, 2 * CORES * TENTHS)
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
    """Megabytes of an executor: what lives in its heap, what it has beside the heap, and its buffers of that."""

    def __init__(self, process: psutil.Process, tenth: int) -> None:
        self.tenth = tenth
        total = next(line for line in reversed(_told(process, "GC.class_histogram")) if line.startswith("Total"))
        self.live = int(total.split()[2]) / 1e6
        self.resident = process.memory_info().rss / 1e6 - HEAP_MEGABYTES * 1.048576
        other = [line for line in _told(process, "VM.native_memory", "summary") if " Other (" in line]
        self.buffers = int(other[0].split("committed=")[1].split("KB")[0]) / 1e3 if other else 0.0


def _told(process: psutil.Process, *command: str) -> list[str]:
    asked = ["jcmd", str(process.pid), *command]
    return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


def _watched(spark: SparkSession, run: Callable[[], None]) -> list[Look]:
    """Looks at the executor while this runs, each with the tenth of the tasks that are under way."""
    process, looks, done = executor(), [], threading.Event()

    def look() -> None:
        while not done.wait(SAMPLE_SECONDS):
            looks.append(Look(process, _tenth(spark)))

    watch = threading.Thread(target=look, name="bench-memory")
    watch.start()
    try:
        run()
    finally:
        done.set()
        watch.join()
    return looks or [Look(process, 0)]


def _tenth(spark: SparkSession) -> int:
    """Of the tasks of the stage that runs."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    done = max((TENTHS * one.numCompletedTasks // one.numTasks for one in stages if one), default=TENTHS - 1)
    return min(done, TENTHS - 1)


def executor() -> psutil.Process:
    """The process of the one executor."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it ended
            if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in process.cmdline():
                return process
    raise RuntimeError("no executor runs")
