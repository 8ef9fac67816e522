"""Reading, in the own lane to a node, what the node's generations had begun of it (S-21, step 2)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from speed.core.verdicts import NOTHING_BEGAN, Decider, decider
from speed.fs.committed import MAX_LANE_FILES, read_cursor
from speed.fs.open import names_in, open_directory, owners_of
from speed.wire import names
from speed.wire.cursor import Cursor

_LOOKS = 8
"""So often a file that was listed and is gone is looked for once more."""


def deciding_cursor(path: str, keys: Sequence[bytes], generation: int, has_ended: Callable[[], bool]) -> Cursor | None:
    """The cursor that decides of what was written to a generation of the receiver; None if nothing decides (yet).

    ``path`` is the lane. ``has_ended()`` says whether that generation's process is known to be gone, or left in order.
    """
    try:
        directory = open_directory(path)
    except OSError:  # the inbox of an ephemeral node is removed with its cursors
        return None
    try:
        for _ in range(_LOOKS):
            found = _list(directory)
            chosen = decider(*found, generation)
            cursor = _read(directory, keys, chosen, generation)
            if _list(directory) == found:  # or a start may have been kept, and the cursor gone on, in between
                return _believed(cursor, chosen, generation in found[1], has_ended)
        return None
    except OSError:
        return None
    finally:
        os.close(directory)


def _believed(
    cursor: Cursor | None, chosen: Decider | None, is_there: bool, has_ended: Callable[[], bool]
) -> Cursor | None:
    if chosen is not None:
        return cursor if cursor is not None and (cursor.sealed or has_ended()) else None
    if not has_ended():
        return None
    return cursor if is_there else NOTHING_BEGAN


def _list(directory: int) -> tuple[list[int], list[int]]:
    """The generations of starts and of cursors."""
    listed = [entry.name for entry in names_in(directory, MAX_LANE_FILES)]
    starts = sorted(one for name in listed if (one := names.parse_start(name)) is not None)
    return starts, sorted(one for name in listed if (one := names.parse_cursor(name)) is not None)


def _read(directory: int, keys: Sequence[bytes], chosen: Decider | None, generation: int) -> Cursor | None:
    """What decides; the generation's own cursor if there is nothing above it."""
    number = generation if chosen is None else chosen.generation
    name = names.start_name(number) if chosen is not None and chosen.is_start else names.cursor_name(number)
    cursor = read_cursor(directory, name, keys, owners_of(directory))
    return cursor if cursor is not None and cursor.receiver_generation == number else None
