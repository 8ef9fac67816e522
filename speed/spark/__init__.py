"""SPEED in Spark: a node for the driver, and services for whole columns of DataFrames.

    sp = Speed(spark, root=…, key=…)                       # the service's side: node.allow("etl.*")
    kafka.select(envelope("value").alias("message"))       # what is in the messages of a column
    sp.enrich(flights, node="geo", service="distance", columns=["lat1", "lon1", "lat2", "lon2"], returns="miles double")

Importing this imports no pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from speed.spark.functions import envelope
    from speed.spark.nodes import MAX_NAME_BYTES, CallSettings, NodeSettings, driver_node, node_name
    from speed.spark.session import Speed

__all__ = [
    "MAX_NAME_BYTES",
    "CallSettings",
    "NodeSettings",
    "Speed",
    "driver_node",
    "envelope",
    "node_name",
    "register",
]

_LATER = {
    "MAX_NAME_BYTES": "speed.spark.nodes",
    "driver_node": "speed.spark.nodes",
    "node_name": "speed.spark.nodes",
    "envelope": "speed.spark.functions",
    "Speed": "speed.spark.session",
    "CallSettings": "speed.spark.nodes",
    "NodeSettings": "speed.spark.nodes",
}
"""Imported when first used: a worker needs nothing of the driver's side."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _LATER:
        raise AttributeError(f"module 'speed.spark' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def register(spark: SparkSession) -> None:
    """Make the format ``speed`` known to a session, for ``read``, ``readStream``, ``write`` and ``writeStream``."""
    from speed.spark.source.format import SpeedDataSource  # it needs pyspark

    spark.dataSource.register(SpeedDataSource)
