"""What a gateway counts; for one thread."""

from __future__ import annotations

from collections import Counter


class Counters:
    """Counters that only grow, and what is there now."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, name: str, amount: int = 1) -> None:
        self._counts[name] += amount

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def text(self, **now: int) -> str:
        """All of them, and ``now``, as Prometheus reads them."""
        lines = [f"speed_{name}_total {value}" for name, value in sorted(self._counts.items())]
        lines += [f"speed_gateway_{name} {value}" for name, value in now.items()]
        return "\n".join([*lines, ""])
