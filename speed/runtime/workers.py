"""The threads of a node that read and run: one holds the protocol role, others run tasks (RFC 2.1, 2.3).

Whoever holds the role and reads requests gives the role up and runs them itself, one after the other: no
hand-over between threads where one would do. The relief looks about every millisecond, only while there is
something to look at: a runner held up in one task is relieved of reading by another thread, and of the
tasks behind it. So a running service never blocks message processing.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any, Protocol

from speed.errors import NodeStateError

log = logging.getLogger("speed.workers")

Task = tuple[Callable[..., None], tuple[Any, ...], bool]
"""What to run, with what, and whether it must have begun before the next is taken."""

TICK_SECONDS = 0.001
IDLE_TICKS = 30
"""The relief sleeps after so many ticks without anything to look at."""
SLOW_TASKS = 8
"""Tasks that end in one tick; with fewer the queue gets another runner, with more it would only cost switches."""
TASK_SECONDS = 1.0
FLUSH_SECONDS = 0.0005
FLUSH_ANSWERS = 64


class Caller(Protocol):
    """A thread that waits for an answer."""

    done: bool


class WorkerPool:
    """``size`` tasks at once at most, on ``size + 1`` daemon threads, started one by one when needed.

    Tasks start in the order of ``submit``. Thread-safe. ``size + 1`` because one thread can always read.
    ``step(wait)`` is one turn of reading under ``role``; ``flush`` sends answers, ``flush_at_once`` those with room.
    """

    def __init__(self, name: str, size: int) -> None:
        self.role = threading.Lock()
        self.serves = False
        """Whether others may need this node at any time; if not, a waiting caller may hold the role between times."""
        self._name = name
        self._size = size
        self._tasks: deque[Task] = deque()
        self._lock = threading.Lock()
        self._settled = threading.Condition(self._lock)
        self._threads: list[threading.Thread] = []
        self._resting: list[threading.Lock] = []
        self._running = 0
        self._ended = 0
        self._turns = 0
        self._stopping = False
        self._runners: set[int] = set()
        self._gate = threading.Lock()
        self._gate_holder = 0
        self._leader = 0
        self._caller_waits = False
        self._relief_sleeps = True
        self._relief_gate = threading.Lock()
        self._relief_gate.acquire()
        self._relief = threading.Thread(target=self._relieve, name=f"speed-{name}-relief", daemon=True)

    def start(
        self,
        step: Callable[[bool], None],
        expect: Callable[[], None],
        flush: Callable[[], None],
        flush_at_once: Callable[[], None],
        waiting: Callable[[], int],
        calls: Callable[[], int],
        delayed: Callable[[], int],
        hurry: Callable[[], None],
    ) -> None:
        """Begin to read.

        ``waiting()`` counts unsent answers, ``calls()`` unanswered calls of this node, ``delayed()`` those whose
        requests wait to leave; ``hurry()`` sends them.
        """
        self._step = step
        self._expect = expect
        self._flush = flush
        self._flush_at_once = flush_at_once
        self._waiting = waiting
        self._calls = calls
        self._delayed = delayed
        self._hurry = hurry
        self._relief.start()
        self._call_member()

    # --- tasks ---

    def queue(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run a task after the present turn; only for the thread that holds the role.

        The task calls ``entered`` once it has begun: until then no other is taken (S-5).
        """
        self._tasks.append((function, arguments, True))

    def submit(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run ``function(*arguments)`` on a worker; its exceptions are logged, never raised."""
        self._tasks.append((function, arguments, False))
        if threading.get_ident() not in self._runners and not self._stopping:
            self._call_member()

    @property
    def on_worker(self) -> bool:
        """Whether this thread runs a task: what it finishes can wait for the flush after it."""
        return threading.get_ident() in self._runners

    # --- members ---

    def _call_member(self) -> None:
        """Have one more thread look for work: a resting one, or a new one while there may be more."""
        with self._lock:
            if self._resting:
                self._resting.pop().release()
            elif len(self._threads) <= self._size and not self._stopping:
                role = f"worker-{len(self._threads)}" if self._threads else "protocol"
                thread = threading.Thread(target=self._member, name=f"speed-{self._name}-{role}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _member(self) -> None:
        gate = threading.Lock()
        gate.acquire()
        while not self._stopping:
            if self.role.acquire(blocking=False):
                self._hold_role()
                if not self._tasks and self._rest(gate, yielding=True):
                    continue
            if self._tasks and self._begin():
                self._run()
            elif self.role.locked():
                self._rest(gate)

    def _hold_role(self) -> None:
        """Read until there is something to run, or a caller wants to read its answers itself."""
        try:
            while not self._stopping:
                self._turns += 1
                self._guarded_step(not self._tasks or self._running >= self._size)
                if self._tasks and self._running < self._size:
                    return
                if self._caller_waits and self._callers_may_read():
                    return
        finally:
            self.role.release()

    def _guarded_step(self, wait: bool) -> None:
        try:
            self._step(wait)
        except Exception:
            log.exception("protocol step failed")
            sleep(0.05)

    def _callers_may_read(self) -> bool:
        return not self.serves and not self._calls() and not self._tasks

    def _rest(self, gate: threading.Lock, *, yielding: bool = False) -> bool:
        """Sleep until called; not if there is something to do. ``yielding``: leave the free role to callers."""
        with self._lock:
            if self._stopping or (self._tasks and self._running < self._size):
                return False
            if yielding:
                if not (self._caller_waits and self._callers_may_read()):
                    return False
                self._caller_waits = False
            elif not self.role.locked():
                return False
            self._resting.append(gate)
        if yielding:
            self.watch()
        gate.acquire()
        return True

    def _begin(self) -> bool:
        with self._lock:
            if self._running >= self._size:
                return False
            self._running += 1
        self._runners.add(threading.get_ident())
        return True

    def _run(self) -> None:
        """Run tasks until none is queued; answers leave in between when they are many or old."""
        self.watch()
        tasks = self._tasks
        looked = flushed = monotonic()
        while not self._stopping:
            self._gate.acquire()
            self._gate_holder = threading.get_ident()
            try:
                function, arguments, in_order = tasks.popleft()
            except IndexError:
                self.entered()
                self._guarded(self._flush)
                if not tasks:
                    break
                continue
            if not in_order:
                self.entered()
            try:
                function(*arguments)
            except BaseException:  # a handler's own exit ends its task, not the worker
                log.exception("worker task failed")
            self.entered()
            self._ended += 1
            del function, arguments
            now = monotonic()
            if now - flushed > FLUSH_SECONDS or self._waiting() >= FLUSH_ANSWERS:
                self._guarded(self._flush)
                flushed = now
            if now - looked > TICK_SECONDS:
                self._look_in()
                looked = now
        self._runners.discard(threading.get_ident())
        with self._lock:
            self._running -= 1
            if not self._running and not tasks:
                self._settled.notify_all()

    def entered(self) -> None:
        """The task of this thread has begun: only now the next may be taken, so tasks begin in order (S-5)."""
        if self._gate_holder == threading.get_ident():
            self._gate_holder = 0
            self._gate.release()

    def _look_in(self) -> None:
        """Read what came meanwhile, without waiting, if nobody else does."""
        if self.role.acquire(blocking=False):
            try:
                self._turns += 1
                self._guarded_step(False)
            finally:
                self.role.release()

    def _guarded(self, send: Callable[[], None]) -> None:
        try:
            send()
        except Exception:
            log.exception("answers or requests not sent")

    # --- callers ---

    def lead(self, caller: Caller) -> None:
        """Let a waiting caller read by itself until it is done, if nobody else reads and nobody would miss it.

        Returns early if another thread reads; then that one completes the caller.
        """
        worker = self.on_worker
        if not worker and self.serves:
            return
        if not self.role.acquire(blocking=False):
            if self._leader == threading.get_ident():
                raise NodeStateError("a signal handler that interrupted a call cannot call and wait: use submit")
            self._caller_waits = not worker
            return
        try:
            self._leader = threading.get_ident()
            self._expect()
            while not caller.done and not self._stopping:
                self._turns += 1
                self._guarded_step(True)
                if self._tasks:
                    self._call_member()
        finally:
            self._leader = 0
            self.role.release()
        if self._tasks or self._calls():
            self._call_member()
        else:
            self.watch()

    def ensure_reader(self) -> None:
        """Have somebody read, since an answer is awaited that no thread waits for."""
        if not self.role.locked() and not self.on_worker:
            self._call_member()

    # --- relief ---

    def watch(self) -> None:
        """Have the relief look on: the role is free for now, and somebody should notice if it stays so."""
        if self._relief_sleeps:
            with self._lock:
                if self._relief_sleeps:
                    self._relief_sleeps = False
                    self._relief_gate.release()

    def _relieve(self) -> None:
        idle = 0
        while not self._stopping:
            if idle >= IDLE_TICKS:
                self._relief_sleeps = True
                if not self._needs_relief():
                    self._relief_gate.acquire()
                    idle = 0
                else:
                    self.watch()
                    self._relief_gate.acquire()
            ended, turns, waiting = self._ended, self._turns, self._waiting()
            sleep(TICK_SECONDS)
            idle = 0 if self._needs_relief() else idle + 1
            if self._delayed():
                self._guarded(self._hurry)
            if waiting and self._ended == ended:
                self._guarded(self._flush_at_once)
                if not (self._running or self._tasks) and self._waiting():
                    self.submit(self._flush)  # a worker may wait for room
            slow = self._ended - ended < SLOW_TASKS
            if slow and not self.role.locked() and (self._tasks or self._turns == turns):
                self._call_member()

    def _needs_relief(self) -> bool:
        return self._running > 0 or not self.role.locked() or self._delayed() > 0

    # --- the end ---

    def drain(self, timeout_seconds: float) -> bool:
        """Wait until no task is queued or running; False if the time was not enough."""
        with self._settled:
            return self._settled.wait_for(lambda: not self._running and not self._tasks, timeout_seconds)

    def stop(self, wake: Callable[[], None], timeout_seconds: float) -> None:
        """Let every thread end after its present turn or task; ``wake`` ends the wait of who reads.

        Waits at most ``timeout_seconds`` for the reader and a second for tasks.
        """
        self._stopping = True
        self._tasks.clear()
        wake()
        if self.role.acquire(timeout=timeout_seconds):
            self.role.release()
        self.watch()
        with self._lock:
            while self._resting:
                self._resting.pop().release()
        deadline = monotonic() + TASK_SECONDS
        for thread in (self._relief, *self._threads):
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - monotonic()))
