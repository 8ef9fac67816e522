"""The threads that run what a program registered: services, handlers, callbacks (RFC 2.3)."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

log = logging.getLogger("speed.workers")

Task = tuple[Callable[..., None], tuple[Any, ...]]
TASK_SECONDS = 1.0


class WorkerPool:
    """``size`` tasks at once at most, on daemon threads, started one by one when needed. Thread-safe.

    Tasks start in the order of ``submit``.
    """

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._tasks: deque[Task] = deque()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._running = 0
        self._stopping = False

    def submit(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run ``function(*arguments)`` on a worker; its exceptions are logged, never raised."""
        with self._changed:
            if self._stopping:
                return
            self._tasks.append((function, arguments))
            if len(self._tasks) + self._running > len(self._threads) < self._size:
                self._start_one()
            self._changed.notify_all()

    def _start_one(self) -> None:
        name = f"speed-{self._name}-worker-{len(self._threads) + 1}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _run(self) -> None:
        while (task := self._take()) is not None:
            try:
                task[0](*task[1])
            except BaseException:  # a handler's own exit ends its task, not the worker
                log.exception("worker task failed")
            del task
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _take(self) -> Task | None:
        with self._changed:
            while not self._tasks and not self._stopping:
                self._changed.wait()
            if self._stopping:
                return None
            self._running += 1
            return self._tasks.popleft()

    def drain(self, timeout_seconds: float) -> bool:
        """Wait until no task is queued or running; False if the time was not enough."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running and not self._tasks, timeout_seconds)

    def stop(self) -> None:
        """Let every thread end after its present task; waits a second for them."""
        with self._changed:
            self._stopping = True
            self._tasks.clear()
            self._changed.notify_all()
        deadline = monotonic() + TASK_SECONDS
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - monotonic()))
