"""Awaiting: the event loop of a node, on a thread of its own, and messages for those who await one (T-7)."""

from __future__ import annotations

import inspect
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from time import monotonic
from types import CoroutineType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from speed.core.log import logger
from speed.core.services import FunctionService, Request, Service
from speed.engine import threads
from speed.engine.message import Message
from speed.errors import CallWithdrawnError, NodeClosedError, NodeStateError, SpeedError, WireError, fresh
from speed.message.errors import AwayError
from speed.wire import lazily
from speed.wire.limits import RETRY_FIRST_SECONDS

if TYPE_CHECKING:
    import asyncio


# Messages for those who await one: one thread fetches for all, and nothing that it fetched is lost (T-7).


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
        self._changed = threading.Condition(threads.lock("receiving"))
        self._waiting: deque[Future[Fetched]] = deque()
        self._thread: threading.Thread | None = None
        self._end: SpeedError | None = None

    def ask(self) -> Future[Fetched]:
        """The next message. Cancel it to wait no longer; what it was given all the same goes back by ``put_back``."""
        waiter: Future[Fetched] = Future()
        with self._changed:
            if self._end is not None:
                raise fresh(self._end)
            self._waiting.append(waiter)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"speed-{self._name}-receive", daemon=True)
                self._thread.start()
            self._changed.notify()
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
        with self._changed:
            while not self._waiting and self._end is None:
                self._changed.wait()
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
        with self._changed:
            self._changed.wait_for(lambda: self._end is not None, RETRY_FIRST_SECONDS)

    def _given(self, fetched: Fetched) -> bool:
        while (waiter := self._first()) is not None:
            if waiter.set_running_or_notify_cancel():
                waiter.set_result(fetched)
                return True
        return False

    def _first(self) -> Future[Fetched] | None:
        with self._changed:
            return self._waiting.popleft() if self._waiting else None

    # --- ends ---

    def _ended(self, waiter: Future[Fetched]) -> None:
        """One who cancelled waits no longer."""
        with self._changed:
            if waiter not in self._waiting:
                return
            self._waiting.remove(waiter)
            is_last = not self._waiting
        if is_last:
            self._engine.wake_receivers()

    def _stop(self, error: SpeedError) -> None:
        with self._changed:
            self._end = self._end or error
            waiting = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for waiter in waiting:
            if waiter.set_running_or_notify_cancel():
                waiter.set_exception(fresh(error))


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
        with lazily.guard:
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
        with lazily.guard:
            import asyncio

        loop = asyncio.get_running_loop()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.call_later(0, self._stop_when_ended, 50)

    def _stop_when_ended(self, left: int) -> None:
        with lazily.guard:
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
        with lazily.guard:
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
        self.described = getattr(service, "described", service)
        self.takes_columns = getattr(service, "takes_columns", False)

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


# Items of streams, for who awaits them, and of who awaits.


class ReadyItems(Protocol):
    """An iterator that knows whether its next item is here."""

    @property
    def is_ready(self) -> bool: ...
    def __next__(self) -> Any: ...


class AsyncItems(AsyncIterator[Any]):
    """Items for who awaits: what is not here yet is waited for on another thread."""

    def __init__(self, reader: ReadyItems) -> None:
        self._reader = reader

    async def __anext__(self) -> Any:
        if self._reader.is_ready:
            return next(self._reader)
        with lazily.guard:
            import asyncio

        item = await asyncio.to_thread(next, self._reader, self)
        if item is self:
            raise StopAsyncIteration
        return item


class AwaitedItems(Iterator[Any]):
    """Asynchronous items for the thread that sends them."""

    def __init__(self, items: AsyncIterable[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._items, self._loop = aiter(items), loop

    def __next__(self) -> Any:
        with lazily.guard:
            from asyncio import run_coroutine_threadsafe

        following = run_coroutine_threadsafe(self._next(), self._loop)
        while True:
            try:
                return following.result(1.0)
            except StopAsyncIteration:
                raise StopIteration from None
            except NotYet:
                if self._loop.is_closed():
                    raise CallWithdrawnError("the event loop of the items has ended", {"phase": "running"}) from None

    async def _next(self) -> Any:
        return await anext(self._items)

    def close(self) -> None:
        """Left early, they are told."""
        with lazily.guard:
            from asyncio import run_coroutine_threadsafe

        if hasattr(self._items, "aclose") and not self._loop.is_closed():
            run_coroutine_threadsafe(self._items.aclose(), self._loop)
