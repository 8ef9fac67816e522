"""By this package's name Spark finds the format ``speed`` itself (it looks for ``pyspark_*`` with a DefaultSource)."""

from speed.spark.source.format import SpeedDataSource as DefaultSource

__all__ = ["DefaultSource"]
