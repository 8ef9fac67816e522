"""The caller's side: calls, pings, questions and acknowledgements that wait for an answer (S-6 to S-10).

A request is entered into ``PendingCalls`` before it is written, so no answer can come too early. It ends
exactly once: by the answer, by its deadline, because the other node left, or because this node stops.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, InvalidStateError
from functools import partial
from itertools import count
from time import monotonic
from typing import Any

from speed.core.pending import PendingCall, PendingCalls
from speed.errors import (
    CALL_ERRORS,
    CallTimeoutError,
    InternalError,
    NotAcknowledgedError,
    SegmentsLostError,
    SpeedError,
)
from speed.runtime.context import Context, unix_ms
from speed.runtime.outgoing import Links, OutgoingLink
from speed.runtime.tracing import current_traceparent
from speed.runtime.workers import WorkerPool
from speed.wire import control, spc
from speed.wire.envelope import FLAG_ACK_REQUESTED, EnvelopeType

log = logging.getLogger("speed.segments")
calls_log = logging.getLogger("speed.spc")

Outcome = Any
"""The answer, or the SpeedError that takes its place."""
Completion = Callable[[Outcome], None]
WARN_SECONDS = 10.0
ANSWER_GRACE_SECONDS = 0.25
"""How long after the deadline the caller still waits for the server's own verdict (queued or running)."""


class Waiter:
    """One blocked thread's place for an outcome; cheaper than a Future."""

    __slots__ = ("_lock", "_outcome", "done")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._outcome: Outcome = None
        self.done = False

    def complete(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self.done = True
        self._lock.release()

    def result(self) -> Outcome:
        """Block until completed; the pending table bounds the wait."""
        self._lock.acquire()
        if isinstance(self._outcome, SpeedError):
            raise self._outcome
        return self._outcome


class OneAnswer:
    """A completion that many sequences lead to; the first outcome counts."""

    def __init__(self, completion: Completion) -> None:
        self._completion = completion
        self._lock = threading.Lock()
        self.given = False

    def __call__(self, outcome: Any) -> None:
        with self._lock:
            first, self.given = not self.given, True
        if first:
            self._completion(outcome)


class CallFuture(Future[Any]):
    """The result of a call to come.

    Its callbacks may call and wait: a worker runs them, or the thread that cancels, or that adds one when it is done.
    """

    callbacks_are_brief = False
    """Whether the thread that completes it may run the callbacks added from now on, since they wait for nothing."""

    def __init__(self, tell: Callable[[Callable[[], None]], None]) -> None:
        super().__init__()
        self._tell = tell
        self._hung: deque[Callable[[Future[Any]], object]] | None = None

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
        if self.cancelled():
            fn(self)
        elif self._hung is not None:
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
                calls_log.exception("a callback of a call failed")


def complete_future(future: CallFuture) -> Completion:
    """A completion that sets ``future``; an abandoned (cancelled) future is left alone."""

    def complete(outcome: Outcome) -> None:
        try:
            if isinstance(outcome, SpeedError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        except InvalidStateError:
            return
        future.tell()

    return complete


class Calls:
    """Starts requests and completes them. Thread-safe."""

    def __init__(self, context: Context, links: Links, pool: WorkerPool) -> None:
        self._context = context
        self._pool = pool
        self._links = links
        self._pending: PendingCalls = context.pending
        self._untold: deque[Callable[[], None]] = deque()
        """The callbacks of calls that ended, until a worker runs them."""
        self._over = False
        self._numbers = count(1)
        self._warn_at = 0.0
        self._prefix = f"{context.generation:x}."

    def future(self) -> CallFuture:
        """A place for the outcome of a call that is asked for later."""
        return CallFuture(self._tell)

    def _tell(self, run_callbacks: Callable[[], None]) -> None:
        self._untold.append(run_callbacks)
        if self._over:
            self.tell_rest()
        else:
            self._pool.submit(self._tell_next)

    def _tell_next(self) -> None:
        try:
            run_callbacks = self._untold.popleft()
        except IndexError:
            return
        run_callbacks()

    def tell_rest(self) -> None:
        """The workers have ended: run the callbacks that they did not."""
        self._over = True
        while self._untold:
            self._tell_next()

    def waiter(self) -> Waiter:
        """A place for the calling thread to wait for one answer."""
        return Waiter()

    def start(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any],
        timeout_seconds: float,
        completion: Completion,
        traceparent: str | None = None,
    ) -> None:
        """Send one SPC request; ``completion`` runs once, on the protocol thread, unless this raises."""
        link = self._links.granted(target)
        request_id = self._next_id()
        deadline_ms = unix_ms() + int(timeout_seconds * 1000)
        payload = spc.encode_request(
            request_id,
            service,
            arguments,
            self._context.name,
            deadline_ms,
            traceparent or current_traceparent.get(),
        )
        deadline = monotonic() + timeout_seconds
        self._track(request_id, deadline + ANSWER_GRACE_SECONDS, target, completion)
        try:
            if link.splitter is not None:
                self._start_in_segments(link, request_id, payload, deadline)
            else:
                link.send(EnvelopeType.SPC_REQUEST, 0, payload, deadline)
        except BaseException:
            self._pending.forget(target, request_id)
            raise

    def _start_in_segments(self, link: OutgoingLink, request_id: str, payload: bytes, deadline: float) -> None:
        """Send a request on a link with a segment size: an ERROR under any of its sequences ends the call (G-19)."""

        def lost(outcome: Outcome) -> None:
            if not isinstance(outcome, NotAcknowledgedError):
                self._pending.complete(link.target, request_id, outcome)

        def track(sequence: int) -> None:
            self._pending.add(sequence, deadline + ANSWER_GRACE_SECONDS, link.target, lost)

        link.send_tracked(EnvelopeType.SPC_REQUEST, 0, payload, deadline, track)

    def ask(
        self, target: str, type_: int, body: dict[str, Any], timeout_seconds: float, completion: Completion
    ) -> None:
        """Send a HEARTBEAT or DISCOVERY question; its reply completes it."""
        link = self._links.granted(target)
        request_id = self._next_id()
        deadline = monotonic() + timeout_seconds
        self._track(request_id, deadline, target, completion)
        try:
            link.send(type_, 0, control.encode({**body, "requestId": request_id}), deadline)
        except BaseException:
            self._pending.forget(target, request_id)
            raise

    def send_acknowledged(
        self, target: str, type_: int, payload: bytes, timeout_seconds: float, completion: Completion
    ) -> int:
        """Send a message whose acknowledgement completes it; returns its sequence."""
        link = self._links.granted(target)
        deadline = monotonic() + timeout_seconds
        tracked: list[int] = []
        if link.splitter is not None:
            completion = OneAnswer(completion)

        def track(sequence: int) -> None:
            tracked.append(sequence)
            self._track(sequence, deadline, target, completion)

        try:
            return link.send_tracked(type_, FLAG_ACK_REQUESTED, payload, deadline, track)
        except BaseException:
            for sequence in tracked:
                self._pending.forget(target, sequence)
            raise

    def _next_id(self) -> str:
        return f"{self._prefix}{next(self._numbers):x}"

    def _track(self, key: Hashable, deadline: float, target: str, completion: Completion) -> None:
        self._pending.add(key, deadline, target, completion)
        self._context.heed(deadline)

    def _complete(self, key: Hashable, source: str, outcome: Outcome) -> None:
        """Only the node that was asked can answer (S-6); what nobody waits for is counted."""
        if self._pending.complete(source, key, outcome):
            return
        if isinstance(outcome, SegmentsLostError):
            self._context.stats.count("payloads_reported_lost")
            if monotonic() >= self._warn_at:  # another node decides how often it says so
                self._warn_at = monotonic() + WARN_SECONDS
                log.warning("payloads sent in segments were not delivered, the last one: %s", outcome)
        else:
            self._context.stats.count("answers_unexpected")

    def answered(self, source: str, payload: bytes | memoryview) -> None:
        """An SPC_RESPONSE completes the call it belongs to."""
        response = spc.decode_response(payload)
        outcome = response.result
        if not response.ok:
            error_class = CALL_ERRORS.get(response.error_code, InternalError)
            outcome = error_class(f"{source}: {response.error_message}", response.details)
        self._complete(response.request_id, source, outcome)

    def replied(self, source: str, request_id: str, result: Any) -> None:
        """The reply to a HEARTBEAT or DISCOVERY question."""
        self._complete(request_id, source, result)

    def acknowledged(self, source: str, sequence: int) -> None:
        """An ACK completes the message it names."""
        self._complete(sequence, source, sequence)

    def refused(self, source: str, body: dict[str, Any]) -> None:
        """An ERROR envelope ends the request or message that it names."""
        error_class = CALL_ERRORS.get(str(body.get("errorCode")), InternalError)
        key = body.get("requestId") or body.get("sequence")
        self._complete(key, source, error_class(f"{source}: {body.get('errorMessage', '')}"))

    def expire(self, now: float) -> None:
        """Fail what is over its deadline."""
        for call in self._pending.expire(now):
            call.completion(_overdue(call))


def _overdue(call: PendingCall) -> SpeedError:
    """What the deadline of a call, question or acknowledgement means for its caller."""
    if isinstance(call.key, int):
        return NotAcknowledgedError(f"{call.target!r} did not acknowledge in time; it may still handle the message")
    return CallTimeoutError(
        f"{call.target!r} did not answer in time; the request may still run there", {"phase": "unanswered"}
    )
