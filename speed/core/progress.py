"""Which envelopes of a lane are dispatched and which finished, as the cursor records it (L-14, L-15).

The cursor's position is the end of the last finished envelope, with the unfinished ones before it listed,
so that one slow request neither blocks the lane nor makes a crash repeat what was finished after it.
"""

from __future__ import annotations

from typing import NamedTuple

from speed.wire.cursor import Unfinished
from speed.wire.limits import MAX_UNFINISHED


class Position(NamedTuple):
    """A place in a lane, ordered: sender generation, segment, byte offset."""

    generation: int
    segment: int
    offset: int


class Committed(NamedTuple):
    """What a cursor says of a lane."""

    position: Position
    last_sequence: int
    unfinished: tuple[Unfinished, ...]


class Progress:
    """Dispatched and finished envelopes of one lane. Not thread-safe: the lane's lock guards it."""

    def __init__(self, position: Position, last_sequence: int) -> None:
        self._end = position
        self._end_sequence = last_sequence
        self._open: dict[int, tuple[Position, Position]] = {}
        self._finished_end = position
        self._finished_sequence = last_sequence

    def __len__(self) -> int:
        return len(self._open)

    def dispatched(self, sequence: int, start: Position, end: Position) -> None:
        """Note an envelope that was handed on; a redelivered one may lie before the position."""
        self._open[sequence] = (start, end)
        if end > self._end:
            self._end, self._end_sequence = end, sequence

    def skipped(self, end: Position) -> None:
        """Note that nothing up to ``end`` is to be read any more."""
        self._end = max(self._end, end)

    def finished(self, sequence: int) -> None:
        """Note that a dispatched envelope is done; unknown sequences are ignored."""
        span = self._open.pop(sequence, None)
        if span is not None and span[1] > self._finished_end:
            self._finished_end, self._finished_sequence = span[1], sequence

    def committed(self) -> Committed:
        """What to write into the cursor now."""
        if not self._open:
            return Committed(self._end, self._end_sequence, ())
        unfinished: list[Unfinished] = []
        for sequence, (start, _) in self._open.items():
            if start >= self._finished_end:
                break
            if len(unfinished) == MAX_UNFINISHED:
                return Committed(start, sequence - 1, tuple(unfinished))
            unfinished.append(Unfinished(sequence, start.segment, start.generation, start.offset))
        if unfinished:
            return Committed(self._finished_end, self._finished_sequence, tuple(unfinished))
        sequence, (start, _) = next(iter(self._open.items()))
        return Committed(start, sequence - 1, ())

    def oldest_needed(self) -> tuple[int, int]:
        """(generation, segment) before which no file is needed any more."""
        oldest = min((start for start, _ in self._open.values()), default=self._end)
        return oldest.generation, oldest.segment
