"""Sequence rules of one link on the receiving side: replay, gaps, generations (rules L-20 to L-23)."""

from __future__ import annotations

from enum import IntEnum

_COUNTER_BITS = 40
_COUNTER_MASK = (1 << _COUNTER_BITS) - 1


class Verdict(IntEnum):
    """What becomes of an authenticated envelope."""

    ACCEPT = 0
    DUPLICATE = 1
    OLD_GENERATION = 2


class LinkReceiver:
    """Remembers the last accepted sequence of one link and judges the next one.

    ``last_sequence`` is 0 as long as nothing was accepted. Not thread-safe: the owner of the lane
    reader calls it.
    """

    __slots__ = ("accepted", "duplicates", "gaps", "last_sequence", "missing", "old_generation")

    def __init__(self, last_sequence: int = 0) -> None:
        self.last_sequence = last_sequence
        self.accepted = 0
        self.duplicates = 0
        self.old_generation = 0
        self.gaps = 0
        self.missing = 0

    def judge(self, sequence: int) -> Verdict:
        """Accept a sequence above the last one; count a gap and accept it all the same.

        L-20 lower or equal: duplicate. L-21 lower generation: rejected. L-22 gap: counted, accepted.
        """
        last = self.last_sequence
        if sequence == last + 1 and last:
            self.last_sequence = sequence
            self.accepted += 1
            return Verdict.ACCEPT
        if sequence <= last:
            return self._refuse(sequence, last)
        self._count_gap(sequence, last)
        self.last_sequence = sequence
        self.accepted += 1
        return Verdict.ACCEPT

    def _refuse(self, sequence: int, last: int) -> Verdict:
        if sequence >> _COUNTER_BITS < last >> _COUNTER_BITS:
            self.old_generation += 1
            return Verdict.OLD_GENERATION
        self.duplicates += 1
        return Verdict.DUPLICATE

    def _count_gap(self, sequence: int, last: int) -> None:
        """A generation starts at counter 1, so what is missing is known within a generation only (L-23)."""
        same = sequence >> _COUNTER_BITS == last >> _COUNTER_BITS
        expected = (last & _COUNTER_MASK) + 1 if same else 1
        missing = (sequence & _COUNTER_MASK) - expected
        if missing > 0:
            self.gaps += 1
            self.missing += missing
