"""Senders that wait for room in a full inbox: one after the other, each until its own deadline (L-6)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import monotonic

ROOM_POLL_SECONDS = (0.001, 0.05)
"""First and longest pause between two looks at a full lane; no bell announces room."""
TURN_SECONDS = 1.0


class Room:
    """Who waits for room on one link, first come, first served; the lock of the link guards it.

    The lock is free while they wait, so those who cannot wait, or not as long, are told in time.
    """

    __slots__ = ("_changed", "_stopping", "turns")

    def __init__(self, lock: threading.Lock, stopping: threading.Event) -> None:
        self._changed = threading.Condition(lock)
        self._stopping = stopping
        self.turns: deque[object] = deque()
        """One for each sender that waits; who finds any here comes after them."""

    def wait(self, has_room: Callable[[], bool], deadline: float) -> bool:
        """Whether it is the caller's turn and there is room, before ``deadline`` (monotonic seconds).

        The caller holds the lock, and has it again when this returns.
        """
        turn = object()
        self.turns.append(turn)
        pause, longest = ROOM_POLL_SECONDS
        try:
            while self.turns[0] is not turn or not has_room():
                left = deadline - monotonic()
                if left <= 0 or self._stopping.is_set():
                    return False
                if self.turns[0] is turn:
                    self._changed.wait(min(pause, left))
                    pause = min(pause * 2, longest)
                else:
                    self._changed.wait(min(TURN_SECONDS, left))
            return True
        finally:
            self.turns.remove(turn)
            self._changed.notify_all()
