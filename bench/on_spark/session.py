"""The Spark session of the bench and its frames: the flights with the coordinates of both ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from contenders import processes
from contenders.root import make_root

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BENCH = Path(__file__).resolve().parents[1]
SOURCES = BENCH.parent
GEO = SOURCES / "build" / "cpp" / "examples" / "speed-example-geo"
QUIET = SOURCES / "examples" / "flights" / "log4j2.properties"
START_SECONDS = 30.0
STOP_SECONDS = 10.0


def environment() -> dict[str, str]:
    """For what is measured: the project and the bench to import from; nothing of a root or key of the user."""
    path = os.pathsep.join([str(SOURCES), str(BENCH), os.environ.get("PYTHONPATH", "")])
    kept = {name: value for name, value in processes.environment().items() if name not in {"SPEED_ROOT", "SPEED_KEY"}}
    return {**kept, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


@contextmanager
def session(
    work: Path,
    memory: str = "6g",
    jars: Sequence[Path] = (),
    master: str = "local[2]",
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session without a web page, with more on its class path; it stops with the block."""
    from pyspark.sql import SparkSession

    wanted = environment()
    os.environ.clear()
    os.environ.update(wanted)  # the Java machine and the workers inherit it
    builder = SparkSession.builder.appName("bench")
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    spark = (
        builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{QUIET}")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", memory)
        .config("spark.driver.extraClassPath", os.pathsep.join(map(str, jars)))
        .config("spark.local.dir", str(work / "spark"))
        .config("spark.sql.warehouse.dir", str(work / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def services(work: Path, *names: str) -> Iterator[None]:
    """The processes that answer: ``cpp`` (node ``geo``), ``python`` (node ``geo.python``), ``grpc``, ``sink``."""
    root, key = make_root(work)
    program = [sys.executable, "-m", "on_spark.services"]
    commands = {name: [*program, name, str(work)] for name in names}
    if "cpp" in names:
        commands["cpp"] = [str(GEO), "--root", str(root), "--key", str(key), "--allow", "etl.*"]
    with ExitStack() as running:
        for name, command in commands.items():
            running.enter_context(_process(command, waits=name != "cpp"))
        yield


@contextmanager
def _process(command: list[str], waits: bool) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if waits and process.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{' '.join(command)} did not start")
        yield process
    finally:
        process.stdin.close()
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def flights(spark: SparkSession, work: Path) -> DataFrame:
    """All flights with what a report needs and both places, cached."""
    from pyspark.sql import functions as f

    from examples.flights import data

    tables = data.read(spark, work)
    ends = {
        number: tables.airports.select(
            f.col("faa").alias(end), f.col("lat").alias(f"lat{number}"), f.col("lon").alias(f"lon{number}")
        )
        for number, end in ((1, "origin"), (2, "dest"))
    }
    kept = ["time_hour", "carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "arr_delay", "distance"]
    frame = tables.flights.select(*kept)
    for number, end in ((1, "origin"), (2, "dest")):
        frame = frame.join(f.broadcast(ends[number]), end, "left")
    return cached(frame.repartition(4))


def many(frame: DataFrame, rows: int) -> DataFrame:
    """``rows`` rows made of the flights, over and over; cached."""
    from pyspark.sql import functions as f

    times = -(-rows // frame.count())
    copies = frame.sparkSession.range(times).select(f.col("id").alias("copy"))
    return cached(frame.crossJoin(f.broadcast(copies)).drop("copy").limit(rows).repartition(4))


def cached(frame: DataFrame) -> DataFrame:
    """``frame``, computed once and kept in memory."""
    frame = frame.cache()
    frame.count()
    return frame


def of_parquet(frame: DataFrame, work: Path) -> DataFrame:
    """``frame``, written to files that Spark reads as columns."""
    path = str(work / "parquet")
    frame.write.parquet(path)
    return frame.sparkSession.read.parquet(path)


def compute(frame: DataFrame) -> None:
    """Every row of every column, written nowhere."""
    frame.write.format("noop").mode("overwrite").save()


def cpu_seconds() -> float:
    """Of this process and all it started: the Java machine, Spark's workers, the services."""
    seconds = 0.0
    for process in (this := psutil.Process(), *this.children(recursive=True)):
        with suppress(psutil.Error):  # it ended
            times = process.cpu_times()
            seconds += times.user + times.system
    return seconds


def remove(work: Path) -> None:
    """What the measurement left on disk."""
    shutil.rmtree(work, ignore_errors=True)


def versions() -> dict[str, Any]:
    """What the figures depend on."""
    import numpy
    import pyarrow
    import pyspark

    return {"pyspark": pyspark.__version__, "pyarrow": pyarrow.__version__, "numpy": numpy.__version__}
