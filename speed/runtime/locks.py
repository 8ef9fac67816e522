"""The locks of a node, each made under the name that ``speed.runtime`` orders it by: tests watch them."""

from __future__ import annotations

import threading


def lock(name: str) -> threading.Lock:
    """A lock of that place in the order."""
    return threading.Lock()


def reentrant(name: str) -> threading.RLock:
    """The same, for a thread that takes it again."""
    return threading.RLock()
