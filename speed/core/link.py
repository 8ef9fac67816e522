"""Sequence rules of one link on the receiving side: replay, gaps, generations (L-12, L-13)."""

from __future__ import annotations

from enum import IntEnum

from speed.wire.envelope import counter_of, generation_of


class SequenceVerdict(IntEnum):
    """What becomes of an authenticated envelope; the first two are accepted."""

    NEXT = 0
    GAP = 1
    DUPLICATE = 2
    OLD_GENERATION = 3


COUNTED_AS = {
    SequenceVerdict.GAP: "gaps",
    SequenceVerdict.DUPLICATE: "duplicates",
    SequenceVerdict.OLD_GENERATION: "rejected_old_generation",
}
"""The counter of each verdict but the usual one."""


class LinkReceiver:
    """Remembers the last accepted sequence of one link and judges the next one.

    ``last_sequence`` is 0 as long as nothing was accepted. Not thread-safe: the lane's lock guards it.
    """

    __slots__ = ("last_sequence",)

    def __init__(self, last_sequence: int = 0) -> None:
        self.last_sequence = last_sequence

    def judge(self, sequence: int) -> SequenceVerdict:
        """Say what a sequence means after the ones before it, and remember it if it is accepted.

        L-12: not above the last one is a duplicate; a gap is counted and accepted. L-13: an older
        generation than the newest known is rejected.
        """
        last = self.last_sequence
        if sequence == last + 1:
            self.last_sequence = sequence
            return SequenceVerdict.NEXT
        if sequence <= last:
            older = generation_of(sequence) < generation_of(last)
            return SequenceVerdict.OLD_GENERATION if older else SequenceVerdict.DUPLICATE
        self.last_sequence = sequence
        # Each generation starts at 1; what an older one wrote last cannot be known.
        begins = generation_of(sequence) > generation_of(last) and counter_of(sequence) == 1
        return SequenceVerdict.NEXT if begins else SequenceVerdict.GAP
