"""Locks that fail a test when they are taken against the order that ``speed.engine.python`` states."""

from __future__ import annotations

import threading
from typing import Any

ORDER = (
    ("node",),
    ("turn",),
    ("segments", "sending"),
    ("links",),
    ("link",),
    ("lane",),
    ("work",),
    ("answers", "withdrawals", "settling", "pending", "threads", "receiving", "loop", "watch", "stream"),
    ("outcome",),
    ("limiter", "stats"),
)
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}
_held = threading.local()


class Watched:
    """A lock that knows its place; ``broken`` collects what was taken out of order."""

    broken: list[str] = []  # noqa: RUF012 - one list for all of a test

    def __init__(self, name: str, inner: Any, *, again: bool) -> None:
        self.name, self._inner, self._again = name, inner, again

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        held: list[Watched] = getattr(_held, "locks", [])
        mine = self._again and self in held
        if blocking and not mine:
            wrong = [one.name for one in held if RANK[one.name] >= RANK[self.name]]
            if wrong:
                Watched.broken.append(f"{self.name} was taken under {', '.join(wrong)}")
        taken: bool = self._inner.acquire(blocking, timeout)
        if taken and self.name != "outcome":  # handed from thread to thread: one waits, another lets it go
            _held.locks = [*held, self]
        return taken

    def release(self) -> None:
        self._inner.release()
        held: list[Watched] = getattr(_held, "locks", [])
        if self in held:
            place = len(held) - 1 - held[::-1].index(self)
            _held.locks = held[:place] + held[place + 1 :]

    def locked(self) -> bool:
        return bool(self._inner.locked())

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    # what a Condition asks of a lock that can be taken again, and may ask of any
    def _is_owned(self) -> bool:
        return self in getattr(_held, "locks", [])


def lock(name: str) -> Watched:
    return Watched(name, threading.Lock(), again=False)


def reentrant(name: str) -> Watched:
    return Watched(name, threading.RLock(), again=True)
