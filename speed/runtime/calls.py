"""The caller's side: calls, pings, questions and acknowledgements that wait for an answer (S-6 to S-10).

A request is entered into ``PendingCalls`` before it is written, so no answer can come too early. It ends
exactly once: by the answer, by its deadline, because the other node left, or because this node stops.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from itertools import count
from time import monotonic
from typing import Any

from speed.core.pending import PendingCalls
from speed.errors import CALL_ERRORS, CallTimeoutError, InternalError, NotAcknowledgedError, SpeedError
from speed.runtime.context import Context, unix_ms
from speed.runtime.outgoing import Links
from speed.runtime.tracing import current_traceparent
from speed.wire import control, spc
from speed.wire.envelope import FLAG_ACK_REQUESTED, EnvelopeType

Outcome = Any
ANSWER_GRACE_SECONDS = 0.25
"""How long after the deadline the caller still waits for the server's own verdict (queued or running)."""


class Waiter:
    """One blocked thread's place for an outcome; cheaper than a Future."""

    __slots__ = ("_lock", "error", "value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.value: Outcome = None
        self.error: SpeedError | None = None

    def complete(self, value: Outcome, error: SpeedError | None) -> None:
        self.value = value
        self.error = error
        self._lock.release()

    def result(self) -> Outcome:
        """Block until completed; the pending table bounds the wait."""
        self._lock.acquire()
        if self.error is not None:
            raise self.error
        return self.value


def complete_future(future: Future[Any]) -> Callable[[Outcome, SpeedError | None], None]:
    """A completion that sets ``future``; an abandoned (cancelled) future is left alone."""

    def complete(value: Outcome, error: SpeedError | None) -> None:
        try:
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)
        except InvalidStateError:
            pass

    return complete


Completion = Callable[[Outcome, "SpeedError | None"], None]


class Calls:
    """Starts requests and completes them. Thread-safe."""

    def __init__(self, context: Context, links: Links) -> None:
        self._context = context
        self._links = links
        self._pending: PendingCalls = context.pending
        self._numbers = count(1)
        self._prefix = f"{context.generation:x}."

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
            link.send(EnvelopeType.SPC_REQUEST, 0, payload, deadline)
        except BaseException:
            self._pending.discard(request_id)
            raise

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
            self._pending.discard(request_id)
            raise

    def send_acknowledged(
        self, target: str, type_: int, payload: bytes, timeout_seconds: float, completion: Completion
    ) -> int:
        """Send a message whose acknowledgement completes it; returns its sequence."""
        link = self._links.granted(target)
        deadline = monotonic() + timeout_seconds
        tracked: list[int] = []

        def track(sequence: int) -> None:
            tracked.append(sequence)
            self._track((target, sequence), deadline, target, completion)

        try:
            return link.send_tracked(type_, FLAG_ACK_REQUESTED, payload, deadline, track)
        except BaseException:
            for sequence in tracked:
                self._pending.discard((target, sequence))
            raise

    def _next_id(self) -> str:
        return f"{self._prefix}{next(self._numbers):x}"

    def _track(self, key: object, deadline: float, target: str, completion: Completion) -> None:
        if self._pending.add(key, deadline, target, completion):
            self._context.wake()

    def answered(self, source: str, payload: bytes) -> None:
        """An SPC_RESPONSE: complete the call it belongs to; late or foreign ones are counted."""
        response = spc.decode_response(payload)
        if response.ok:
            known = self._pending.complete(response.request_id, source, response.result, None)
        else:
            error_class = CALL_ERRORS.get(response.error_code, InternalError)
            error = error_class(f"{source}: {response.error_message}", response.details)
            known = self._pending.complete(response.request_id, source, None, error)
        if not known:
            self._context.stats.count("answers_unexpected")

    def replied(self, source: str, request_id: str, result: Any) -> None:
        if not self._pending.complete(request_id, source, result, None):
            self._context.stats.count("answers_unexpected")

    def acknowledged(self, source: str, sequence: int) -> None:
        self._pending.complete((source, sequence), source, sequence, None)

    def refused(self, source: str, body: dict[str, Any]) -> None:
        """An ERROR envelope: it ends the request or message that it names."""
        error_class = CALL_ERRORS.get(str(body.get("errorCode")), InternalError)
        error = error_class(f"{source}: {body.get('errorMessage', '')}", {})
        key = body.get("requestId") or (source, body.get("sequence"))
        if not self._pending.complete(key, source, None, error):
            self._context.stats.count("errors_received")

    def expire(self, now: float) -> None:
        """Fail what is over its deadline."""
        for call in self._pending.expire(now):
            if isinstance(call.key, tuple):
                error: SpeedError = NotAcknowledgedError(
                    f"{call.target!r} did not acknowledge in time; it may still handle the message"
                )
            else:
                error = CallTimeoutError(
                    f"{call.target!r} did not answer in time; the request may still run there",
                    {"phase": "unanswered"},
                )
            call.completion(None, error)

    def fail_target(self, target: str, error: SpeedError) -> None:
        for call in self._pending.fail_target(target):
            call.completion(None, error)

    def fail_all(self, error: SpeedError) -> None:
        for call in self._pending.clear():
            call.completion(None, error)
