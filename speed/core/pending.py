"""Calls and acknowledgements that wait for an answer: each is completed exactly once (rule S-7)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

_RESCAN_SECONDS = 1.0


class PendingCall(NamedTuple):
    """One waiting caller. ``deadline`` is in seconds of the caller's monotonic clock."""

    key: Hashable
    deadline: float
    target: str
    completion: Callable[[Any], object]


class PendingCalls:
    """The table of waiting callers, by key (request id, or sequence for acknowledgements).

    Not locked itself. `add`, `complete` and `forget` are single dict operations, atomic under CPython's GIL, so any
    thread may call them at any time; whoever pops a call completes it, hence at most one completion. `expire` and
    `fail_target` belong to one thread. A deadline added while `expire` scans is noticed within a second at the latest.
    """

    __slots__ = ("_calls", "_earliest", "_scanned")

    def __init__(self) -> None:
        self._calls: dict[Hashable, PendingCall] = {}
        self._earliest = math.inf
        self._scanned = -math.inf

    def add(self, key: Hashable, deadline: float, target: str, completion: Callable[[Any], object]) -> None:
        """Wait for ``key``; ``completion(outcome)`` runs on the thread that completes it and must not block."""
        self._calls[key] = PendingCall(key, deadline, target, completion)
        if deadline < self._earliest:
            self._earliest = deadline

    def target_of(self, key: Hashable) -> str | None:
        """Who was asked: only that node's answer may complete the call (rule S-6). None: nobody waits."""
        call = self._calls.get(key)
        return None if call is None else call.target

    def complete(self, key: Hashable, outcome: object) -> bool:
        """Hand ``outcome`` to the caller waiting for ``key``; False when nobody waits any more."""
        call = self._calls.pop(key, None)
        if call is None:
            return False
        call.completion(outcome)
        return True

    def forget(self, key: Hashable) -> bool:
        """Stop waiting without completing; False when nobody waits any more."""
        return self._calls.pop(key, None) is not None

    def expire(self, now: float) -> list[PendingCall]:
        """Take out the calls whose deadline has passed; the caller of this method completes them."""
        if now < min(self._earliest, self._scanned + _RESCAN_SECONDS):
            return []
        self._earliest, self._scanned = math.inf, now
        calls = list(self._calls.values())
        late = [call for call in calls if call.deadline <= now]
        rest = min((call.deadline for call in calls if call.deadline > now), default=math.inf)
        self._earliest = min(self._earliest, rest)
        return [call for call in late if self._calls.pop(call.key, None) is not None]

    def fail_target(self, target: str, error: BaseException) -> int:
        """Complete every call to ``target`` with ``error`` (the node left); returns how many."""
        keys = [call.key for call in list(self._calls.values()) if call.target == target]
        return sum(self.complete(key, error) for key in keys)

    def fail_all(self, error: BaseException) -> int:
        """Complete every call with ``error``: the node stops. Returns how many."""
        return sum(self.complete(key, error) for key in list(self._calls))

    def targets(self) -> set[str]:
        """Nodes that somebody waits for."""
        return {call.target for call in list(self._calls.values())}

    def next_deadline(self) -> float:
        """A time not after the earliest deadline; infinity when nothing waits."""
        return self._earliest if self._calls else math.inf

    def __len__(self) -> int:
        """How many callers wait."""
        return len(self._calls)
