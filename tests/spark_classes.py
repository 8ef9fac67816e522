"""The classes that a Spark session loads, archived once: its JVM then starts in half the time.

``python -m tests.spark_classes`` makes the archive, once for each version of Spark. Tests start dozens of sessions.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import MutableMapping
from importlib.metadata import version
from pathlib import Path

BUILD = Path(__file__).resolve().parents[1] / "build"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Jobs of seconds, on few cores: to compile well does not pay."""
PATIENCE_SECONDS = 280.0
SESSION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.range(1000).mapInArrow(lambda batches: batches, "id long").selectExpr("sum(id) as all")
assert rows.collect()[0]["all"] == 499500
spark.stop()
"""


def archive() -> Path:
    """Where the archive is, or would be."""
    return BUILD / f"spark-{version('pyspark')}.jsa"


def options() -> str:
    """What a JVM of Spark is started with: the archive, if it was made."""
    # Another Java or class path cannot use it, and would say so in the output of a test.
    kept = f" -XX:SharedArchiveFile={archive()} -Xshare:auto -Xlog:disable" if archive().exists() else ""
    return QUICK + kept


def use(environment: MutableMapping[str, str]) -> None:
    """Sessions that are started with ``environment`` begin with the archive, if it was made."""
    if archive().exists():
        environment["SPARK_SUBMIT_OPTS"] = options()


def make() -> None:
    """Make the archive unless it is there."""
    if archive().exists():
        return
    BUILD.mkdir(exist_ok=True)
    new = archive().with_suffix(f".{os.getpid()}")
    options = {
        "SPARK_SUBMIT_OPTS": f"{QUICK} -XX:ArchiveClassesAtExit={new} -Xlog:disable",
        "PYSPARK_PYTHON": sys.executable,
    }
    words = [sys.executable, "-c", SESSION]
    # Its JVM writes the archive after Python ended, and closes the pipe when it is there.
    done = subprocess.run(
        words,
        check=False,
        env={**os.environ, **options},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE_SECONDS,
        text=True,
    )
    if not new.exists():
        sys.exit(f"no archive was made (exit status {done.returncode}):\n{done.stdout}")
    new.rename(archive())


if __name__ == "__main__":
    make()
