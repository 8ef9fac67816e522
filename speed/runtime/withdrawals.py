"""Calls that were withdrawn, until the other side is told (S-16). The thread that reads tells it, many in one word."""

from __future__ import annotations

import math
from time import monotonic

from speed.errors import InboxFullError, SpeedError
from speed.runtime import locks
from speed.runtime.context import Context
from speed.runtime.links import Links
from speed.wire import control
from speed.wire.envelope import EnvelopeType
from speed.wire.limits import MAX_WITHDRAWN_IDS

_AGAIN_SECONDS = 0.005
"""Pause before a full inbox is tried again."""


class Withdrawals:
    """Thread-safe; ``withdraw`` waits for nothing, so an event loop may call it."""

    def __init__(self, context: Context, links: Links) -> None:
        self._context = context
        self._links = links
        self._lock = locks.lock("withdrawals")
        self._waiting: dict[str, dict[str, None]] = {}
        self._next = math.inf

    def withdraw(self, target: str, request_id: str) -> None:
        """Have ``target`` told that nobody waits for the answer, if it understands that."""
        self._context.pending.withdrawn(target, request_id)
        if not self._links.takes(target, "withdraw"):
            return
        with self._lock:
            self._waiting.setdefault(target, {})[request_id] = None
            self._next = 0.0
        self._context.alarm.wake_by(monotonic())

    def next_time(self) -> float:
        """Monotonic seconds of the next ``flush``; infinity when nothing waits."""
        return self._next

    def flush(self) -> None:
        """Tell what waits; what there is no room for is told later, unless its call has ended by then."""
        if monotonic() < self._next:
            return
        with self._lock:
            waiting, self._waiting, self._next = self._waiting, {}, math.inf
        for target, ids in waiting.items():
            open_ids = [one for one in ids if self._context.pending.waits_for(target, one)]
            for first in range(0, len(open_ids), MAX_WITHDRAWN_IDS):
                self._tell(target, open_ids[first : first + MAX_WITHDRAWN_IDS])

    def _tell(self, target: str, ids: list[str]) -> None:
        try:
            payload = control.encode({"op": "WITHDRAW", "requestIds": ids})
            self._links.granted(target).send(EnvelopeType.DISCOVERY, 0, payload, 0.0, urgent=True)
        except InboxFullError:
            with self._lock:
                self._waiting.setdefault(target, {}).update(dict.fromkeys(ids))
                self._next = monotonic() + _AGAIN_SECONDS
        except (SpeedError, OSError):
            self._context.stats.count("withdrawals_undelivered", len(ids))
        else:
            self._context.stats.count("calls_withdrawn", len(ids))
