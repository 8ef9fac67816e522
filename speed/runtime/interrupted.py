"""What the handler of a signal does in the middle of a node's own work (S-25).

Python runs such a handler between any two lines of the main thread, also while that holds a lock of the node. An end
of the node that waits for this lock would wait for ever.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from speed.core.log import logger

log = logger("speed.node")

BESIDE_SECONDS = 1.0
"""How long a handler waits for an end, beyond what that was given, before the work that it interrupted goes on."""


def run(end: Callable[[float], None], drain_seconds: float) -> None:
    """Do ``end(drain_seconds)``: here, or where a handler interrupted the node's work, on a thread of its own.

    The handler waits for it, but returns where it needs a lock that the interrupted work holds: it comes to its end
    once that goes on. The interpreter waits for it.
    """
    if not _has_interrupted():
        end(drain_seconds)
        return
    thread = threading.Thread(target=_guarded, args=(end, drain_seconds), name="speed-end", daemon=False)
    thread.start()
    thread.join(drain_seconds + BESIDE_SECONDS)


def _guarded(end: Callable[[float], None], drain_seconds: float) -> None:
    try:
        end(drain_seconds)
    except Exception:
        log.exception("the end of a node failed")


def _has_interrupted() -> bool:
    """Whether a verb of a node called this thread's program, which called back: a handler of a signal does that."""
    if threading.current_thread() is not threading.main_thread():
        return False
    frame = sys._getframe()
    was_programs = False
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if was_programs and module.startswith("speed.runtime."):
            return True
        was_programs |= not module.startswith("speed.")
        frame = frame.f_back  # type: ignore[assignment]
    return False
