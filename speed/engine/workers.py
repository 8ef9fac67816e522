"""The threads that run what a program registered; who runs what next says the Scheduler (T-n).

A worker that waits for another node gives its place to others for that time: ``place_given_up``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Any, NamedTuple, Protocol

from speed.core.log import logger
from speed.core.scheduler import Admission, Kind, Overdue, Scheduler, Work, WorkState
from speed.engine import threads
from speed.engine.threads import ProgramsCode

log = logger("speed.workers")

END_SECONDS = 0.5
"""How long the end of a node waits for workers that still run something."""


class RequestItem(Protocol):
    """A request as a worker runs it; requests of one sender are prepared in the order of their arrival (S-5)."""

    def prepare(self) -> Callable[[], None]: ...


class MessageItem(Protocol):
    """A message or event as a worker runs it."""

    priority: int
    order: Hashable
    is_event: bool

    def run(self, work: Work) -> None: ...
    def finish(self) -> None: ...


class AtWork(NamedTuple):
    """What runs here: in a service, a handler or a callback, and in what these await."""

    pool: WorkerPool
    work: Work
    worker: threading.Thread | None
    """The thread that waits for its end; None where the pool knows by itself."""


at_work: ContextVar[AtWork | None] = ContextVar("speed_at_work", default=None)


@contextmanager
def place_given_up() -> Iterator[None]:
    """Let others have this worker's place while it waits for another node; nothing on other threads (T-3)."""
    here = at_work.get()
    given = here is not None and here.pool.block(here.work)
    try:
        yield
    finally:
        if given and here is not None:
            here.pool.resume(here.work)


class WorkerPool:
    """The Scheduler of one node, its lock and its workers, daemon threads started when needed. Thread-safe."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._limit = size + 1
        self._scheduler = Scheduler(size)
        self._turn = threads.lock("turn")
        """Held from taking a request to its beginning, so that requests begin in order."""
        self._lock = threads.lock("work")
        self._settled = threading.Condition(self._lock)
        self._arrived = threading.Condition(self._lock)
        self._threads: list[threading.Thread] = []
        self._idle: list[threading.Lock] = []
        """What each worker at rest waits for; who came last goes first."""
        self._waits: dict[Work, int] = {}
        """Work whose worker waits for another node, and for how many at once."""
        self._lacks_threads = False
        self._stopping = False

    # --- arrivals ---

    def request(self, sender: str, key: str, item: RequestItem, deadline: float) -> Admission:
        """Accept a request, whose deadline is in monotonic seconds."""
        with self._lock:
            admission, _ = self._scheduler.request(sender, key, item, deadline)
            if admission is Admission.WAITING:
                self._wake()
        return admission

    def message(self, sender: str, item: MessageItem, takes: Callable[[Any], bool]) -> Work | None:
        """Accept a message or event; None once the node leaves. ``takes`` says whether the program takes it by now."""
        with self._lock:
            work = self._scheduler.message(
                sender,
                item,
                monotonic(),
                priority=item.priority,
                order=item.order,
                is_event=item.is_event,
                claimed=takes(item),
            )
            if work is not None and work.state is WorkState.UNCLAIMED:
                self._arrived.notify_all()
            elif work is not None:
                self._wake()
        return work

    def submit(self, function: Callable[..., object], *arguments: Any) -> None:
        """Run ``function(*arguments)`` on a worker; its exceptions are logged, never raised."""
        with self._lock:
            if not self._stopping:
                self._scheduler.task((function, arguments))
                self._wake()

    def claim(self, register: Callable[[], None], takes: Callable[[Any], bool]) -> None:
        """Let ``register`` say what the program takes from now on, and hand over what waited for that."""
        with self._lock:
            register()
            self._wake(self._scheduler.claim(takes))

    # --- fetching ---

    def fetch(self, timeout_seconds: float | None, is_over: Callable[[], bool]) -> Work | None:
        """The next message that nothing takes; None after the timeout, or when ``is_over``, which may raise."""
        deadline = None if timeout_seconds is None else monotonic() + timeout_seconds
        with self._lock:
            while not is_over():
                work = self._scheduler.receive()
                left = 1.0 if deadline is None else deadline - monotonic()
                if work is not None or left <= 0:
                    return work
                self._arrived.wait(min(left, 1.0))
            return None

    def put_back(self, work: Work, takes: Callable[[Any], bool]) -> None:
        """The fetch of ``work`` was cancelled: it is fetched, or handled, next."""
        with self._lock:
            if work.state is WorkState.IN_HAND:
                self._scheduler.put_back(work)
                self._wake(self._scheduler.claim(takes))
                self._arrived.notify_all()

    def wake_receivers(self) -> None:
        with self._lock:
            self._arrived.notify_all()

    # --- ends ---

    def done(self, work: Work) -> None:
        """``work`` has ended, by who fetched it, or by who closes the node from it: another worker may go on."""
        with self._lock:
            self._end(work)
            self._wake()

    def _end(self, work: Work) -> None:
        if work.state in (WorkState.RUNNING, WorkState.BLOCKED, WorkState.IN_HAND):
            self._scheduler.done(work)
            self._waits.pop(work, None)
            if self._scheduler.is_settled:
                self._settled.notify_all()

    def again(self, work: Work, seconds: float) -> None:
        """Handling failed: try once more after a while, in its place."""
        with self._lock:
            if work.state in (WorkState.RUNNING, WorkState.BLOCKED):
                self._scheduler.again(work, monotonic() + seconds)

    def withdraw(self, sender: str, key: str) -> Work | None:
        with self._lock:
            return self._scheduler.withdraw(sender, key)

    def has(self, sender: str, key: str) -> bool:
        with self._lock:
            return self._scheduler.has(sender, key)

    def load(self) -> dict[str, int]:
        """What waits and what runs, as STATS tells it."""
        with self._lock:
            return {**self._scheduler.load(), "workers": self._limit - 1}

    def forget(self, sender: str) -> tuple[Work, ...]:
        with self._lock:
            return self._scheduler.forget(sender)

    def expire(self, now: float) -> Overdue:
        """What is over its time; what waited for its next try may be taken."""
        with self._lock:
            due = self._scheduler.next_time()
            if self._lacks_threads:
                self._lacks_threads = False
                self._wake()
            if due is None or due > now:
                return Overdue()
            overdue = self._scheduler.expire(now)
            self._wake()
        return overdue

    def next_time(self) -> float | None:
        with self._lock:
            return self._scheduler.next_time()

    # --- workers ---

    def _wake(self, count: int = 1) -> None:
        """Have so many more workers look for work: idle ones, or new ones while there may be more."""
        for _ in range(count):
            if self._idle:
                self._idle.pop().release()
            elif len(self._threads) < self._limit + len(self._waits) and not self._stopping:
                self._start_one()

    def _start_one(self) -> None:
        name = f"speed-{self._name}-worker-{len(self._threads) + 1}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # those that are there go on, and it is tried again
            log.warning("no further worker can be started: %s", error)
            self._lacks_threads = True
            return
        self._threads.append(thread)

    def _run(self) -> None:
        rest = threads.lock("outcome")
        rest.acquire()
        while not self._stopping:
            work = self._take(rest)
            if work is None:
                rest.acquire()
            else:
                self._work_on(work)

    def _take(self, rest: threading.Lock) -> Work | None:
        """What is to be done next, with the turn; None if nothing is: ``rest`` is released once that has changed."""
        self._turn.acquire()
        with self._lock:
            work = self._scheduler.take(monotonic())
            if work is None:
                self._turn.release()
                self._idle.append(rest)
                if self._stopping:
                    self._rouse()
            return work

    def _rouse(self) -> None:
        while self._idle:
            self._idle.pop().release()

    def _work_on(self, work: Work) -> None:
        token = at_work.set(AtWork(self, work, threading.current_thread()))
        try:
            if work.kind is Kind.REQUEST:
                try:
                    go_on = work.item.prepare()
                finally:
                    self._turn.release()
                go_on()
            else:
                self._turn.release()
                self._run_other(work)
        except BaseException:  # a handler's own exit ends its work, not the worker
            log.exception("what a worker ran failed")
        finally:
            at_work.reset(token)
            with self._lock:
                self._end(work)  # this worker looks for more itself

    def _run_other(self, work: Work) -> None:
        if work.kind is Kind.MESSAGE:
            work.item.run(work)
        else:
            function, arguments = work.item
            with ProgramsCode():
                function(*arguments)

    def block(self, work: Work) -> bool:
        """The worker of ``work`` waits for another node; False if it keeps its place."""
        with self._lock:
            waits = self._waits.get(work, 0)
            if not waits and not self._scheduler.blocked(work):
                return False
            self._waits[work] = waits + 1
            self._wake()
            return True

    def resume(self, work: Work) -> None:
        with self._lock:
            waits = self._waits.pop(work, 0) - 1
            if waits > 0:
                self._waits[work] = waits
            else:
                self._scheduler.resumed(work)

    # --- the end ---

    def leave(self) -> None:
        """No request and no message is accepted any more."""
        with self._lock:
            self._scheduler.leave()

    def drain(self, timeout_seconds: float) -> bool:
        """Wait until nothing waits or runs, but for what this is called from; False if the time was not enough."""
        here = at_work.get()
        if here is not None and here.pool is self:
            self._finish_early(here.work)
        with self._lock:
            return self._settled.wait_for(lambda: self._scheduler.is_settled, timeout_seconds)

    def _finish_early(self, work: Work) -> None:
        """``work`` itself closes the node. So the node counts it as done, and its message as handled."""
        if work.kind is Kind.MESSAGE:
            work.item.finish()
        self.done(work)

    def close(self) -> tuple[Work, ...]:
        """Nothing is taken any more; returns the requests that still waited."""
        with self._lock:
            return self._scheduler.close()

    def stop(self) -> None:
        """Let every thread end after what it runs; waits a moment for them."""
        with self._lock:
            self._scheduler.close()
            self._stopping = True
            self._rouse()
            self._settled.notify_all()
            running = list(self._threads)
        deadline = monotonic() + END_SECONDS
        here = at_work.get()
        waits_for_us = None if here is None else here.worker
        for thread in running:
            if thread is not threading.current_thread() and thread is not waits_for_us:
                thread.join(max(0.0, deadline - monotonic()))
