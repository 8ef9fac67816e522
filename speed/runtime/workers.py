"""The worker threads of a node: services and handlers run here, never on the protocol thread (RFC 2.3)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

log = logging.getLogger("speed.workers")

Task = tuple[Callable[..., None], tuple[Any, ...]]


class WorkerPool:
    """At most ``size`` daemon threads, started one by one when no thread is free.

    Tasks start in the order of ``submit``. Thread-safe.
    """

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._unfinished = 0
        self._drained = threading.Condition(self._lock)

    def submit(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run ``function(*arguments)`` on a worker; its exceptions are logged, never raised."""
        with self._lock:
            self._unfinished += 1
            if len(self._threads) < min(self._unfinished, self._size):
                self._start_thread()
        self._tasks.put((function, arguments))

    def _start_thread(self) -> None:
        thread = threading.Thread(
            target=self._work, name=f"speed-{self._name}-worker-{len(self._threads) + 1}", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            function, arguments = task
            try:
                function(*arguments)
            except Exception:
                log.exception("worker task failed")
            del task, function, arguments
            with self._lock:
                self._unfinished -= 1
                if not self._unfinished:
                    self._drained.notify_all()

    def drain(self, timeout_seconds: float) -> bool:
        """Wait until no task is queued or running; False if the time was not enough."""
        with self._drained:
            return self._drained.wait_for(lambda: not self._unfinished, timeout_seconds)

    def stop(self, timeout_seconds: float = 1.0) -> None:
        """Let every thread end after its present task; waits at most ``timeout_seconds``."""
        try:
            while True:
                self._tasks.get_nowait()
        except Empty:
            pass
        deadline = monotonic() + timeout_seconds
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - monotonic()))
