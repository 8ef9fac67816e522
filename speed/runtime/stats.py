"""Counters of one node, as `speed stats` and DISCOVERY STATS report them (rule S-14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from speed.runtime import locks


@dataclass(slots=True)
class ServiceStats:
    """What one service did since it was registered; times in seconds."""

    requests: int = 0
    errors: int = 0
    last_error: str = ""
    processing_seconds: float = 0.0

    def as_map(self) -> dict[str, Any]:
        average = self.processing_seconds / self.requests if self.requests else 0.0
        return {
            "numRequests": self.requests,
            "numErrors": self.errors,
            "lastError": self.last_error,
            "processingSeconds": self.processing_seconds,
            "averageSeconds": average,
        }


class Stats:
    """Thread-safe counters; a name that was never counted reads as zero."""

    def __init__(self) -> None:
        self.lock = locks.lock("stats")
        self._counts: dict[str, int] = {}
        self._services: dict[str, ServiceStats] = {}

    def count(self, name: str, amount: int = 1) -> None:
        with self.lock:
            self._counts[name] = self._counts.get(name, 0) + amount

    def served(self, service: str, seconds: float, error: str = "") -> None:
        """Record one answered request; ``error`` is its code and text, empty on success."""
        with self.lock:
            stats = self._services.get(service) or self._services.setdefault(service, ServiceStats())
            stats.requests += 1
            stats.processing_seconds += seconds
            if error:
                stats.errors += 1
                stats.last_error = error

    def value(self, name: str) -> int:
        with self.lock:
            return self._counts.get(name, 0)

    def snapshot(self) -> dict[str, Any]:
        with self.lock:
            return {
                "counters": dict(sorted(self._counts.items())),
                "services": {name: stats.as_map() for name, stats in sorted(self._services.items())},
            }
