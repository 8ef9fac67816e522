"""What the workers count, added up on the driver by a Spark accumulator."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_STEPS_PER_DOUBLING = 8


@dataclass
class Counts:
    """Calls, rows, bytes and times of batches. ``latency`` counts calls by logarithmic step, 9 % each."""

    calls: int = 0
    rows: int = 0
    bytes: int = 0
    retries: int = 0
    failed_rows: int = 0
    latency: Counter[int] = field(default_factory=Counter)

    def add(self, rows: pa.RecordBatch, seconds: float) -> None:
        """One batch that was answered."""
        self.rows += rows.num_rows
        self.bytes += rows.nbytes
        self.latency[math.ceil(math.log2(max(seconds, 1e-9)) * _STEPS_PER_DOUBLING)] += 1

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)})

    def percentile_seconds(self, percent: float) -> float:
        """The time within which so many percent of the answered calls ended, to 9 %; NaN without a call."""
        wanted = percent / 100 * self.latency.total()
        seen = 0
        for step in sorted(self.latency):
            seen += self.latency[step]
            if seen >= wanted:
                return float(2 ** (step / _STEPS_PER_DOUBLING))
        return math.nan

    def summary(self) -> dict[str, Any]:
        """The figures by name; times in seconds."""
        plain = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "latency"}
        return {**plain, "p50_seconds": self.percentile_seconds(50), "p99_seconds": self.percentile_seconds(99)}
