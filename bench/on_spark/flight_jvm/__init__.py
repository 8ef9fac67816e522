"""Arrow Flight's Java client in a plan node of its own, as ``SpeedCall`` is one: a contender of ``enrich``."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from on_spark.distance import PLACES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HERE = Path(__file__).resolve().parent
BUILT = HERE.parents[2] / "build" / "bench" / "flight_jvm"
NODE = BUILT / "flight-call.jar"
SCALA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss8m")


def jars() -> list[Path]:
    """What the driver needs on its class path, made where it is missing. Raises OSError and CalledProcessError."""
    source = HERE / "FlightCall.scala"
    if not NODE.exists() or NODE.stat().st_mtime < source.stat().st_mtime:
        _build(source)
    return [NODE, *sorted((BUILT / "lib").glob("*.jar"))]


def _build(source: Path) -> None:
    """By Maven, for the client, and by the Scala compiler that pyspark brings, for the node."""
    import pyspark

    spark = Path(pyspark.__file__).parent / "jars"
    arrow = next(spark.glob("arrow-vector-*.jar")).stem.removeprefix("arrow-vector-")
    classes = BUILT / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    pom, lib = f"{HERE}/pom.xml", f"-DoutputDirectory={BUILT}/lib"
    fetch = ["mvn", "-q", "-B", "-f", pom, f"-Darrow.version={arrow}", "dependency:copy-dependencies", lib]
    _run(fetch)
    path = f"{spark}/*:{BUILT}/lib/*"
    _run(
        [
            *SCALA,
            "-cp",
            f"{spark}/*",
            "scala.tools.nsc.Main",
            "-release",
            "17",
            "-cp",
            path,
            "-d",
            str(classes),
            str(source),
        ]
    )
    _run(["jar", "cf", str(NODE), "-C", str(classes), "."])


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def enriched(
    frame: DataFrame,
    address: str,
    command: str = "distance",
    names: Sequence[str] = PLACES,
    answer: str = "miles double",
) -> DataFrame:
    """``frame`` with the column ``answer`` that the server at ``address`` makes of the columns ``names``."""
    from pyspark.sql import DataFrame

    spark: Any = frame.sparkSession
    node = spark._jvm.org.apache.spark.sql.flightbench.Enrich()
    sent = spark._jvm.java.util.ArrayList()
    for name in names:
        sent.add(name)
    return DataFrame(node.apply(frame._jdf, address, command, sent, answer), spark)
