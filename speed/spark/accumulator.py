"""How Spark adds up what the workers counted."""

from __future__ import annotations

from pyspark import AccumulatorParam

from speed.spark.metrics import Counts


class AddCounts(AccumulatorParam):  # type: ignore[type-arg, misc, unused-ignore]
    """Counts add up field by field."""

    def zero(self, value: Counts) -> Counts:
        """Nothing counted."""
        return Counts()

    def addInPlace(self, value1: Counts, value2: Counts) -> Counts:  # noqa: N802 - Spark's name
        """The sum of both."""
        return value1 + value2
