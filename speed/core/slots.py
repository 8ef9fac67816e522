"""Which slot a large payload goes into, and which ones are given back for it (L-29)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from speed.wire.limits import MAX_SLOTS

MOST_TIMES = 2
"""A slot is used as it is for a payload that needs at least one in so many of its bytes."""


class SlotChoice(NamedTuple):
    """The slot to take, how long it has to be then, and the free ones to remove before."""

    number: int
    file_bytes: int
    removed: tuple[int, ...]


def choose_slot(free: Mapping[int, int], used: Iterable[int], needed: int, room: int) -> SlotChoice | None:
    """The slot for a payload that needs ``needed`` bytes; None if all are in use.

    ``free`` has the file sizes of the slots that are free by their numbers, ``used`` the numbers that cannot be taken.
    ``room`` is what the window leaves for all free slots together, with the one that is taken.
    """
    number, size = _best(free, set(used), needed)
    if not number:
        return None
    others = {other: length for other, length in free.items() if other != number}
    removed = excess(others, room - size)
    left = room - sum(length for other, length in others.items() if other not in removed)
    return SlotChoice(number, size if size <= left else needed, removed)


def _best(free: Mapping[int, int], used: set[int], needed: int) -> tuple[int, int]:
    """Its number and how long it is to be; 0 for none."""
    fitting = [(size, number) for number, size in free.items() if needed <= size <= MOST_TIMES * needed]
    if fitting:
        size, number = min(fitting)
        return number, size
    short = [(-size, number) for number, size in free.items() if size < needed]
    if short:
        return min(short)[1], needed
    for number in range(1, MAX_SLOTS + 1):
        if number not in free and number not in used:
            return number, needed
    long = [(size, number) for number, size in free.items()]
    return (min(long)[1], needed) if long else (0, 0)


def excess(free: Mapping[int, int], room: int) -> tuple[int, ...]:
    """The free slots to remove until the others take no more than ``room`` bytes: the longest first."""
    removed: list[int] = []
    total = sum(free.values())
    for size, number in sorted(((size, number) for number, size in free.items()), key=lambda one: (-one[0], one[1])):
        if total <= room:
            break
        removed.append(number)
        total -= size
    return tuple(removed)
