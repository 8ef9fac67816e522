"""Whether a node ends, and why it cannot be used any more."""

from __future__ import annotations

import threading

from speed.errors import SpeedError, fresh


class Ending:
    """Begins once for each node. Thread-safe: the reason is there before anybody is told to stop."""

    __slots__ = ("reason", "stopping")

    def __init__(self) -> None:
        self.reason: SpeedError | None = None
        self.stopping = threading.Event()
        """Wakes who sleeps between two pieces of work."""

    def begin(self, reason: SpeedError) -> None:
        """From now on public methods raise ``reason``, and all threads stop."""
        self.reason = reason
        self.stopping.set()

    def check(self) -> None:
        """Raise the reason, if there is one: an exception of its own for who asks."""
        if self.reason is not None:
            raise fresh(self.reason)
