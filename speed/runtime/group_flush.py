"""Group commit: what many threads appended is flushed once for all of them (L-7)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from speed.errors import StorageError

Begin = Callable[[], Callable[[], None]]
"""Notes, briefly, what is to be flushed; returns the flush itself, beside which others may append."""


class _Flush:
    """One flush, shared by all who wait for it."""

    __slots__ = ("begun", "failed", "over")

    def __init__(self) -> None:
        self.begun = False
        self.failed = False
        self.over = False


class GroupFlush:
    """Threads that appended wait here for a flush that began afterwards; one of them does it. Thread-safe.

    Who does it gets its error, the others a StorageError.
    """

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._changed = threading.Condition(threading.Lock())
        self._next = _Flush()
        self._under_way = False

    def wait(self) -> None:
        """Return once a flush is over that began after this call did."""
        with self._changed:
            flush = self._next
            while not flush.over and (flush.begun or self._under_way):
                self._changed.wait()
            if flush.failed:
                raise StorageError("what was sent may not survive a power cut: see `speed doctor`")
            if flush.over:
                return
            flush.begun = self._under_way = True
            self._next = _Flush()
        try:
            self._begin()()
        except BaseException:
            flush.failed = True
            raise
        finally:
            with self._changed:
                flush.over = True
                self._under_way = False
                self._changed.notify_all()
