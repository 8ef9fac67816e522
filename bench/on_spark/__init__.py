"""What ``bench/spark.py`` measures: services on columns, streams, workers over time."""
