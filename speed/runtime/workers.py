"""Who runs services and handlers: the reader itself, and workers when it is held up (RFC 2.3).

A hand-over between threads costs more than most services. So the protocol thread, having read a batch and
given its role up, runs the tasks itself. The relief watches it: when it has been in one task for about a
millisecond, or is about to wait for an answer, the relief takes the protocol role, and workers take what is
queued. At most ``size`` tasks run at once; they start in the order in which they were submitted.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from time import monotonic
from typing import Any

log = logging.getLogger("speed.workers")

Task = tuple[Callable[..., None], tuple[Any, ...]]
TICK_SECONDS = 0.001
"""How often the relief looks while there is work."""
HELD_UP_SECONDS = 0.003
"""How long one task may hold the reader up before the relief reads in its place."""
WATCHFUL_SECONDS = 0.05
"""How long the relief goes on looking after the last work; then it sleeps until called."""


class WorkerPool:
    """Runs tasks on the leader (the protocol thread) and on up to ``size`` workers. Thread-safe.

    ``lock`` guards the number of running tasks and the workers; nothing else is taken under it.
    """

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._tasks: deque[Task] = deque()
        self._calls: SimpleQueue[bool] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._running = 0
        self._free = 0
        self._leader = 0
        self._leading = False
        self._busy_since = 0.0
        self._turns = 0
        self._alarm = threading.Event()
        self._relief_sleeps = False
        self._stopping = False
        self.substitute: Callable[[], None] = lambda: None
        """One protocol step on behalf of the leader."""
        self.leader_free: Callable[[], None] = lambda: None
        """Gets the substitute out of its wait."""
        self.before_wait: Callable[[], None] = lambda: None
        """Sends what waits to be sent together, since the leader is held up."""
        self._substituting = False

    # --- submitting ---

    def submit(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run ``function(*arguments)``; its exceptions are logged, never raised."""
        self._tasks.append((function, arguments))
        if threading.get_ident() != self._leader:
            self._call_worker()

    def _call_worker(self) -> None:
        """Give what is queued to one more worker, if one more task may run."""
        with self._lock:
            if self._running >= self._size or not self._tasks or self._stopping:
                return
            self._running += 1
            if not self._free:
                self._start(self._work, f"worker-{len(self._threads)}")
            else:
                self._free -= 1
        self._calls.put(True)

    def _start(self, target: Callable[[], None], role: str) -> None:
        thread = threading.Thread(target=target, name=f"speed-{self._name}-{role}", daemon=True)
        self._threads.append(thread)
        thread.start()

    # --- running ---

    def _run_tasks(self, timed: bool) -> None:
        """Run what is queued until nothing is, then give the place up; the caller has taken one.

        A worker also gives up once the leader gets on by itself: two threads at this are slower than one.
        """
        while True:
            if not timed and self._leader_gets_on():
                return
            try:
                function, arguments = self._tasks.popleft()
            except IndexError:
                if timed:
                    self.before_wait()
                if self._give_place_up():
                    return
                continue
            if timed:
                self._busy_since = monotonic()
            try:
                function(*arguments)
            except Exception:
                log.exception("task failed")
            del function, arguments

    def _give_place_up(self) -> bool:
        """Under the lock, so that a task queued meanwhile is either seen here or starts another worker."""
        with self._lock:
            if self._tasks and not self._stopping:
                return False
            if threading.get_ident() == self._leader:
                self._leading = False
            self._running -= 1
            if not self._running:
                self._idle.notify_all()
            return True

    def _leader_gets_on(self) -> bool:
        with self._lock:
            if not self._leading or monotonic() - self._busy_since > HELD_UP_SECONDS:
                return False
            self._running -= 1
            return True

    def lead(self) -> None:
        """The calling thread is the leader from now on."""
        self._leader = threading.get_ident()

    def run_as_leader(self) -> None:
        """Run what the last step queued, on the leader; the protocol role is free meanwhile."""
        if not self._tasks:
            return
        with self._lock:
            if self._running >= self._size:
                return
            self._running += 1
            self._leading = True
            self._busy_since = monotonic()
            if not self._threads:
                self._start(self._relieve, "relief")
        self._turns += 1
        if self._relief_sleeps:
            self._alarm.set()
        self._run_tasks(timed=True)
        self._busy_since = 0.0
        if self._substituting:
            self.leader_free()

    def _work(self) -> None:
        while self._calls.get():
            self._run_tasks(timed=False)
            with self._lock:
                self._free += 1

    def on_leader(self) -> bool:
        """Whether the calling thread is the leader, running tasks."""
        return self._leading and threading.get_ident() == self._leader

    # --- relief ---

    def about_to_wait(self) -> None:
        """The calling thread will wait for an answer: if it is the leader, somebody else must read."""
        if self._busy_since and threading.get_ident() == self._leader:
            self._busy_since = -1.0
            self._alarm.set()

    def _relieve(self) -> None:
        while not self._stopping:
            self._relief_sleeps = True
            if not self._busy_since:
                self._alarm.wait(1.0)
            self._relief_sleeps = False
            until = monotonic() + WATCHFUL_SECONDS
            turns = -1
            while monotonic() < until and not self._stopping:
                self._alarm.clear()
                since = self._busy_since
                if since:
                    until = monotonic() + WATCHFUL_SECONDS
                    if monotonic() - since > HELD_UP_SECONDS:
                        self._take_over(since)
                if self._tasks and turns == self._turns and not self._busy_since:
                    self._call_worker()  # the leader had no place when it read them
                turns = self._turns
                self._alarm.wait(TICK_SECONDS)

    def _take_over(self, since: float) -> None:
        """Hold the protocol role while the leader is in the task it was in at ``since``."""
        self._substituting = True
        self.before_wait()
        try:
            while self._busy_since == since and not self._stopping:
                self._call_worker()
                self.substitute()
        finally:
            self._substituting = False

    # --- ending ---

    def drain(self, timeout_seconds: float) -> bool:
        """Wait until no task is queued or running; False if the time was not enough."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._running and not self._tasks, timeout_seconds)

    def stop(self, timeout_seconds: float = 1.0) -> None:
        """Let every thread end after its present task; waits at most ``timeout_seconds``."""
        self._stopping = True
        self._tasks.clear()
        self._alarm.set()
        deadline = monotonic() + timeout_seconds
        with self._lock:
            threads = list(self._threads)
        for _ in threads:
            self._calls.put(False)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - monotonic()))
