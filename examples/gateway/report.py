"""What was ordered how often, by Spark from the topic's files: ``python examples/gateway/report.py``."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from speed.spark import register


def main() -> int:
    """Print a line for each thing that was ordered, the favourite first."""
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    register(spark)
    orders = spark.read.format("speed").option("durableTopic", "orders").load().where("kind = 'message'")
    counts = orders.groupBy(f.decode("payload", "UTF-8").alias("what")).count()
    for row in counts.orderBy(f.desc("count"), "what").collect():
        print(row["count"], row["what"])
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
