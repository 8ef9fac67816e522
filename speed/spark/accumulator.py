"""How Spark adds up what the workers counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import AccumulatorParam

from speed.spark.metrics import Counts

if TYPE_CHECKING:
    Param = AccumulatorParam[Counts]
else:
    Param = AccumulatorParam


class AddCounts(Param):
    """Counts add up field by field."""

    def zero(self, value: Counts) -> Counts:
        """Nothing counted."""
        return Counts()

    def addInPlace(self, value1: Counts, value2: Counts) -> Counts:  # noqa: N802 - Spark's name
        """The sum of both."""
        return value1 + value2
