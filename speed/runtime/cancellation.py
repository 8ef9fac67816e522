"""What tells a service that nobody waits for it any longer (S-16)."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Withdrawal(threading.Event):
    """Set once, for good; nothing is thrown into a running thread."""

    def __init__(self) -> None:
        super().__init__()
        self._hooks: list[Callable[[], object]] = []

    def set(self) -> None:
        super().set()
        while self._hooks:
            try:
                hook = self._hooks.pop()
            except IndexError:
                return
            hook()

    def call_when_set(self, hook: Callable[[], object]) -> None:
        """Run ``hook``, which must be brief, when it is set; now, if it is."""
        self._hooks.append(hook)
        if self.is_set():
            self.set()
