"""What may be sent on a stream, what arrives in order, and how often progress is told (S-29, S-33, S-32)."""

from __future__ import annotations

from enum import Enum

from speed.errors import ConfigurationError
from speed.wire.limits import PROGRESS_SECONDS, STREAM_BYTES, STREAM_ITEMS


class StreamCredit:
    """What the sender of items may send. Not locked itself."""

    __slots__ = ("granted_bytes", "granted_items", "sent_bytes", "sent_items")

    def __init__(self, items: int = 0, size: int = 0) -> None:
        self.granted_items, self.granted_bytes = items, size
        self.sent_items = self.sent_bytes = 0

    def grant(self, items: int, size: int) -> None:
        """What was granted in all; totals only grow, so that a repeated one changes nothing."""
        self.granted_items = max(self.granted_items, items)
        self.granted_bytes = max(self.granted_bytes, size)

    @property
    def covers_one(self) -> bool:
        """Whether one more item may go, whatever its size."""
        return self.sent_items < self.granted_items and self.sent_bytes < self.granted_bytes

    def send(self, size: int) -> bool:
        """Count an item of ``size`` bytes as sent; False, and nothing counted, without credit."""
        if not self.covers_one:
            return False
        self.sent_items += 1
        self.sent_bytes += size
        return True


class Arrived(Enum):
    """What an envelope of items is to its reader."""

    NEXT = "next"
    AGAIN = "again"
    """All of it had arrived: it is dropped."""
    OUT_OF_ORDER = "out of order"
    BEYOND_CREDIT = "beyond credit"


class StreamWindow:
    """What the reader of items has granted, and what it gives when they were processed. Not locked itself."""

    __slots__ = ("arrived_bytes", "arrived_items", "bytes", "granted_bytes", "granted_items", "items", "processed")

    def __init__(self, items: int = STREAM_ITEMS, size: int = STREAM_BYTES, *, is_open: bool = True) -> None:
        """One that is not ``is_open`` has granted nothing yet."""
        self.items, self.bytes = items, size
        self.granted_items, self.granted_bytes = (items, size) if is_open else (0, 0)
        self.arrived_items = self.arrived_bytes = 0
        self.processed = (0, 0)

    def open(self) -> tuple[int, int]:
        """The first credit, of one that had granted nothing."""
        self.granted_items, self.granted_bytes = self.items, self.bytes
        return self.granted_items, self.granted_bytes

    def arrive(self, number: int, items: int, size: int) -> Arrived:
        """Judge an envelope with ``items`` of ``size`` bytes together, before which ``number`` went."""
        if number + items <= self.arrived_items and items:
            return Arrived.AGAIN
        if number != self.arrived_items:
            return Arrived.OUT_OF_ORDER
        is_beyond = self.arrived_items + items > self.granted_items or self.arrived_bytes >= self.granted_bytes
        if items and is_beyond:
            return Arrived.BEYOND_CREDIT
        self.arrived_items += items
        self.arrived_bytes += size
        return Arrived.NEXT

    def process(self, items: int, size: int) -> tuple[int, int] | None:
        """Count what was processed; the totals to grant now, if half of the window was."""
        done_items, done_bytes = self.processed = (self.processed[0] + items, self.processed[1] + size)
        left_items, left_bytes = self.granted_items - done_items, self.granted_bytes - done_bytes
        if left_items * 2 > self.items and left_bytes * 2 > self.bytes:
            return None
        self.granted_items = max(self.granted_items, done_items + self.items)
        self.granted_bytes = max(self.granted_bytes, done_bytes + self.bytes)
        return self.granted_items, self.granted_bytes


def check_needless(target: str, is_needed: bool) -> None:
    """ConfigurationError if a node that knows no streams is asked for one that ``is_needed``."""
    if is_needed:
        raise ConfigurationError(
            f"{target!r} runs a version that knows no streams: call services of it that return lists"
        )


class ProgressRate:
    """Whether a report of progress is written: seldom enough to cost nothing. Not locked itself."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 0.0

    def takes(self, done: float, total: float | None, now: float) -> bool:
        """``now`` in monotonic seconds."""
        if now < self._next and done != total:
            return False
        self._next = now + PROGRESS_SECONDS
        return True
