"""The serving side of SPC: the ten steps of RFC 7.5, one request at a time on a worker thread (S-3).

A request is answered exactly once. Whoever removes it from ``_running`` answers it: the worker with its
result, or the protocol thread when the deadline passes first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import monotonic
from typing import Any

from speed.core.progress import Token
from speed.core.services import Request, Response, ServiceRegistry
from speed.errors import PayloadTooLargeError, SpeedError, UnserialisableError, WireError
from speed.runtime.answers import Answers
from speed.runtime.context import Context, unix_ms
from speed.runtime.inbound import Lane
from speed.runtime.outgoing import Links
from speed.runtime.tracing import current_traceparent
from speed.runtime.workers import WorkerPool
from speed.wire import spc
from speed.wire.envelope import FLAG_REPLY, EnvelopeType, generation_of

LARGE_ANSWER_BYTES = 32 << 10
"""An answer of this size leaves at once: batches stay small in bytes."""


@dataclass(slots=True, eq=False)
class Running:
    """One accepted request until it is answered; ``token`` commits its envelope in ``lane``."""

    lane: Lane
    source_generation: int
    token: Token
    request: spc.RequestHead
    arguments: dict[str, Any]
    deadline: float
    key: tuple[str, str]
    started: bool = False


class Serving:
    """Requests of other nodes, from acceptance to answer. Thread-safe where workers meet the protocol thread."""

    def __init__(self, context: Context, links: Links, pool: WorkerPool, answers: Answers) -> None:
        self.services = ServiceRegistry()
        self._context = context
        self._links = links
        self._pool = pool
        self._answers = answers
        self._running: dict[tuple[str, str], Running] = {}
        self._earliest = math.inf

    # Steps 1 and 2 (authenticity, sender's grant) are behind us when the protocol thread calls this.
    def accept(self, lane: Lane, token: Token, payload: bytes | memoryview) -> None:
        """Queue one authenticated, authorised request; requests of one sender start in order."""
        try:
            request, arguments = _decode(lane.source, payload)
        except WireError as error:
            self._reject(lane.source, generation_of(token.sequence), payload, "INVALID_ARGUMENTS", str(error))
            raise
        now = monotonic()
        deadline = now + (request.deadline_ms - unix_ms()) / 1000
        key = (lane.source, request.request_id)
        if key in self._running:
            self._context.stats.count("requests_duplicate")
            lane.drop(token)
            return
        running = Running(lane, generation_of(token.sequence), token, request, arguments, deadline, key)
        if deadline <= now:
            self._time_out(running)
            return
        self._running[key] = running
        if deadline < self._earliest:
            self._earliest = deadline
        self._pool.queue(self._serve, running)

    def refuse(self, source: str, generation: int, payload: bytes | memoryview) -> None:
        """Step 2 failed: answer ACCESS_DENIED without looking at services (RFC 9.8)."""
        self._reject(source, generation, payload, "ACCESS_DENIED", f"{self._context.name!r} does not allow {source!r}")

    def _reject(self, source: str, generation: int, payload: bytes | memoryview, code: str, text: str) -> None:
        """Tell the caller of a request that was not accepted, if its id can be read (S-2)."""
        request_id = spc.readable_request_id(payload)
        if request_id is not None:
            self._send_urgently(source, generation, spc.encode_error(request_id, code, text, None))

    def _serve(self, running: Running) -> None:
        began = monotonic()
        if running.deadline <= began:
            if self._running.pop(running.key, None) is not None:
                self._time_out(running)
            return
        running.started = True  # first: who times it out from here on says that it runs
        if running.key not in self._running:
            return
        self._pool.entered()
        reply, error = self._answer(running)
        if self._running.pop(running.key, None) is not None:
            self._answers.add(running.lane, running.source_generation, reply, running.token)
            if len(reply) > LARGE_ANSWER_BYTES:
                self._answers.flush()
        else:
            self._context.stats.count("answers_too_late")
        self._context.stats.served(running.request.service, monotonic() - began, error)

    def _answer(self, running: Running) -> tuple[bytes, str]:
        """Steps 3 to 9; any failure becomes an SPC error response. Also returns what went wrong, for the stats."""
        wire = running.request
        request = Request(  # 5 and 6: the arguments were deserialised with the payload
            wire.service, running.arguments, running.lane.source, wire.request_id, wire.deadline_ms, wire.traceparent
        )
        token = current_traceparent.set(wire.traceparent)
        try:
            response = self.services.invoke(request)  # 3 locate, 4 its policy, 7 invoke, 8 response
        finally:
            current_traceparent.reset(token)
        if response.error_code is None:
            try:
                return _encode_result(
                    wire.request_id, response.result, self._links.most_bytes(wire.caller)
                ), ""  # 9 serialise
            except (UnserialisableError, PayloadTooLargeError) as error:
                response = Response.error("EXECUTION_FAILED", f"the result cannot be sent: {error}")
        code, text = str(response.error_code), response.error_message
        reply = spc.encode_error(wire.request_id, code, text, dict(response.details))
        return reply, f"{code}: {text}"[:500]

    def _send_urgently(self, source: str, generation: int, reply: bytes) -> None:
        """Answer from the protocol thread, which never waits: a full inbox loses it, counted."""
        try:
            link = self._links.open(source, generation)
            link.send(EnvelopeType.SPC_RESPONSE, FLAG_REPLY, reply, 0.0, urgent=True)
        except SpeedError:
            self._context.stats.count("answers_undelivered")

    def expire(self, now: float) -> None:
        """Answer TIMEOUT for what is over its deadline; a running service goes on, its result is dropped."""
        if now < self._earliest:
            return
        late = [running for running in list(self._running.values()) if running.deadline <= now]
        self._earliest = min(
            (running.deadline for running in list(self._running.values()) if running.deadline > now),
            default=math.inf,
        )
        for running in late:
            if self._running.pop(running.key, None) is not None:
                self._time_out(running)

    def _time_out(self, running: Running) -> None:
        phase = "running" if running.started else "queued"
        self._context.stats.count(f"requests_timed_out_{phase}")
        text = f"the deadline of {running.request.service!r} passed while {phase}: allow it more time"
        reply = spc.encode_error(running.request.request_id, "TIMEOUT", text, {"phase": phase})
        self._send_urgently(running.lane.source, running.source_generation, reply)
        running.lane.finish((running.token,))

    def next_deadline(self) -> float:
        """Monotonic seconds, not after the earliest open deadline; infinity when nothing runs."""
        return self._earliest if self._running else math.inf


def _decode(source: str, payload: bytes | memoryview) -> tuple[spc.RequestHead, dict[str, Any]]:
    """The request in ``payload``; WireError unless it keeps S-1, its caller being the sender."""
    request, arguments = spc.decode_request(payload)
    if request.caller != source:
        raise WireError("BAD_PAYLOAD", f"caller {request.caller!r} is not the sender {source!r}")
    return request, arguments


def _encode_result(request_id: str, result: Any, most_bytes: int) -> bytes:
    reply = spc.encode_success(request_id, result)
    if len(reply) > most_bytes:
        raise PayloadTooLargeError(f"{len(reply)} bytes; the limit is {most_bytes}")
    return reply
