"""What ``test_spark_workers.py`` runs: `spark_workers_job.py ROOT`. It prints what an enriched frame holds, or why not.

A process of its own: what Python its workers are is settled before Spark starts.
"""

from __future__ import annotations

import sys

import speed
from speed.column_services import by_row
from speed.spark import Speed


def twice(amount: int) -> int:
    return 2 * amount


def main(root: str) -> None:
    from pyspark.sql import SparkSession

    with speed.Node("math", root=root, allow=["etl.*"]) as math:
        math.register("twice", by_row(twice))
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        try:
            sp = Speed(spark, root=root, path="python")
            asked = sp.enrich(spark.range(3), node="math", service="twice", columns={"amount": "id"}, returns="b long")
            print([row.b for row in asked.collect()], "pandas" in sys.modules)
        except Exception as error:  # the test looks at it
            print(error)
        spark.stop()


main(sys.argv[1])
