"""What the workers count; the driver adds it up."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

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

    def add(self, rows: int, size: int, seconds: float) -> None:
        """One batch that was answered."""
        self.rows += rows
        self.bytes += size
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
        return {
            **self._numbers(),
            "p50_seconds": self.percentile_seconds(50),
            "p99_seconds": self.percentile_seconds(99),
        }

    def payload(self) -> dict[str, Any]:
        """The counts as a message carries them."""
        return {**self._numbers(), "latency": {str(step): count for step, count in self.latency.items()}}

    @classmethod
    def of_payload(cls, payload: Mapping[str, Any]) -> Counts:
        """The counts of a message. Raises KeyError, TypeError or ValueError for anything else."""
        numbers = {one.name: int(payload[one.name]) for one in fields(cls) if one.name != "latency"}
        return cls(**numbers, latency=Counter({int(step): int(count) for step, count in payload["latency"].items()}))

    def _numbers(self) -> dict[str, int]:
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "latency"}


class Reports:
    """The counts that came as messages: of tasks that failed, whose accumulators Spark drops, and of all tasks where
    there are no accumulators. The topic of a message tells whose they are. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, Counts] = {}

    def take(self, message: Any) -> None:
        """Handle one message; what no worker of this package sent is left alone."""
        try:
            counts = Counts.of_payload(message.payload)
        except (AttributeError, KeyError, TypeError, ValueError):
            return
        with self._lock:
            self._counts[message.topic] = self.of(message.topic) + counts

    def of(self, topic: str) -> Counts:
        """The sum of what came under ``topic``."""
        return self._counts.get(topic, Counts())
