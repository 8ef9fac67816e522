"""Group commit: what many threads appended is flushed once for all of them (L-7)."""

from __future__ import annotations

import threading
from collections.abc import Callable


class GroupFlush:
    """Threads that appended wait here for a flush that covers it; one of them does it for all. Thread-safe.

    ``flush()`` runs without a lock of this class, and returns the counter up to which things had been appended when it
    began.
    """

    def __init__(self, flush: Callable[[], int]) -> None:
        self._flush = flush
        self._over = threading.Condition(threading.Lock())
        self._covered = 0
        self._under_way = False

    def wait(self, counter: int) -> None:
        """Return once a flush is over that began when ``counter`` had been appended, whether it failed or not.

        What ``flush`` raises goes to the one thread that did it, and another one flushes.
        """
        with self._over:
            while self._covered < counter and self._under_way:
                self._over.wait()
            if self._covered >= counter:
                return
            self._under_way = True
        covered = 0
        try:
            covered = self._flush()
        finally:
            with self._over:
                self._covered = max(self._covered, covered)
                self._under_way = False
                self._over.notify_all()
