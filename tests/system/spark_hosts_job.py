"""A driver, or a client of Spark Connect, on a host: `spark_hosts_job.py MASTER ROOT CONFIG`, CONFIG as JSON.

Each line that it reads asks for something, as JSON: ``verb``, and options for ``Speed`` (``speed``) and ``enrich``. It
answers each with one line of JSON, or with the error. Without ROOT, which is an empty word then, the environment says
where the roots and keys are.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from speed.spark import Speed, driver_node, register
from tests.system.spark_sessions import Sessions

ROWS = 1000
MANY, MANY_A_BATCH = 1_000_000, 10_000
PARTITIONS = 8
_PATIENCE_SECONDS = 100


class Job:
    """One session, and what is asked of it."""

    def __init__(self, spark: Any, root: str | None) -> None:
        self._spark, self._root = spark, root

    def answer(self, line: str) -> dict[str, Any]:
        asked = json.loads(line)
        verb = getattr(self, asked["verb"])
        try:
            return dict(verb(asked["speed"], asked["enrich"]))
        except Exception as error:  # whichever it is, the test looks at it
            self._rest()
            return {"error": f"{type(error).__name__}: {error}"}

    def _rest(self) -> None:
        """Wait for the tasks that are left of a job that failed.

        Spark lets their workers go on for two seconds: what they ask of services is not the next job's.
        """
        context = getattr(self._spark, "_sc", None)  # a client of Spark Connect has none
        ends = time.monotonic() + _PATIENCE_SECONDS
        while context is not None and any(
            one.numRunningTasks() for one in context._jsc.sc().statusTracker().getExecutorInfos()
        ):
            assert time.monotonic() < ends
            time.sleep(0.05)

    def enrich(self, speed: dict[str, Any], enrich: dict[str, Any]) -> dict[str, Any]:
        """Each row with its answer and the host of its worker, and the metrics."""
        sp = Speed(self._spark, root=self._root, **speed)
        return {"rows": answered(sp, numbers(self._spark, ROWS), enrich), "metrics": sp.metrics}

    def sum(self, speed: dict[str, Any], enrich: dict[str, Any]) -> dict[str, Any]:
        """Of many rows one number."""
        self._spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(MANY_A_BATCH))
        try:
            frame = twice(Speed(self._spark, root=self._root, **speed), numbers(self._spark, MANY), enrich)
            return {"sum": frame.selectExpr("sum(b)").first()[0]}
        finally:
            self._spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")

    def nodes(self, speed: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
        """The nodes that the driver's own node sees beside itself."""
        sp = Speed(self._spark, root=self._root, **speed)
        return {"others": [entry.name for entry in sp.nodes() if entry.name != sp.node_name]}

    def stream(self, speed: dict[str, Any], enrich: dict[str, Any]) -> dict[str, Any]:
        """The rows of a stream that is enriched itself."""
        sp = Speed(self._spark, root=self._root, **speed)
        with tempfile.TemporaryDirectory() as place:
            frame = twice(sp, self._stream(place), enrich)
            ended(frame.writeStream.format("memory").queryName("streamed"), place)
            return {"rows": [[row.a, row.b, row.host] for row in self._spark.table("streamed").collect()]}

    def batches(self, speed: dict[str, Any], enrich: dict[str, Any]) -> dict[str, Any]:
        """The rows of a stream whose batches are enriched one by one."""
        sp, rows = Speed(self._spark, root=self._root, **speed), []

        def take(frame: Any, _: int) -> None:
            rows.extend(answered(sp, frame, enrich))

        with tempfile.TemporaryDirectory() as place:
            ended(self._stream(place).writeStream.foreachBatch(take), place)
        return {"rows": rows}

    def write(self, _: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        """Send the rows to the node ``geo``."""
        register(self._spark)
        writer = numbers(self._spark, ROWS).write.format("speed").mode("append")
        writer.options(root=self._root, node="geo", **options).save()
        return {}

    def driver_node(self, _: dict[str, Any], __: dict[str, Any]) -> dict[str, Any]:
        """The host whose service a node of the driver calls."""
        with driver_node(self._spark, root=self._root, name="etl.driver") as node:
            return {"host": node.call("geo", "host", {})}

    def _stream(self, place: str) -> Any:
        source = Path(place, "source")
        source.mkdir()
        for part in range(PARTITIONS):
            (source / str(part)).write_text("".join(f"{number}\n" for number in range(part, ROWS, PARTITIONS)))
        return self._spark.readStream.text(str(source)).selectExpr("CAST(value AS long) AS a")


def numbers(spark: Any, rows: int) -> Any:
    return spark.range(rows, numPartitions=PARTITIONS).selectExpr("id AS a")


def twice(sp: Speed, frame: Any, options: dict[str, Any]) -> Any:
    from pyspark.sql.functions import udf

    there = udf(socket.gethostname, "string")()
    asked = {"node": "geo", "service": "twice", **options}
    return sp.enrich(frame, columns=["a"], returns="b long", **asked).select("a", "b", there.alias("host"))


def answered(sp: Speed, frame: Any, options: dict[str, Any]) -> list[list[Any]]:
    return [[row.a, row.b, row.host] for row in twice(sp, frame, options).collect()]


def ended(writer: Any, place: str) -> None:
    """Run a query over what there is."""
    query = writer.option("checkpointLocation", f"{place}/point").trigger(availableNow=True).start()
    assert query.awaitTermination(_PATIENCE_SECONDS)


def main(master: str, root: str, config: str) -> None:
    from pyspark.sql import SparkSession

    if master.startswith("sc://"):
        spark: Any = SparkSession.builder.remote(master).getOrCreate()
    else:
        spark = Sessions().get(master, json.loads(config))
    try:
        job = Job(spark, root or None)
        for line in sys.stdin:
            print(json.dumps(job.answer(line)), flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
