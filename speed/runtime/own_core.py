"""A core of its own for a thread that polls.

Who rings has the kernel wake the reader on the ringing thread's core, where the two then poll by turns while another
core idles, until the balancer looks (registry_spec/decisions/0033).
"""

from __future__ import annotations

import os
import time

TURN_SECONDS = 4e-6
"""A yield takes half a microsecond where nobody else wants the core: meanwhile somebody ran here."""
_GOLDEN_RATIO = 0.618034
PATIENCE = 4
REST_SECONDS = 0.004
"""At least, between two moves: they cost tens of microseconds."""
_yield = getattr(os, "sched_yield", lambda: None)


class OwnCore:
    """For the holder of the protocol role.

    Of two processes that share a core only one has to leave: who both did, and met again, rest for different times.
    """

    def __init__(self, process_id: int = 0) -> None:
        self._spread = 1 + process_id * _GOLDEN_RATIO % 1
        """1 to 2, and far apart for processes with neighbouring ids."""
        self._shared = False
        self._turns = 0
        self._rests_until = 0.0

    def give_turn(self) -> float:
        """Let another that waits for this core run; the time behind that (``perf_counter``)."""
        before = time.perf_counter()
        _yield()
        now = time.perf_counter()
        self.took(now - before)
        return now

    def took(self, seconds: float) -> None:
        """A turn of another took this long, if there was one."""
        if seconds > TURN_SECONDS:
            self._shared = True

    def hit(self, now: float) -> bool:
        """A poll brought something: whether to leave this core, after several in a row by turns with another."""
        if not self._shared:
            self._turns = 0
            return False
        self._shared = False
        self._turns += 1
        if self._turns < PATIENCE or now < self._rests_until:
            return False
        self._turns = 0
        self._rests_until = now + self._spread * REST_SECONDS
        return True


def leave_this_core() -> bool:
    """Move the calling thread to another core that it may use, with its affinity as before; False without one."""
    if not hasattr(os, "sched_setaffinity"):
        return False
    try:
        allowed = os.sched_getaffinity(0)
        others = allowed - {_this_core()}
        if not others:
            return False
        os.sched_setaffinity(0, others)
        os.sched_setaffinity(0, allowed)
    except OSError:
        return False
    return True


def _this_core() -> int:
    """Python has no ``sched_getcpu``: field 39 of the thread's own line."""
    with open("/proc/thread-self/stat", "rb") as line:
        return int(line.read().rpartition(b")")[2].split()[36])
