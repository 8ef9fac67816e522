"""The serving side of SPC: the ten steps of RFC 7.5, one request at a time on a worker thread (S-3).

A request is answered exactly once. Whoever removes it from ``_running`` answers it: the worker with its
result, or the protocol thread when the deadline passes first.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from time import monotonic, perf_counter
from typing import Any

from speed.core.services import Request, Response, ServiceRegistry
from speed.errors import PayloadTooLargeError, SpeedError, UnserialisableError, WireError
from speed.runtime.context import Context, unix_ms
from speed.runtime.outgoing import Links, OutgoingLink
from speed.runtime.tracing import current_traceparent
from speed.runtime.workers import WorkerPool
from speed.wire import spc
from speed.wire.envelope import FLAG_REPLY, EnvelopeType
from speed.wire.limits import MAX_PAYLOAD_BYTES

log = logging.getLogger("speed.spc")

Finish = Callable[..., None]
HOLD_ANSWERS = 64
HOLD_BYTES = 16 << 10
"""Answers that go out together: at most so many, each smaller than this."""
REPLY_WAIT_SECONDS = 5.0
"""How long a worker waits for room in the caller's full inbox before its answer is dropped and counted."""


@dataclass(slots=True)
class Running:
    """One accepted request until it is answered; ``finish`` commits its envelope."""

    source: str
    source_generation: int
    request: spc.WireRequest
    deadline: float
    finish: Finish
    started: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return (self.source, self.request.request_id)


class Serving:
    """Requests of other nodes, from acceptance to answer. Thread-safe where workers meet the protocol thread."""

    def __init__(self, context: Context, links: Links, pool: WorkerPool) -> None:
        self.services = ServiceRegistry()
        self._context = context
        self._links = links
        self._pool = pool
        self._running: dict[tuple[str, str], Running] = {}
        self._deadlines: list[tuple[float, int, Running]] = []
        self._numbers = count()
        self._held: deque[tuple[OutgoingLink, Running]] = deque()

    # Steps 1 and 2 (authenticity, sender's grant) are behind us when the protocol thread calls this.
    def accept(self, source: str, generation: int, payload: bytes, finish: Finish) -> None:
        """Queue one authenticated, authorised request; requests of one sender start in order."""
        request = spc.decode_request(payload)
        if request.caller != source:
            raise WireError("BAD_PAYLOAD", f"caller {request.caller!r} is not the sender {source!r}")
        left = (request.deadline_ms - unix_ms()) / 1000
        running = Running(source, generation, request, monotonic() + left, finish)
        if running.key in self._running:
            self._context.stats.count("requests_duplicate")
            finish()
            return
        self._running[running.key] = running
        heapq.heappush(self._deadlines, (running.deadline, next(self._numbers), running))
        self._pool.submit(self._serve, running)

    def refuse(self, source: str, generation: int, payload: bytes) -> None:
        """Step 2 failed: answer ACCESS_DENIED without looking at services (RFC 9.8)."""
        request = spc.decode_request(payload)
        text = f"{self._context.name!r} does not allow {source!r}"
        reply = spc.encode_error(request.request_id, "ACCESS_DENIED", text, None)
        self._send(source, generation, reply, urgent=True)

    def _serve(self, running: Running) -> None:
        if running.key not in self._running:
            return
        running.started = True
        began = perf_counter()
        reply, error = self._answer(running)
        if self._running.pop(running.key, None) is not None:
            self._reply(running, reply)
        else:
            self._context.stats.count("answers_too_late")
        self._context.stats.served(running.request.service, perf_counter() - began, error)

    def _reply(self, running: Running, reply: bytes) -> None:
        """Step 10. On the leader, answers of one run go out together; nobody waits for another's service."""
        if self._pool.on_leader() and len(reply) < HOLD_BYTES:
            link = self._links.open(running.source, running.source_generation)
            if link.hold(EnvelopeType.SPC_RESPONSE, FLAG_REPLY, reply):
                self._held.append((link, running))
                if len(self._held) >= HOLD_ANSWERS:
                    self.flush()
                return
        self._send(running.source, running.source_generation, reply)
        running.finish()

    def flush(self) -> None:
        """Write and commit the answers that are held: one write and one commit for each caller."""
        done: list[tuple[OutgoingLink, Running]] = []
        while self._held:
            try:
                done.append(self._held.popleft())
            except IndexError:
                break  # the relief flushes as well when the leader is held up
        for link in {id(link): link for link, _ in done}.values():
            try:
                link.flush()
            except SpeedError as error:
                self._context.stats.count("answers_undelivered")
                log.warning("answers to %s not delivered: %s", link.target, error)
        last = {running.source: running for _, running in done}
        for _, running in done:
            running.finish(lazy=last[running.source] is not running)

    def _answer(self, running: Running) -> tuple[bytes, str]:
        """Steps 3 to 9; any failure becomes an SPC error response. Also returns what went wrong, for the stats."""
        wire = running.request
        request = Request(  # 5 and 6: the arguments were deserialised with the payload
            wire.service, wire.arguments, running.source, wire.request_id, wire.deadline_ms, wire.traceparent
        )
        token = current_traceparent.set(wire.traceparent)
        try:
            response = self.services.invoke(request)  # 3 locate, 4 its policy, 7 invoke, 8 response
        finally:
            current_traceparent.reset(token)
        if response.error_code is None:
            try:
                return _encode_result(wire.request_id, response.result), ""  # 9 serialise
            except (UnserialisableError, PayloadTooLargeError) as error:
                response = Response.error("EXECUTION_FAILED", f"the result cannot be sent: {error}")
        code, text = str(response.error_code), response.error_message
        reply = spc.encode_error(wire.request_id, code, text, dict(response.details))
        return reply, f"{code}: {text}"[:500]

    def _send(self, source: str, generation: int, reply: bytes, *, urgent: bool = False) -> None:
        """Step 10. A caller that has gone, or does not read, loses its answer; that is counted."""
        try:
            link = self._links.open(source, generation)
            wait = monotonic() + REPLY_WAIT_SECONDS
            link.send(EnvelopeType.SPC_RESPONSE, FLAG_REPLY, reply, wait, urgent=urgent)
        except SpeedError as error:
            self._context.stats.count("answers_undelivered")
            log.warning("answer to %s not delivered: %s", source, error)

    def expire(self, now: float) -> None:
        """Answer TIMEOUT for what is over its deadline; a running service goes on, its result is dropped."""
        while self._deadlines and self._deadlines[0][0] <= now:
            running = heapq.heappop(self._deadlines)[2]
            if self._running.pop(running.key, None) is None:
                continue
            phase = "running" if running.started else "queued"
            self._context.stats.count(f"requests_timed_out_{phase}")
            text = f"the deadline of {running.request.service!r} passed while {phase}"
            reply = spc.encode_error(running.request.request_id, "TIMEOUT", text, {"phase": phase})
            self._send(running.source, running.source_generation, reply, urgent=True)
            running.finish()

    def next_deadline(self) -> float:
        """Monotonic seconds of the earliest open deadline; answered requests are forgotten on the way."""
        while self._deadlines and self._deadlines[0][2].key not in self._running:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else math.inf


def _encode_result(request_id: str, result: Any) -> bytes:
    reply = spc.encode_success(request_id, result)
    if len(reply) > MAX_PAYLOAD_BYTES:
        raise PayloadTooLargeError(f"{len(reply)} bytes; the limit is {MAX_PAYLOAD_BYTES}")
    return reply
