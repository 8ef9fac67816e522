"""A driver that `spark-submit` starts where YARN has room: `spark_yarn_job.py ASKED ANSWERS`, which are named pipes.

It answers as `spark_hosts_job.py` does; roots, keys and all that Spark needs come from the environment and from the
words of `spark-submit`.
"""

from __future__ import annotations

import json
import sys

from tests.system.spark_hosts_job import Job


def main(asked: str, answers: str) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    try:
        job = Job(spark, None)
        with open(asked) as lines, open(answers, "w") as file:
            for line in lines:
                print(json.dumps(job.answer(line)), file=file, flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
