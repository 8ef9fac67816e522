"""What ``test_spark_connect.py`` runs: `spark_connect_job.py ROOT`. It prints one JSON object.

A process of its own, since Spark Connect and a session of the ordinary kind do not share one.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import speed
from speed.column_services import by_array, by_row
from speed.spark import Speed, driver_node, register
from tests.system.journals_for_spark import Recorded

warnings.filterwarnings("ignore", "Failed to set spark")  # settings of the server, which is not started by the session


def refusal(action: Any) -> str:
    """What an action raises."""
    try:
        action()
    except Exception as error:  # whichever it is, the test looks at it
        return f"{type(error).__name__}: {error}"
    return "nothing"


class Twice:
    """Twice the column, and who asked."""

    def __init__(self) -> None:
        self.callers: set[str] = set()
        self._service = by_array(lambda a: 2 * a)

    def invoke(self, request: Any) -> Any:
        self.callers.add(request.caller)
        return self._service.invoke(request)


def results(spark: Any, root: str) -> dict[str, Any]:
    """Of each verb one value."""
    sp = Speed(spark, root=root)
    frame = spark.range(1000).selectExpr("id AS a", "CAST(id AS STRING) AS text")
    enriched = sp.enrich(frame, node="math", service="twice", columns=["a"], returns="b long")
    mapped = sp.map(frame.select("a"), node="math", service="large", schema="a long")
    twice = sp.udf("math", "twice", "long")
    spark.udf.register("twice", sp.udf("math", "twice", "long", columns=["a"]))
    failing = sp.enrich(frame, node="math", service="number", columns=["text"], returns="n long")
    return {
        "kind": type(spark).__module__,
        "enrich": enriched.selectExpr("sum(b)").first()[0],
        "map": mapped.count(),
        "udf": frame.select(twice("a").alias("b")).selectExpr("sum(b)").first()[0],
        "sql": spark.sql("SELECT twice(21L)").first()[0],
        "error": refusal(failing.collect),
        "metrics": sp.metrics,
        "before": refusal(lambda: sp.enrich(frame, node="math", service="none", columns=["a"], returns="b long")),
        "driver_node": refusal(lambda: driver_node(spark, root=root)),
        "application": spark.conf.get("spark.app.id"),
    }


def streams(spark: Any, root: str, messages: list[speed.Message]) -> dict[str, Any]:
    """Rows written with the format ``speed``, and rows read."""
    recorded = Recorded(root)
    recorded.topic("numbers", "p", 100)
    recorded.close()
    register(spark)
    spark.range(10).write.format("speed").mode("append").options(root=root, node="math").save()
    journal = spark.read.format("speed").options(root=root).schema("topic string, n long").load()
    return {
        "written": sorted(message.payload["id"] for message in messages),
        "read": journal.where("topic = 'numbers'").selectExpr("sum(n)").first()[0],
        "unknown": refusal(lambda: spark.read.format("speed").options(rot=root).load().count()),
    }


def main(root: str) -> None:
    from pyspark.sql import SparkSession

    with speed.Node("math", root=root) as node:
        service = Twice()
        node.register("twice", service)
        node.register("large", by_array(lambda a: a[a >= 990], any_rows=True))
        node.register("number", by_row(lambda text: int(f"{text}.")))
        messages: list[speed.Message] = []
        node.on_message(messages.append)
        node.allow("etl.*")
        spark = SparkSession.builder.remote("local[2]").getOrCreate()
        try:
            found = {**results(spark, root), **streams(spark, root, messages)}
            print(json.dumps({**found, "callers": sorted(service.callers)}), flush=True)
        finally:
            spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
