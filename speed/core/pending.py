"""Calls and acknowledgements that wait for an answer: each is completed exactly once (rule S-7)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from speed.errors import SpeedError, fresh
from speed.wire.entry import Entry
from speed.wire.limits import MAX_KEPT_REQUEST_BYTES

_RESCAN_SECONDS = 1.0


class Asked:
    """What is known of a call's request, in case that its server is replaced (S-21)."""

    __slots__ = (
        "entry",
        "is_settled",
        "is_withdrawn",
        "is_written",
        "may_have_run",
        "parts",
        "payload",
        "sequences",
        "until",
    )

    def __init__(self, entry: Entry, until: float) -> None:
        self.entry = entry
        """Of the server's generation that it was written to last."""
        self.until = until
        """How long the program waits, in monotonic seconds."""
        self.payload: bytes | None = None
        """The request, while it is kept."""
        self.sequences: Sequence[int] = ()
        """Of its envelopes."""
        self.parts = 1
        """So many of them suffice to begin it."""
        self.is_written = self.is_settled = self.is_withdrawn = False
        self.may_have_run = False
        """Whether an earlier generation may have run it."""


class PendingCall:
    """One waiting caller. ``deadline`` is in seconds of the caller's monotonic clock."""

    __slots__ = ("asked", "completion", "deadline", "is_part", "key", "target")

    def __init__(self, key: Hashable, deadline: float, target: str, completion: Callable[[Any], object]) -> None:
        self.key, self.deadline, self.target, self.completion = key, deadline, target, completion
        self.asked: Asked | None = None
        """Of a call: its request."""
        self.is_part = False
        """Whether this waits for what becomes of one segment of a request."""


class PendingCalls:
    """The table of waiting callers, by target and key (request id, or sequence for acknowledgements).

    Not locked itself. `add`, `complete`, `forget` and `waiting` are single dict operations, atomic under CPython's GIL,
    so any thread may call them at any time; whoever pops a call completes it, hence at most one completion. `expire`
    and `fail` belong to one thread. A deadline added while `expire` scans is noticed within a second.
    After `fail_all` nobody can wait any more.
    """

    __slots__ = ("_calls", "_earliest", "_end", "_kept", "_lock", "_scanned")

    def __init__(self, lock: AbstractContextManager[Any] | None = None) -> None:
        """``lock`` guards the count of what is kept, where several threads use this."""
        self._calls: dict[str, dict[Hashable, PendingCall]] = {}
        self._earliest = math.inf
        self._scanned = -math.inf
        self._end: BaseException | None = None
        self._lock = nullcontext() if lock is None else lock
        self._kept = 0

    def add(self, key: Hashable, deadline: float, target: str, completion: Callable[[Any], object]) -> PendingCall:
        """Wait for ``key``; ``completion(outcome)`` runs on the thread that completes it and must not block.

        Raises what `fail_all` was given, once it was: then nothing may be written.
        """
        call = PendingCall(key, deadline, target, completion)
        try:
            self._calls[target][key] = call
        except KeyError:
            self._calls.setdefault(target, {})[key] = call
        if deadline < self._earliest:
            self._earliest = deadline
        # Looked at last: whoever ends the table either finds this call in it or was seen here.
        if self._end is not None and self.forget(target, key):
            raise fresh(self._end) if isinstance(self._end, SpeedError) else self._end
        return call

    def complete(self, source: str, key: Hashable, outcome: object) -> bool:
        """Hand ``outcome`` to the caller that waits for ``key`` of ``source``, and of nobody else (rule S-6).

        False when nobody waits any more.
        """
        call = self._taken(source, key)
        if call is None:
            return False
        call.completion(outcome)
        return True

    def _taken(self, source: str, key: Hashable) -> PendingCall | None:
        call = self._calls.get(source, _NONE).pop(key, None)
        if call is not None and call.asked is not None:
            self._let_go(call.asked)
        return call

    def end(self, call: PendingCall, outcome: object) -> bool:
        """The same for this very call, which another one may have taken the place of."""
        return self.is_open(call) and self.complete(call.target, call.key, outcome)

    def is_open(self, call: PendingCall) -> bool:
        """Whether its caller still waits."""
        return self._calls.get(call.target, _NONE).get(call.key) is call

    # --- requests, to be sent again (S-21) ---

    def keep(self, asked: Asked, payload: bytes) -> bool:
        """Keep a request as long as its caller waits; False if too much is kept already."""
        with self._lock:
            if self._kept + len(payload) > MAX_KEPT_REQUEST_BYTES:
                return False
            self._kept += len(payload)
            asked.payload = payload
            return True

    def _let_go(self, asked: Asked) -> None:
        with self._lock:
            if asked.payload is not None:
                self._kept -= len(asked.payload)
                asked.payload = None

    @property
    def kept_bytes(self) -> int:
        """What is kept of requests."""
        return self._kept

    def withdrawn(self, target: str, key: Hashable) -> None:
        """The program of a call does not wait any more: it is not sent again."""
        call = self._calls.get(target, _NONE).get(key)
        if call is not None and call.asked is not None:
            call.asked.is_withdrawn = True

    def forget(self, target: str, key: Hashable) -> bool:
        """Stop waiting without completing; False when nobody waits any more."""
        return self._taken(target, key) is not None

    def waits_for(self, target: str, key: Hashable) -> bool:
        """Whether somebody waits for ``key``."""
        return key in self._calls.get(target, _NONE)

    def waiting(self, target: str) -> int:
        """How many callers wait for ``target``."""
        return len(self._calls.get(target, _NONE))

    def expire(self, now: float) -> list[PendingCall]:
        """Take out the calls whose deadline has passed; the caller of this method completes them."""
        if now < min(self._earliest, self._scanned + _RESCAN_SECONDS):
            return []
        self._earliest, self._scanned = math.inf, now
        calls = self._all()
        late = [call for call in calls if call.deadline <= now]
        rest = min((call.deadline for call in calls if call.deadline > now), default=math.inf)
        self._earliest = min(self._earliest, rest)
        return [call for call in late if self.forget(call.target, call.key)]

    def to(self, target: str) -> list[PendingCall]:
        """The calls to ``target`` that wait now."""
        return list(self._calls.get(target, _NONE).values())

    def fail(self, calls: list[PendingCall], error: BaseException) -> int:
        """Complete those of ``calls`` that still wait with ``error``; returns how many."""
        return sum(self.complete(call.target, call.key, error) for call in calls)

    def fail_all(self, error: BaseException) -> int:
        """Complete every call with ``error``, and refuse those to come: the node stops. Returns how many."""
        self._end = error
        return self.fail(self._all(), error)

    def targets(self) -> set[str]:
        """Nodes that somebody waits for."""
        return {target for target, calls in list(self._calls.items()) if calls}

    def next_deadline(self) -> float:
        """A time not after the earliest deadline, of calls that may have ended since ``expire`` looked."""
        return self._earliest

    def __len__(self) -> int:
        """How many callers wait."""
        return sum(map(len, list(self._calls.values())))

    def _all(self) -> list[PendingCall]:
        return [call for calls in list(self._calls.values()) for call in list(calls.values())]


_NONE: dict[Hashable, PendingCall] = {}
"""Stands for the table of a target that was never asked; only read and popped from."""
