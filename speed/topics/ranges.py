"""What of a topic is acknowledged: everything below an offset, and ranges above it (D-7)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable


class Ranges:
    """A set of offsets that contains all below ``low``. Not thread-safe."""

    def __init__(self, low: int = 0, ranges: Iterable[tuple[int, int]] = ()) -> None:
        """``ranges`` are pairs of first offset and end, in any order."""
        self.low = low
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in ranges:
            self.add(start, end)

    def add(self, start: int, end: int) -> None:
        """Add ``start <= offset < end``."""
        start = max(start, self.low)
        if start >= end:
            return
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [start], [end]
        if start <= self.low:
            self.low = self._ends.pop(0)
            self._starts.pop(0)

    def __contains__(self, offset: int) -> bool:
        place = bisect_right(self._starts, offset) - 1
        return offset < self.low or (place >= 0 and offset < self._ends[place])

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Those above ``low``, in order; they neither overlap nor touch."""
        return list(zip(self._starts, self._ends, strict=True))
