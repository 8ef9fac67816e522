"""The host of the topics, for a loop of asyncio: asked on threads, and listened to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

THREADS = 4
"""One lock is around all topics: more would wait for it."""


class Hosted(Protocol):
    """What is asked of the host."""

    def ask(self, caller: str, service: str, **arguments: Any) -> Any:
        """Raises SubscriptionError."""

    def check(self, caller: str, right: str, topic: str) -> None:
        """Raises SubscriptionError."""

    def watch(self, told: Callable[[str], None]) -> None:
        """Call ``told`` with the name of a topic whenever something may be new there."""

    def unwatch(self, told: Callable[[str], None]) -> None:
        """Call it no more."""

    def until_event(self, topic: str, subscription: str) -> float:
        """Seconds after which something may be due without anybody's doing."""


class Topics:
    """For one loop; made in it. ``close`` ends the threads."""

    def __init__(self, host: Hosted, name: str) -> None:
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, f"{name}-topics")
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._changed: set[str] = set()
        host.watch(self._told)

    def check(self, caller: str, right: str, topic: str) -> None:
        """Raises SubscriptionError DENIED, UNKNOWN_TOPIC, DAMAGED."""
        self._host.check(caller, right, topic)

    async def ask(self, caller: str, service: str, **arguments: Any) -> Any:
        """What a service of the host answers to ``caller``. Raises SubscriptionError."""
        return await self.run(self._host.ask, caller, service, **arguments)

    async def until_event(self, topic: str, subscription: str) -> float:
        """Seconds after which something may be due."""
        return float(await self.run(self._host.until_event, topic, subscription))

    async def run(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call it on one of the threads."""
        return await self._loop.run_in_executor(self._threads, partial(call, *arguments, **named))

    def listen(self, topics: Iterable[str], event: asyncio.Event) -> None:
        """Set ``event`` whenever something may be new in one of ``topics``."""
        for topic in topics:
            self._waiting.setdefault(topic, set()).add(event)

    def unlisten(self, topics: Iterable[str], event: asyncio.Event) -> None:
        """No longer."""
        for topic in topics:
            waiting = self._waiting.get(topic, set())
            waiting.discard(event)
            if not waiting:
                self._waiting.pop(topic, None)

    def _told(self, topic: str) -> None:
        """On any thread, the host's lock held: one call into the loop for all that comes before it runs."""
        if topic not in self._waiting or topic in self._changed:
            return
        self._changed.add(topic)
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            pass  # the loop has ended

    def _wake(self) -> None:
        changed = list(self._changed)
        self._changed.difference_update(changed)
        for event in [event for topic in changed for event in self._waiting.get(topic, ())]:
            event.set()

    def close(self) -> None:
        """Wait for what is asked, and ask no more."""
        self._host.unwatch(self._told)
        self._threads.shutdown()


async def set_within(event: asyncio.Event, seconds: float) -> None:
    """Wait until ``event`` is set, at most for so long."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except asyncio.TimeoutError:
        pass
