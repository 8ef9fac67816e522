"""The event loop of a node, on a thread of its own: it awaits what a program registered as ``async``."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from speed.core.log import logger
from speed.core.services import FunctionService, Request, Service
from speed.engine import threads
from speed.errors import NodeClosedError

if TYPE_CHECKING:
    import asyncio


log = logger("speed.workers")

END_SECONDS = 0.5
_CANCELLED_SECONDS = 0.05
"""How often a cancellation is looked at that cannot tell of itself."""


class EventLoop:
    """Started when first needed. A worker waits for what it awaits, so order and acknowledgement are as ever."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threads.lock("loop")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_over = False
        self._has_ended = False
        """Whether what was awaited at the end of the node has ended, or had its time."""

    @property
    def is_here(self) -> bool:
        """Whether this thread is the loop's own: nothing may be waited for on it."""
        return threading.current_thread() is self._thread

    def settled(self, handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """``handler``, and what it returns awaited if it is a coroutine."""

        def handle(argument: Any) -> Any:
            result = handler(argument)
            return self.run(result) if type(result) is CoroutineType else result

        return handle

    def run(self, coroutine: Coroutine[Any, Any, Any], cancellation: Any = None) -> Any:
        """Await ``coroutine`` on the loop and return its result; ``cancellation`` cancels it (``CancelledError``)."""
        try:
            loop = self._started()
        except BaseException:
            coroutine.close()
            raise
        run = _Run(loop, coroutine)
        loop.call_soon_threadsafe(run.start)
        if cancellation is None:
            return run.ended.result()
        if hasattr(cancellation, "call_when_set"):
            cancellation.call_when_set(run.cancel)
            return run.ended.result()
        while not run.ended.done():
            try:
                return run.ended.result(_CANCELLED_SECONDS)
            except TimeoutError:
                if cancellation.is_set():
                    run.cancel()
                    break
        return run.ended.result()

    def _started(self) -> asyncio.AbstractEventLoop:
        import asyncio  # costs 10 ms to import; most nodes never await

        with self._lock:
            if self._is_over:
                raise NodeClosedError("the node was closed: nothing is awaited any more")
            if self._loop is None:
                threads.track(self)
                self._loop = asyncio.new_event_loop()
                name = f"speed-{self._name}-loop"
                self._thread = threading.Thread(target=self._run_until_over, args=(self._loop,), name=name, daemon=True)
                self._thread.start()
            return self._loop

    def _run_until_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """asyncio lets a task's SystemExit or KeyboardInterrupt end the loop, and code may stop it: others go on."""
        while True:
            try:
                loop.run_forever()
            except BaseException as error:  # whoever awaits the task hears of it
                log.warning("%s in a coroutine of %s ends that coroutine", type(error).__name__, self._name)
            if self._has_ended:
                return

    def _after_fork_in_child(self) -> None:
        """A coroutine that forked does not go on beyond where it awaits next, nor do others."""
        if self._loop is not None and self.is_here:
            self._loop.call_soon(threads.end_child)

    def stop(self) -> None:
        """Cancel what is awaited and end the thread; waits a moment for it."""
        with self._lock:
            self._is_over = True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(self._cancel_all)
        if not self.is_here:
            thread.join(END_SECONDS)
            if not thread.is_alive():
                loop.close()

    def _cancel_all(self) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.call_later(0, self._stop_when_ended, 50)

    def _stop_when_ended(self, left: int) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        if left and asyncio.all_tasks(loop):
            loop.call_later(0.005, self._stop_when_ended, left - 1)
        else:
            self._has_ended = True
            loop.stop()


class _Run:
    """One coroutine on its way through the loop. ``start`` and ``_ended`` run on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._loop, self._coroutine = loop, coroutine
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False
        self.ended: Future[Any] = Future()

    def start(self) -> None:
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(self._end)
        if self._is_cancelled:
            self._task.cancel()

    def cancel(self) -> None:
        """From any thread."""
        self._is_cancelled = True
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _end(self, task: asyncio.Task[Any]) -> None:
        import asyncio

        try:
            self.ended.set_result(task.result())
        except asyncio.CancelledError as error:
            self.ended.set_exception(error)
        except BaseException as error:
            self.ended.set_exception(error)


class Awaited:
    """A service whose answer is awaited; when nobody waits for it any longer it gets ``CancelledError``."""

    def __init__(self, service: Service, loop: EventLoop) -> None:
        self._service, self._loop = service, loop

    @property
    def viewed(self) -> tuple[str, ...]:
        """The parameters that are hinted ``memoryview``."""
        return self._service.viewed if isinstance(self._service, FunctionService) else ()

    def invoke(self, request: Request) -> Any:
        answer = self._service.invoke(request)
        return self._loop.run(answer, request.cancellation) if inspect.iscoroutine(answer) else answer


def is_async(service: Any) -> bool:
    """Whether a service is one that has to be awaited: a coroutine function, or an object with such an ``invoke``."""
    kinds = (service, getattr(service, "invoke", None), getattr(type(service), "__call__", None))  # noqa: B004
    return any(inspect.iscoroutinefunction(kind) for kind in kinds)
