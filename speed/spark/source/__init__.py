"""The format ``speed`` of Spark: journals as DataFrames and streams, rows as messages and events.

``speed.spark.register(spark)`` makes it known; ``format`` is what Spark sees, the other modules are its parts.
"""
