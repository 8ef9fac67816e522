"""Threads of a node: their locks, forks (R-23), signals in the middle of work (S-25), the interpreter's end (R-15).

The hook is installed before the first node starts, never at import. In the child it closes the parent's
descriptors and marks its nodes; their methods raise ForkedNodeError. A fork waits for imports at first use.

A program's code that forks on a thread of a node must not return there in the child: that thread would answer, finish
and commit what is the parent's. ``ProgramsCode`` ends the child instead.

Python runs such a handler between any two lines of the main thread, also while that holds a lock of the node. An end
of the node that waits for this lock would wait for ever.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextvars import copy_context
from functools import cache
from typing import Any, NoReturn, Protocol

from speed.core import log
from speed.core.log import logger
from speed.errors import NodeClosedError
from speed.wire import lazily

# The locks of a node, each made under the name that ``speed.engine.python`` orders it by: tests watch them.


def lock(name: str) -> threading.Lock:
    """A lock of that place in the order."""
    return threading.Lock()


def reentrant(name: str) -> threading.RLock:
    """The same, for a thread that takes it again."""
    return threading.RLock()


# Threads of a node that do for an event loop what may wait: no executor of the program is filled by it.

MAX_THREADS = 64


class Threads:
    """Daemon threads, started when needed. Jobs of one key run one after the other, in their order. Thread-safe."""

    def __init__(self, name: str, role: str) -> None:
        self._name = f"speed-{name}-{role}"
        self._lock = lock("threads")
        self._job_there = threading.Condition(self._lock)
        self._jobs: deque[tuple[Hashable, Callable[[], None]]] = deque()
        self._queued: dict[Hashable, deque[Callable[[], None]]] = {}
        """Jobs that wait for the running job of their key."""
        self._threads = 0
        self._idle = 0
        self._is_over = False

    def run(self, key: Hashable, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
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
            if key is not None and key in self._queued:
                self._queued[key].append(job)
                return future
            if key is not None:
                self._queued[key] = deque()
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
            del job  # else who idles holds what it did last, and its node
            with self._lock:
                queued = self._queued.get(key)
                if queued:
                    self._add(key, queued.popleft())
                elif queued is not None:
                    del self._queued[key]

    def stop(self) -> None:
        """What is queued still runs, and ends at once: the node is closed."""
        with self._lock:
            self._is_over = True
            self._idle = 0
            self._job_there.notify_all()


# Fork rules: a child never shares a sequence, nonce, descriptor, lock or thread with its parent.


class Forkable(Protocol):
    """What the hook needs of a node."""

    def _after_fork_in_child(self) -> None: ...


CHILD_STATUS = 1
_CHILD_ENDS = b"""\
a process that was forked in a service, handler or callback of a SPEED node returned from it, and ends here: \
end such a process with os._exit
"""


class ProgramsCode:
    """A scope for what a program registered, on a thread of a node: a child that was forked in it ends with it."""

    __slots__ = ("_process",)

    def __enter__(self) -> None:
        self._process = os.getpid()

    def __exit__(self, *_: object) -> None:
        if os.getpid() != self._process:
            end_child()


def end_child() -> NoReturn:
    """Say why, and end this process as ``os._exit`` does: nothing of the parent is flushed, told or released."""
    with contextlib.suppress(OSError):
        os.write(2, _CHILD_ENDS)
    os._exit(CHILD_STATUS)


log.exits_pass = lambda: threading.current_thread() is threading.main_thread()

_nodes: weakref.WeakSet[Forkable] = weakref.WeakSet()
_lock = threading.Lock()
_importing = threading.RLock()
_installed = False


def prepare() -> None:
    """Have forks wait for imports from now on: the first thread of a node may begin one before the node is tracked."""
    global _installed
    with _lock:
        if not _installed and hasattr(os, "register_at_fork"):
            lazily.guard = _importing
            os.register_at_fork(before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_in_child)
            _installed = True


def track(node: Forkable) -> None:
    """Have ``node`` told in every forked child."""
    with _lock:
        _nodes.add(node)


def _in_child() -> None:
    global _lock
    _importing.release()
    _lock = threading.Lock()  # another thread of the parent may have held it
    for node in list(_nodes):
        node._after_fork_in_child()
    _nodes.clear()


# What the handler of a signal does in the middle of a node's own work (S-25).

_log = logger("speed.node")

HANDLER_GRACE_SECONDS = 1.0
"""How long a handler waits for an end after its drain time. Then the interrupted work goes on."""


def run(end: Callable[[float], None], drain_seconds: float) -> None:
    """Do ``end(drain_seconds)``: here, or where a handler interrupted the node's work, on a thread of its own.

    The handler waits for it, but returns where it needs a lock that the interrupted work holds: it comes to its end
    once that goes on. The interpreter waits for it.
    """
    if not _has_interrupted():
        end(drain_seconds)
        return
    thread = threading.Thread(target=_guarded, args=(end, drain_seconds), name="speed-end", daemon=False)
    thread.start()
    thread.join(drain_seconds + HANDLER_GRACE_SECONDS)


def _guarded(end: Callable[[float], None], drain_seconds: float) -> None:
    try:
        end(drain_seconds)
    except Exception:
        _log.exception("the end of a node failed")


def _has_interrupted() -> bool:
    """Whether a verb of a node called this thread's program, which called back: a handler of a signal does that."""
    if threading.current_thread() is not threading.main_thread():
        return False
    frame = sys._getframe()
    was_programs = False
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if was_programs and module.startswith("speed.engine."):
            return True
        was_programs |= not module.startswith("speed.")
        frame = frame.f_back  # type: ignore[assignment]
    return False


class Closable(Protocol):
    """What is asked of an engine."""

    def close(self, drain_seconds: float) -> None: ...


_open: dict[Closable, int] = {}
"""With the process that opened each: a forked child ends without touching those of its parent."""


def close_at_exit(engine: Closable) -> None:
    """Have ``engine`` closed at the end, unless it is before."""
    _register()
    with _lock:
        _open[engine] = os.getpid()


def forget_at_exit(engine: Closable) -> None:
    """It is closed, or another process's."""
    _open.pop(engine, None)


@cache
def _register() -> None:
    atexit.register(_close_all)


def _close_all() -> None:
    for engine, process in list(_open.items()):
        if process == os.getpid():
            engine.close(0.0)
