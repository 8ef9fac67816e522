"""Sequence rules of a link at its receiver (L-12, L-13): duplicates, gaps, generations."""

from __future__ import annotations

from enum import Enum

from speed.wire.envelope import counter_of, generation_of


class Arrival(Enum):
    """What a sequence means after the ones before it."""

    NEXT = "next"
    DUPLICATE = "duplicate"
    GAP = "gap"


class LinkSequence:
    """The last sequence of one link. Not thread-safe: the lane's lock guards it."""

    def __init__(self, last: int = 0) -> None:
        self.last = last

    def arrived(self, sequence: int) -> Arrival:
        """Judge ``sequence`` and remember it unless it is a duplicate."""
        last = self.last
        if sequence == last + 1:
            self.last = sequence
            return Arrival.NEXT
        if sequence <= last:
            return Arrival.DUPLICATE
        self.last = sequence
        fresh = generation_of(sequence) > generation_of(last) and counter_of(sequence) == 1
        return Arrival.NEXT if fresh else Arrival.GAP
