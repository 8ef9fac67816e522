"""What a lane tells its sender of a request whose receiver is gone, or was replaced (S-21, steps 2 and 3)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple

from speed.wire.cursor import Cursor
from speed.wire.limits import MAX_UNFINISHED


class Verdict(Enum):
    """Whether a request had begun. None of them changes any more."""

    NOT_BEGUN = "not begun"
    REPEATABLE = "repeatable"
    """It had, and its service may run twice."""
    MAY_HAVE_RUN = "may have run"


class Decider(NamedTuple):
    """Which file decides; ``is_start``: the first cursor that was kept, not the cursor."""

    generation: int
    is_start: bool


def decider(starts: Collection[int], cursors: Collection[int], written_to: int) -> Decider | None:
    """The file of the first generation above the one that a request was written to; None without any."""
    above = [generation for generation in (*starts, *cursors) if generation > written_to]
    lowest = min(above, default=0)
    return Decider(lowest, lowest in starts) if lowest else None


class Written(NamedTuple):
    """The envelopes of a request; ``parts`` of them suffice to begin it."""

    sequences: Sequence[int]
    parts: int


def verdict_of(cursor: Cursor, written: Written) -> Verdict:
    """What a cursor says of a request, all of whose envelopes were written to its lane."""
    listed = {entry.sequence: entry.begun for entry in cursor.unfinished}
    is_full = len(cursor.unfinished) >= MAX_UNFINISHED
    behind = [one for one in written.sequences if one > cursor.last_sequence and one not in listed]
    waits = [one for one in written.sequences if listed.get(one) is False]
    passed = len(written.sequences) - len(behind) - len(waits)
    if waits or (behind and not is_full and passed < written.parts):
        return Verdict.NOT_BEGUN
    if behind and passed < written.parts:
        return Verdict.MAY_HAVE_RUN
    return Verdict.REPEATABLE if any(listed.get(one) for one in written.sequences) else Verdict.MAY_HAVE_RUN


NOTHING_BEGAN = Cursor(0, 0, 0, 0, 0)
"""Stands for the cursor of a generation that never opened the lane."""
