"""One short Spark application: ``python -m tests.torture.application ROOT SERVICE``.

Its workers call the service on 2,000 rows in four partitions. Prints the sum, and the seconds from the first call to
the last answer.
"""

from __future__ import annotations

import sys
import time

from pyspark.sql import SparkSession

from speed.spark import Speed


def main(root: str, service: str) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.memory", "512m").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    began = time.monotonic()
    rows = spark.range(0, 2000, numPartitions=4).selectExpr("CAST(id AS double) a", "1D b")
    sums = Speed(spark, root=root).enrich(rows, node=service, service="plus", columns=["a", "b"], returns="sum double")
    total = sums.agg({"sum": "sum"}).first()
    print(total and total[0], f"{time.monotonic() - began:.3f}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
