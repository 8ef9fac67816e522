"""Messages for those who await one: one thread fetches for all, and nothing that it fetched is lost (T-7)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any, NamedTuple, Protocol

from speed.engine import threads
from speed.engine.message import Message
from speed.errors import NodeClosedError, NodeStateError, SpeedError, WireError, fresh
from speed.message.errors import AwayError
from speed.wire.limits import RETRY_FIRST_SECONDS


class Fetched(NamedTuple):
    """A message, and what its engine takes to have it put back."""

    message: Message
    token: Any


class Fetcher(Protocol):
    """An engine that messages are fetched from, and put back into."""

    def fetch(self, timeout: float | None, is_abandoned: Callable[[], bool]) -> tuple[Message, Any] | None: ...
    def put_back(self, token: Any) -> None: ...
    def wake_receivers(self) -> None: ...


class Receiving:
    """Gives each message to the one who has waited longest. Its thread is started when first needed. Thread-safe.

    ``opened`` checks what was fetched, and decrypts it where the node has security.
    """

    def __init__(self, name: str, engine: Fetcher, opened: Callable[[Message], Message]) -> None:
        self._name, self._engine, self._opened = name, engine, opened
        self._asked = threading.Condition(threads.lock("receiving"))
        self._waiting: deque[Future[Fetched]] = deque()
        self._thread: threading.Thread | None = None
        self._end: SpeedError | None = None

    def ask(self) -> Future[Fetched]:
        """The next message. Cancel it to wait no longer; what it was given all the same goes back by ``put_back``."""
        waiter: Future[Fetched] = Future()
        with self._asked:
            if self._end is not None:
                raise fresh(self._end)
            self._waiting.append(waiter)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"speed-{self._name}-receive", daemon=True)
                self._thread.start()
            self._asked.notify()
        waiter.add_done_callback(self._ended)
        return waiter

    def fetch_at_once(self) -> Fetched | None:
        """What is there already."""
        return self._fetch(0.0, lambda: False)

    def put_back(self, waiter: Future[Fetched]) -> None:
        """Nobody looks at what ``waiter`` was given: it is fetched by the next one."""
        if not waiter.cancelled() and waiter.exception() is None:
            self._engine.put_back(waiter.result().token)

    def stop(self) -> None:
        """The node is closed."""
        self._stop(NodeClosedError("the node was closed: nothing is awaited any more"))

    # --- the thread that fetches ---

    def _run(self) -> None:
        try:
            while self._is_wanted():
                fetched = self._fetch(None, self._is_abandoned)
                if fetched is not None and not self._given(fetched):
                    self._engine.put_back(fetched.token)
        except SpeedError as error:
            self._stop(error)
        except BaseException as error:
            self._stop(NodeStateError(f"what waits for messages failed: {error!r}"))
            raise

    def _is_wanted(self) -> bool:
        """Waits until somebody waits; False at the end."""
        with self._asked:
            while not self._waiting and self._end is None:
                self._asked.wait()
            return self._end is None

    def _is_abandoned(self) -> bool:
        return not self._waiting

    def _fetch(self, timeout_seconds: float | None, is_abandoned: Callable[[], bool]) -> Fetched | None:
        deadline = None if timeout_seconds is None else monotonic() + timeout_seconds
        while (found := self._engine.fetch(timeout_seconds, is_abandoned)) is not None:
            message, token = found
            try:
                return Fetched(self._opened(message), token)
            except AwayError:
                self._engine.put_back(token)
                if deadline is not None and monotonic() >= deadline:
                    return None
                self._pause()
            except WireError:
                message.done()  # said in the log
        return None

    def _pause(self) -> None:
        """What could not be judged is looked at again after a moment."""
        with self._asked:
            self._asked.wait_for(lambda: self._end is not None, RETRY_FIRST_SECONDS)

    def _given(self, fetched: Fetched) -> bool:
        while (waiter := self._first()) is not None:
            if waiter.set_running_or_notify_cancel():
                waiter.set_result(fetched)
                return True
        return False

    def _first(self) -> Future[Fetched] | None:
        with self._asked:
            return self._waiting.popleft() if self._waiting else None

    # --- ends ---

    def _ended(self, waiter: Future[Fetched]) -> None:
        """One who cancelled waits no longer."""
        with self._asked:
            if waiter not in self._waiting:
                return
            self._waiting.remove(waiter)
            is_last = not self._waiting
        if is_last:
            self._engine.wake_receivers()

    def _stop(self, error: SpeedError) -> None:
        with self._asked:
            self._end = self._end or error
            waiting = list(self._waiting)
            self._waiting.clear()
            self._asked.notify_all()
        for waiter in waiting:
            if waiter.set_running_or_notify_cancel():
                waiter.set_exception(fresh(error))
