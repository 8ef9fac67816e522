"""Answers of services on their way out: each is one write, one ring, one commit (L-15).

No thread waits for room in the inbox of a caller that does not read: such an answer is kept, and tried again by the
thread that reads, until its time is up. Only what goes in segments is written by its worker, which gives its place up.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import NamedTuple

from speed.core.log import logger
from speed.core.progress import Token
from speed.errors import InboxFullError, PayloadTooLargeError, SpeedError
from speed.runtime import locks
from speed.runtime.context import Context
from speed.runtime.inbound import Lane
from speed.runtime.links import Links
from speed.runtime.workers import place_given_up
from speed.wire.envelope import FLAG_REPLY, EnvelopeType
from speed.wire.limits import MAX_PAYLOAD_BYTES

log = logger("speed.spc")

REPLY_WAIT_SECONDS = 5.0
"""How long an answer waits for room in the caller's full inbox before it is dropped and counted."""
AGAIN_SECONDS = 0.005
SMALL_BYTES = 64 << 10
"""Up to this size an answer on a link with a segment size goes at once or not at all."""
_MAX_KEPT_BYTES = 64 << 20
"""Of answers that wait for room; what comes beyond is dropped and counted."""


class Answer(NamedTuple):
    """Send ``payloads`` to ``source`` in one write, then ``finish``; until ``deadline`` (monotonic seconds)."""

    source: str
    generation: int
    payloads: tuple[bytes, ...]
    finish: Callable[[], None]
    deadline: float


class Answers:
    """Sends and commits; thread-safe."""

    def __init__(self, context: Context, links: Links) -> None:
        self._context = context
        self._links = links
        self._waiting: deque[Answer] = deque()
        self._bytes = 0
        self._next = math.inf
        self._lock = locks.lock("answers")

    def check_size(self, source: str, size: int) -> None:
        """PayloadTooLargeError for what cannot be sent to a caller (G-18)."""
        if size > MAX_PAYLOAD_BYTES or self._links.is_cut(source):
            most = self._links.most_bytes(source)
            if size > most:
                raise PayloadTooLargeError(f"{size} bytes; the limit is {most}")

    def send(self, lane: Lane, generation: int, payload: bytes, token: Token) -> None:
        """Send an answer now, or keep it while there is no room; those of one caller keep their order."""
        finish = partial(lane.finish, (token,))
        if len(payload) > MAX_PAYLOAD_BYTES or (self._links.is_cut(lane.source) and len(payload) > SMALL_BYTES):
            self._send_cut(lane.source, generation, payload)
            finish()
        else:
            self._send(lane.source, generation, (payload,), finish)

    def send_urgently(self, source: str, generation: int, *payloads: bytes) -> None:
        """The same for small answers that commit nothing; also from the thread that reads."""
        self._send(source, generation, payloads, _nothing)

    def _send(self, source: str, generation: int, payloads: tuple[bytes, ...], finish: Callable[[], None]) -> None:
        answer = Answer(source, generation, payloads, finish, monotonic() + REPLY_WAIT_SECONDS)
        if any(other.source == source for other in tuple(self._waiting)) or not self._sent(answer):
            self._keep(answer)

    def _keep(self, answer: Answer) -> None:
        with self._lock:
            size = sum(map(len, answer.payloads))
            kept = self._bytes + size <= _MAX_KEPT_BYTES
            if kept:
                self._waiting.append(answer)
                self._bytes += size
                self._next = min(self._next, monotonic() + AGAIN_SECONDS)
        if kept:
            self._context.alarm.wake_by(self._next)
        else:
            self._undelivered(answer, "too many others wait for room already")

    def _send_cut(self, source: str, generation: int, payload: bytes) -> None:
        try:
            with place_given_up():
                link = self._links.open(source, generation)
                link.send_cut(EnvelopeType.SPC_RESPONSE, FLAG_REPLY, payload, REPLY_WAIT_SECONDS)
        except (SpeedError, OSError) as error:
            self._undelivered(Answer(source, generation, (payload,), _nothing, 0.0), str(error))

    def try_again(self) -> None:
        """Send what there is room for by now, drop what waited too long."""
        now = monotonic()
        if now < self._next:
            return
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
            self._bytes, self._next = 0, math.inf
        full: set[str] = set()
        for answer in waiting:
            if answer.source not in full and self._sent(answer):
                continue
            full.add(answer.source)
            if answer.deadline > now:
                self._keep(answer)
            else:
                self._undelivered(answer, "its inbox is full")

    def next_time(self) -> float:
        """Monotonic seconds of the next ``try_again``; infinity when nothing waits."""
        return self._next

    def _sent(self, answer: Answer) -> bool:
        """Send and commit; False if there is no room."""
        try:
            link = self._links.open(answer.source, answer.generation)
            link.send_all(EnvelopeType.SPC_RESPONSE, FLAG_REPLY, answer.payloads, 0.0, urgent=True)
        except InboxFullError:
            return False
        except (SpeedError, OSError) as error:
            self._undelivered(answer, str(error))
        else:
            answer.finish()
        return True

    def _undelivered(self, answer: Answer, why: str) -> None:
        self._context.stats.count("answers_undelivered", len(answer.payloads))
        self._context.said.warn(log, "undelivered", "an answer to %s was not delivered: %s", answer.source, why)
        answer.finish()


def _nothing() -> None:
    """The request was committed already, or never will be."""
