"""One fetch of a message that may be given up at any time without losing the message (T-7)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any, NamedTuple, Protocol

from speed.errors import WireError
from speed.message.errors import AwayError
from speed.runtime.message import Message

_SLICE_SECONDS = 0.25
_AWAY_SECONDS = 0.1
"""Pause before a message that could not be judged is looked at again."""


class Fetched(NamedTuple):
    """A message, and what its engine takes to have it put back."""

    message: Message
    token: Any


class Fetcher(Protocol):
    """An engine that messages are fetched from, and put back into."""

    def fetch(self, timeout: float | None, is_abandoned: Callable[[], bool]) -> tuple[Message, Any] | None: ...
    def put_back(self, token: Any) -> None: ...
    def wake_receivers(self) -> None: ...


class Slices:
    """Fetching from an engine that only has ``receive``: in short slices, so that one may be given up."""

    def __init__(self, receive: Callable[[float | None], Message | None]) -> None:
        self._receive = receive
        self._returned: deque[Message] = deque()

    def fetch(self, timeout: float | None, is_abandoned: Callable[[], bool]) -> tuple[Message, Any] | None:
        deadline = None if timeout is None else monotonic() + timeout
        while not is_abandoned():
            left = _SLICE_SECONDS if deadline is None else max(0.0, deadline - monotonic())
            message = self.returned() or self._receive(min(left, _SLICE_SECONDS))
            if message is not None:
                return message, message
            if deadline is not None and left <= _SLICE_SECONDS:
                return None
        return None

    def returned(self) -> Message | None:
        """What was fetched and put back, if anything."""
        return self._returned.popleft() if self._returned else None

    def put_back(self, token: Message) -> None:
        self._returned.append(token)

    def wake_receivers(self) -> None:
        """It wakes by itself."""


class Fetching:
    """Called on a thread that may wait; ``abandon`` and ``put_back`` from any. ``opened`` is the guard of the node."""

    def __init__(self, engine: Fetcher, timeout: float | None, opened: Callable[[Message], Message] | None) -> None:
        self._engine, self._opened = engine, opened
        self._deadline = None if timeout is None else monotonic() + timeout
        self._abandoned = threading.Event()

    def __call__(self, before: Message | None) -> Fetched | None:
        """The next message, None after the timeout; ``before`` is finished first."""
        if before is not None:
            before.done()
        while True:
            left = None if self._deadline is None else max(0.0, self._deadline - monotonic())
            found = self._engine.fetch(left, self._abandoned.is_set)
            if found is None:
                return None
            try:
                message, token = found
                return Fetched(message if self._opened is None else self._opened(message), token)
            except AwayError:
                self._engine.put_back(token)
                self._abandoned.wait(_AWAY_SECONDS if left is None else min(left, _AWAY_SECONDS))
                if left is not None and left <= 0:
                    return None
            except WireError:
                message.done()  # said in the log

    def abandon(self) -> None:
        """Nobody waits for it any longer."""
        self._abandoned.set()
        self._engine.wake_receivers()

    def put_back(self, fetching: Future[Fetched | None]) -> None:
        """Leave what it found all the same for the next one who asks."""
        if not fetching.cancelled() and fetching.exception() is None:
            fetched = fetching.result()
            if fetched is not None:
                self._engine.put_back(fetched.token)
