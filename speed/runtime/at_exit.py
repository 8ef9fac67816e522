"""Nodes that are open when the interpreter ends are closed: nobody has to find out that they are gone (R-15)."""

from __future__ import annotations

import atexit
import os
import threading
from functools import cache
from typing import Protocol


class Closable(Protocol):
    """What is asked of an engine."""

    def close(self, drain_seconds: float) -> None: ...


_open: dict[Closable, int] = {}
"""With the process that opened each: a forked child ends without touching those of its parent."""
_lock = threading.Lock()


def track(engine: Closable) -> None:
    """Have ``engine`` closed at the end, unless it is before."""
    _register()
    with _lock:
        _open[engine] = os.getpid()


def forget(engine: Closable) -> None:
    """It is closed, or another process's."""
    _open.pop(engine, None)


@cache
def _register() -> None:
    atexit.register(_close_all)


def _close_all() -> None:
    for engine, process in list(_open.items()):
        if process == os.getpid():
            engine.close(0.0)
