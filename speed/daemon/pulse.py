"""Whether the processes of speedd live: their nodes are pinged, and the kernel says who is stopped.

A node may hold its lease while it serves nobody: one thread of it renews the lease, others hang. Pings wait on threads
beside speedd's main thread, so that no process, however it hangs, holds up the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from speed.errors import CallTimeoutError, SpeedError

LOOK_SECONDS = 1.0
"""How often the processes are looked at."""
LONGEST_PING_SECONDS = 2.0
MAX_AT_ONCE = 16
NAMED_SECONDS = 3.0
"""A process that is silent for so long is a trouble; one that only was busy is not."""


@dataclass
class _Pinged:
    """One life of one process. A thread of the pool writes, the main thread reads."""

    wait_seconds: float
    silent_seconds: float = 0.0
    is_under_way: bool = False
    silent_until: float | None = None
    """Up to when the silence is counted, in seconds of the monotonic clock; None while it answers."""

    def answered(self) -> None:
        self.silent_seconds, self.silent_until = 0.0, None

    def waited_in_vain(self, began: float, now: float) -> None:
        """One more ping without an answer. What lies between two pings counts, as far as that is usual."""
        since = began if self.silent_until is None else self.silent_until
        self.silent_seconds += min(now - since, self.wait_seconds + 2 * LOOK_SECONDS)
        self.silent_until = now


class Pulse:
    """Pings nodes, each at most once at a time. For one thread.

    Only what was waited for counts as silence: a speedd that was itself stopped for an hour ends nobody.
    """

    def __init__(self, ping: Callable[[str, float], object]) -> None:
        """``ping`` asks a node and waits so many seconds at most; it raises what ``Node.ping`` does."""
        self._ping = ping
        self._pinged: dict[str, _Pinged] = {}
        self._threads = ThreadPoolExecutor(MAX_AT_ONCE, "speed-pulse")

    def look(self, wanted: Mapping[str, float]) -> Mapping[str, float]:
        """Ping these nodes, each with the seconds of silence that are its end; how long each is silent, in seconds.

        A node that is not wanted is forgotten: its next life begins anew.
        """
        known = self._pinged
        self._pinged = {name: known.get(name) or _Pinged(_wait_of(limit)) for name, limit in wanted.items()}
        for name, one in self._pinged.items():
            if not one.is_under_way:
                one.is_under_way = True
                self._threads.submit(self._ask, name, one)
        return {name: one.silent_seconds for name, one in self._pinged.items()}

    def _ask(self, name: str, one: _Pinged) -> None:
        began = time.monotonic()
        try:
            self._ping(name, one.wait_seconds)
            one.answered()
        except CallTimeoutError:
            one.waited_in_vain(began, time.monotonic())
        except SpeedError:
            one.answered()  # it does not allow speedd, or is gone, which the registry tells
        finally:
            one.is_under_way = False

    def close(self) -> None:
        """End; pings that are under way are waited for, which have their bound."""
        self._threads.shutdown(cancel_futures=True)


def _wait_of(limit_seconds: float) -> float:
    """Several pings are lost before a process is ended."""
    return min(LONGEST_PING_SECONDS, limit_seconds / 4)


def is_frozen(pid: int) -> bool:
    """Whether a signal such as SIGSTOP keeps a process from running; False where the system does not show it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name before the state may itself hold blanks and parentheses.
            return file.read().rpartition(b") ")[2][:1] == b"T"
    except OSError:
        return False


@dataclass
class Silence:
    """How long one process serves nobody, as two ways tell it."""

    unanswered_seconds: float = 0.0
    frozen_seconds: float = 0.0
    _looked_at: float | None = None

    @property
    def seconds(self) -> float:
        return max(self.unanswered_seconds, self.frozen_seconds)

    def look(self, pid: int, unanswered_seconds: float, now: float) -> None:
        """``now`` in seconds of the monotonic clock. A long time between two looks is not all the process's."""
        since = 0.0 if self._looked_at is None else min(now - self._looked_at, LONGEST_PING_SECONDS)
        self._looked_at = now
        self.unanswered_seconds = unanswered_seconds
        self.frozen_seconds = self.frozen_seconds + since if is_frozen(pid) else 0.0

    @property
    def reason(self) -> str:
        """What is wrong, in words."""
        return "is stopped by a signal" if self.frozen_seconds else "does not answer, though its lease is held"

    @property
    def is_trouble(self) -> bool:
        return bool(self.frozen_seconds) or self.unanswered_seconds >= NAMED_SECONDS
