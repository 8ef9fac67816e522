"""Where callers wait for outcomes: a blocked thread, or a Future."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from speed.core import counters
from speed.core.calls import Unread, call_error, raised, ran_before
from speed.core.hints import checked_seconds
from speed.core.log import logger
from speed.core.services import as_declared
from speed.engine import threads
from speed.engine.workers import place_given_up
from speed.errors import Execution, ForkedNodeError, InternalError, SpeedError, WireError
from speed.wire import spc
from speed.wire.value import as_views

log = logger("speed.spc")

Outcome = Any
"""The answer, the SpeedError that takes its place, or an ``Answer`` that is not read yet."""
Completion = Callable[[Outcome], None]
_LOOK_SECONDS = 1.0
"""How late a signal is noticed at most that arrived in the moment in which a wait began."""
SMALL_BYTES = 64 << 10
"""Up to this size the thread that reads decodes the answer of a Future."""


class Answer(Unread):
    """An SPC_RESPONSE of which only the id was read; who waits for it reads the rest."""

    __slots__ = ("_count", "_payload", "_source")

    def __init__(self, source: str, payload: bytes, count: Callable[[str], None]) -> None:
        super().__init__()
        self._source, self._payload, self._count = source, payload, count

    def __len__(self) -> int:
        return len(self._payload)

    def outcome(self) -> Outcome:
        """The result, or a SpeedError."""
        try:
            response = spc.decode_response(self._payload)
        except WireError as error:
            self._count(counters.REJECTED_BAD_PAYLOAD)
            unread = InternalError(f"{self._source}: its answer cannot be read: {error}; the call may have run")
            unread.execution = Execution.MAY_HAVE_RUN
            return unread
        if response.ok:
            return response.result
        failed = call_error(self._source, response.error_code, response.error_message, response.details)
        return ran_before(failed) if self.may_have_run else failed


class Waiter:
    """One blocked thread's place for an outcome; cheaper than a Future."""

    __slots__ = ("_execution", "_lock", "_outcome", "done")

    def __init__(self, execution: Execution | None = None) -> None:
        self._execution = execution
        self._lock = threads.lock("outcome")
        self._lock.acquire()
        self._outcome: Outcome = None
        self.done = False

    def complete(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self.done = True
        self._lock.release()

    def result(self) -> Outcome:
        """Block until completed; the pending table bounds the wait."""
        with place_given_up():
            while not self._lock.acquire(timeout=_LOOK_SECONDS):
                pass  # a signal that came right before the wait did not end it: its handler runs now
        outcome = self._outcome.outcome() if type(self._outcome) is Answer else self._outcome
        if isinstance(outcome, SpeedError):
            raise raised(outcome, self._execution)
        return outcome


class OneAnswer:
    """A completion that many sequences lead to; the first outcome counts."""

    def __init__(self, completion: Completion) -> None:
        self._completion = completion
        self._lock = threads.lock("outcome")
        self.given = False

    def __call__(self, outcome: Any) -> None:
        with self._lock:
            first, self.given = not self.given, True
        if first:
            self._completion(outcome)


class Carried(Protocol):
    """What another host answered to a call, as its caller gets it."""

    callee: tuple[str, str]
    """The node and the service that the caller named."""

    def __call__(self, answer: Any) -> Any:
        """The result, or the SpeedError that ended the call."""

    def failed(self, error: SpeedError) -> SpeedError:
        """What an error on the way there means to the caller."""


class CallFuture(Future[Any]):
    """The result of a call to come.

    Its callbacks may call and wait: a worker runs them, or the thread that adds one when it is done. ``process`` is the
    one that called: a fork of it waits in vain.
    """

    callbacks_are_brief = False
    """Whether the thread that completes it may run the callbacks added from now on, since they wait for nothing."""
    views = False
    """Whether bytes of the result become memoryviews."""
    carried: Carried | None = None
    """What makes of the answer what the caller gets, where another host gave it."""
    read: Callable[[Any], Any] | None = None
    """What makes of the result what the caller asked for."""
    _withdraw: Callable[[], None] | None = None
    _hung: deque[Callable[[Future[Any]], object]] | None = None
    _is_settled = False

    def __init__(
        self,
        tell: Callable[[Callable[[], None]], None],
        process: int,
        target: str | None = None,
        service: str | None = None,
    ) -> None:
        super().__init__()
        self._callee = target, service
        self._tell = tell
        self._process = process

    def on_cancelled(self, withdraw: Callable[[], None]) -> None:
        """The request was written: from now on ``cancel`` asks the other side."""
        self._withdraw = withdraw

    def cancel(self) -> bool:
        """Withdraw the call. False: it was written, so the Future ends with what the other side says."""
        if self._withdraw is not None and not self.done():
            self._withdraw()
        return False

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """Have ``fn(future)`` run when the call has ended; on the thread that reads nothing may block."""
        if self.callbacks_are_brief or self.done():
            super().add_done_callback(fn)
            return
        self._hung = self._hung or deque()
        super().add_done_callback(partial(self._call_ended, fn))
        if self.done():  # since we looked
            self.tell()

    def _call_ended(self, fn: Callable[[Future[Any]], object], _: Future[Any]) -> None:
        if self._hung is not None:
            self._hung.append(fn)

    def tell(self) -> None:
        """The call has ended: have what was hung on it run, in its order."""
        if self._hung:
            self._tell(self._run_hung)

    def _run_hung(self) -> None:
        while self._hung:
            try:
                self._hung.popleft()(self)
            except BaseException:  # its own exit, too
                log.exception("a callback of a call failed")

    def result(self, timeout: float | None = None) -> Any:
        """The result; raises what the call raises, TimeoutError after ``timeout`` seconds."""
        if timeout is not None:
            checked_seconds("timeout", timeout)
        if self._is_settled or self.done():
            return super().result()
        self._check_process()
        with self._place_given_up():
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error of the call, None for a result; TimeoutError after ``timeout`` seconds."""
        if timeout is not None:
            checked_seconds("timeout", timeout)
        if self.done():
            return super().exception()
        self._check_process()
        with self._place_given_up():
            return super().exception(timeout)

    def _place_given_up(self) -> AbstractContextManager[None]:
        """What lets others have this worker's place meanwhile."""
        return place_given_up()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise ForkedNodeError("this call is the parent process's: nobody ends it here")

    def complete(self, outcome: Outcome) -> None:
        """A completion: sets the result now, or where it is large, on a worker."""
        if type(outcome) is Answer:
            if len(outcome) > SMALL_BYTES:
                self._tell(lambda: self.settle(outcome.outcome()))
                return
            outcome = outcome.outcome()
        self.settle(outcome)

    def settle(self, outcome: Outcome) -> None:
        callee = self._callee
        if self.carried is not None:
            callee = self.carried.callee
            outcome = self.carried.failed(outcome) if isinstance(outcome, SpeedError) else self.carried(outcome)
        try:
            if isinstance(outcome, SpeedError):
                error = raised(outcome, Execution.MAY_HAVE_RUN)
                error.node, error.service = callee
                self.set_exception(as_declared(error))
            else:
                self._set_read(as_views(outcome) if self.views else outcome)
        except InvalidStateError:
            return
        self._is_settled = True
        if self._hung:
            self.tell()

    def _set_read(self, result: Any) -> None:
        if self.read is None:
            self.set_result(result)
            return
        try:
            result = self.read(result)
        except SpeedError as error:
            error.node, error.service = self._callee if self.carried is None else self.carried.callee
            self.set_exception(error)
        else:
            self.set_result(result)
