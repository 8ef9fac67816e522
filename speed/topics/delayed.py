"""Messages that wait for their time (D-10): found by it, whatever their number, and known by their keys."""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush


class Delayed:
    """A set of offsets, each with a time in milliseconds and the hash of its key, 0 for none. Not thread-safe."""

    def __init__(self) -> None:
        self._due: dict[int, int] = {}
        self._keys: dict[int, int] = {}
        self._by_time: list[tuple[int, int]] = []
        """A heap of time and offset; what was removed is passed when its time comes."""
        self._of_key: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._due)

    def add(self, offset: int, due_ms: int, key: int) -> None:
        """One that is not in it."""
        self._due[offset] = due_ms
        heappush(self._by_time, (due_ms, offset))
        if key:
            self._keys[offset] = key
            insort(self._of_key.setdefault(key, []), offset)

    def remove(self, offset: int) -> bool:
        """Whether it was in it."""
        if self._due.pop(offset, None) is None:
            return False
        if key := self._keys.pop(offset, 0):
            of_key = self._of_key[key]
            del of_key[bisect_left(of_key, offset)]
            if not of_key:
                del self._of_key[key]
        return True

    def due(self, now_ms: int) -> list[int]:
        """Take out those whose time has come."""
        found = []
        while (first := self.first_ms()) is not None and first <= now_ms:
            _, offset = heappop(self._by_time)
            self.remove(offset)
            found.append(offset)
        return found

    def first_ms(self) -> int | None:
        """When the next one is due; None if there is none."""
        while self._by_time and self._due.get(self._by_time[0][1]) != self._by_time[0][0]:
            heappop(self._by_time)
        return self._by_time[0][0] if self._by_time else None

    def is_before(self, key: int, offset: int) -> bool:
        """Whether one of this key is in it that comes before ``offset``."""
        of_key = self._of_key.get(key)
        return of_key is not None and of_key[0] < offset
