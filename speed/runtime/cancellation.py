"""What tells a service that nobody waits for it any longer (S-16)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from speed.wire.seconds import checked_seconds


class Withdrawal:
    """Set once, for good; nothing is thrown into a running thread. Thread-safe."""

    __slots__ = ("_hooks", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._hooks: list[Callable[[], object]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        while self._hooks:
            try:
                hook = self._hooks.pop()
            except IndexError:
                return
            hook()

    def call_when_set(self, hook: Callable[[], object]) -> None:
        """Run ``hook``, which must be brief, when it is set; now, if it is."""
        self._hooks.append(hook)
        if self._is_set:
            self.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most ``timeout`` seconds; whether it is."""
        if not self._is_set:  # few services ever wait for it
            told = threading.Event()
            self.call_when_set(told.set)
            told.wait(None if timeout is None else checked_seconds("timeout", timeout))
            with suppress(ValueError):  # it was told
                self._hooks.remove(told.set)
        return self._is_set
