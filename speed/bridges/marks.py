"""How far a group has come in one run of offsets: below the mark all is acknowledged. Pure."""

from __future__ import annotations

from heapq import heappop, heappush


class Marks:
    """Offsets that were delivered, in their order, and acknowledged in any. For one thread at a time."""

    def __init__(self) -> None:
        self._held: list[int] = []
        """A heap: all that were delivered and lie at or above the mark."""
        self._done: set[int] = set()
        self._next = 0

    def deliver(self, offset: int) -> None:
        """It was handed out."""
        heappush(self._held, offset)
        self._next = offset + 1

    def acknowledge(self, offset: int) -> None:
        """It is done; what was not delivered here is left alone."""
        if self._held and self._held[0] <= offset < self._next:
            self._done.add(offset)

    def mark(self) -> int:
        """The lowest offset that is not acknowledged."""
        while self._held and self._held[0] in self._done:
            self._done.discard(heappop(self._held))
        return self._held[0] if self._held else self._next


__all__ = ["Marks"]
