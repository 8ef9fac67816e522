"""The thread that compacts topics beside all else (D-25)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from speed.topics.compaction import Stopped

COMPACT_EVERY_SECONDS = 10.0
"""How often is looked whether a topic is to be compacted that nobody asked for."""
AFTER_TROUBLE_SECONDS = 300.0
"""The same where that failed: damage stays, and to find it anew costs as much as before."""


class Compacting:
    """Calls ``compact`` now and then, and when it is asked for, until it is closed."""

    def __init__(self, compact: Callable[[Stopped], str]) -> None:
        """``compact`` ends when what it is given says so; it returns why it failed, else nothing."""
        self._compact = compact
        self._asked = threading.Event()
        self._ends = False
        self.trouble = ""
        """Why the last look failed; empty if it did not."""
        self._thread = threading.Thread(target=self._run, name="speed-compacting", daemon=True)

    def begin(self) -> None:
        """Look for the first time."""
        self._thread.start()

    def ask(self) -> None:
        """Look soon."""
        self._asked.set()

    def _run(self) -> None:
        while not self._ends:
            self.trouble = self._compact(lambda: self._ends)
            self._asked.wait(AFTER_TROUBLE_SECONDS if self.trouble else COMPACT_EVERY_SECONDS)
            self._asked.clear()

    def close(self) -> None:
        """End behind the volume that is being rewritten."""
        self._ends = True
        self._asked.set()
        if self._thread.ident is not None:
            self._thread.join()
