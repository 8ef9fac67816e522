"""Threads of a node that do for an event loop what may wait: no executor of the program is filled by it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any

from speed.errors import NodeClosedError
from speed.runtime import locks

MAX_THREADS = 64


class Threads:
    """Daemon threads, started when needed. Jobs of one key run one after the other, in their order. Thread-safe."""

    def __init__(self, name: str, role: str) -> None:
        self._name = f"speed-{name}-{role}"
        self._lock = locks.lock("threads")
        self._job_there = threading.Condition(self._lock)
        self._jobs: deque[tuple[Hashable, Callable[[], None]]] = deque()
        self._behind: dict[Hashable, deque[Callable[[], None]]] = {}
        """Jobs of each key that one is under way of."""
        self._threads = 0
        self._idle = 0
        self._is_over = False

    def run(self, key: Hashable, function: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
        """Run it in the present context; a cancelled Future whose turn has not come never runs."""
        future: Future[Any] = Future()
        context = copy_context()

        def job() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(context.run(function, *arguments, **named))
                except BaseException as error:
                    future.set_exception(error)

        with self._lock:
            if self._is_over:
                raise NodeClosedError("the node was closed: nothing is awaited any more")
            if key is not None and key in self._behind:
                self._behind[key].append(job)
                return future
            if key is not None:
                self._behind[key] = deque()
            self._add(key, job)
        return future

    def _add(self, key: Hashable, job: Callable[[], None]) -> None:
        self._jobs.append((key, job))
        if self._idle:
            self._idle -= 1
            self._job_there.notify()
        elif self._threads < MAX_THREADS:
            self._threads += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._threads}", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                while not self._jobs:
                    if self._is_over:
                        return
                    self._idle += 1
                    self._job_there.wait()
                key, job = self._jobs.popleft()
            job()
            with self._lock:
                behind = self._behind.get(key)
                if behind:
                    self._add(key, behind.popleft())
                elif behind is not None:
                    del self._behind[key]

    def stop(self) -> None:
        """What is queued still runs, and ends at once: the node is closed."""
        with self._lock:
            self._is_over = True
            self._idle = 0
            self._job_there.notify_all()
