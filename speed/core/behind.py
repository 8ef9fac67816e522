"""What must not overtake the requests of its sender that are still being put together (G-14)."""

from __future__ import annotations

from collections.abc import Callable

from speed.wire.limits import MAX_BEHIND


class Behind:
    """Withdrawals and questions name requests: they are looked at once those before them are known.

    Not thread-safe: guarded by the lock of its owner.
    """

    def __init__(self) -> None:
        self._open: dict[str, set[object]] = {}
        """Requests that are being put together, by sender."""
        self._waiting: dict[str, list[tuple[set[object], Callable[[], None]]]] = {}
        """What waits, with the requests that came before it."""

    def begin(self, sender: str) -> object:
        """A request of ``sender`` is put together from now on, until ``end`` is told of what this returns."""
        ticket = object()
        self._open.setdefault(sender, set()).add(ticket)
        return ticket

    def wait(self, sender: str, do: Callable[[], None]) -> bool:
        """Whether ``do`` waits; if not, it is to be done at once: nothing is before it, or too much waits already."""
        before, waiting = self._open.get(sender), self._waiting.get(sender, [])
        if not before or len(waiting) >= MAX_BEHIND:
            return False
        self._waiting.setdefault(sender, []).append((set(before), do))
        return True

    def end(self, sender: str, ticket: object) -> list[Callable[[], None]]:
        """A request is known now, or given up; returns what waited for it alone, in its order."""
        self._drop(sender, ticket)
        due, rest = [], []
        for before, do in self._waiting.pop(sender, []):
            before.discard(ticket)
            if before:
                rest.append((before, do))
            else:
                due.append(do)
        if rest:
            self._waiting[sender] = rest
        return due

    def _drop(self, sender: str, ticket: object) -> None:
        self._open[sender].discard(ticket)
        if not self._open[sender]:
            del self._open[sender]
