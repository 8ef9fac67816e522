"""Small requests that leave together: while answers are due anyway, the next requests wait for each other (0009).

Nobody waits longer for it: a request is delayed only behind unanswered ones to the same node, and leaves with
the next answer from there, when somebody waits for a result, when many wait, or within two milliseconds.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic

from speed.core.pending import PendingCalls
from speed.errors import InboxFullError, SpeedError

UNANSWERED = 8
"""With fewer calls on their way to a node the next one leaves at once."""
SMALL_BYTES = 4096
MOST_DELAYED = 64
TURN_SECONDS = 0.05
"""How long even who cannot wait for room waits for another thread that is just sending them."""

Send = Callable[[Sequence[bytes], float, bool], None]
"""Sends request payloads in one write until a deadline (monotonic seconds); never waits if the third is True."""


class DelayedRequests:
    """The requests to one target that wait to leave, in the order of their start. Thread-safe.

    Its lock is held from taking them to writing them, so their order stays; it comes before the link's own.
    """

    __slots__ = ("_lock", "_pending", "_send_all", "_target", "waiting")

    def __init__(self, target: str, pending: PendingCalls, send_all: Send) -> None:
        self.waiting: deque[tuple[str, bytes]] = deque()
        self._target = target
        self._pending = pending
        self._send_all = send_all
        self._lock = threading.Lock()

    def takes(self, payload: bytes) -> bool:
        """Whether a request may wait here: it is small, and others are unanswered."""
        return len(payload) <= SMALL_BYTES and self._pending.waiting(self._target) > UNANSWERED

    def add(self, request_id: str, payload: bytes, deadline: float) -> None:
        """Let a request wait; InboxFullError if too many do and there is no room for them until ``deadline``."""
        if len(self.waiting) >= MOST_DELAYED:
            self.flush(deadline)
        self.waiting.append((request_id, payload))

    def flush(self, deadline: float) -> None:
        """Send all that wait now; InboxFullError if there is no room until ``deadline`` (monotonic seconds)."""
        self._take_turn(deadline)
        try:
            self._send(deadline, urgent=False)
        finally:
            self._lock.release()

    def _take_turn(self, deadline: float) -> None:
        """Take the lock, which another sender may hold until a later deadline than ours."""
        seconds = min(max(TURN_SECONDS, deadline - monotonic()), threading.TIMEOUT_MAX)
        if not self._lock.acquire(timeout=seconds):
            raise InboxFullError(f"the inbox of {self._target!r} is full, and others wait for room: retry later")

    def flush_at_once(self) -> None:
        """Send what there is room for, without waiting for anything."""
        if self._lock.acquire(blocking=False):
            try:
                self._send(monotonic(), urgent=True)
            except InboxFullError:
                pass  # they go on waiting: for room, or for the deadline of each
            finally:
                self._lock.release()

    def _send(self, deadline: float, *, urgent: bool) -> None:
        waiting = self.waiting
        while waiting:
            batch = [waiting.popleft() for _ in range(min(len(waiting), MOST_DELAYED))]
            payloads = [payload for _, payload in batch]
            try:
                self._send_all(payloads, deadline, urgent)
            except InboxFullError:
                waiting.extendleft(reversed(batch))
                raise
            except SpeedError as error:
                for request_id, _ in batch:
                    self._pending.complete(self._target, request_id, error)
