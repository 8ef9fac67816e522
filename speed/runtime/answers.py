"""Answers of services on their way out: those of one run leave in one write, one ring, one commit.

Whoever runs services adds to it and flushes when nothing more is queued; the relief flushes for a runner
that is held up in a service, and waits for no room. An envelope is committed after its answer was appended (L-15).
"""

from __future__ import annotations

import logging
from collections import deque
from time import monotonic
from typing import NamedTuple

from speed.core.progress import Token
from speed.errors import InboxFullError, SpeedError
from speed.runtime.context import Context
from speed.runtime.inbound import Lane
from speed.runtime.outgoing import Links
from speed.wire.envelope import FLAG_REPLY, EnvelopeType

log = logging.getLogger("speed.spc")

MAX_WAITING = 64
REPLY_WAIT_SECONDS = 5.0
"""How long an answer waits for room in the caller's full inbox before it is dropped and counted."""


Link = tuple[Lane, int]
"""Where answers go: to who wrote that lane, in that generation."""


class Answer(NamedTuple):
    """What is to be done for one request: send ``payload``, then commit ``token``."""

    lane: Lane
    generation: int
    payload: bytes
    token: Token


class Answers:
    """Thread-safe without a lock: a deque hands each answer to exactly one of those who flush."""

    def __init__(self, context: Context, links: Links) -> None:
        self._context = context
        self._links = links
        self._waiting: deque[Answer] = deque()

    def add(self, lane: Lane, generation: int, payload: bytes, token: Token) -> None:
        """Queue an answer for the next flush."""
        self._waiting.append(Answer(lane, generation, payload, token))

    def __len__(self) -> int:
        return len(self._waiting)

    def flush(self) -> None:
        """Send and commit what waits; links with room first, so that no full inbox holds up the others."""
        waiting = self._waiting
        if len(waiting) == 1 and self._flush_one():
            return
        while waiting:
            for key, answers in self._send_at_once():
                self._send(key, answers, REPLY_WAIT_SECONDS)

    def flush_at_once(self) -> None:
        """Send and commit what there is room for; the rest goes on waiting."""
        rest: list[Answer] = []
        for _ in range(0, len(self._waiting), MAX_WAITING):
            for _, answers in self._send_at_once():
                rest += answers
        self._waiting.extendleft(reversed(rest))

    def _send_at_once(self) -> list[tuple[Link, list[Answer]]]:
        """Take what waits, at most as many as go in one write; returns those that there is no room for, by link."""
        groups: dict[Link, list[Answer]] = {}
        try:
            for _ in range(MAX_WAITING):
                answer = self._waiting.popleft()
                groups.setdefault((answer.lane, answer.generation), []).append(answer)
        except IndexError:
            pass
        return [(key, answers) for key, answers in groups.items() if not self._send(key, answers, 0.0)]

    def _flush_one(self) -> bool:
        """The usual case between two calls; False if it is to be tried with patience."""
        try:
            answer = self._waiting.popleft()
        except IndexError:
            return True
        if self._send((answer.lane, answer.generation), [answer], 0.0):
            return True
        self._waiting.appendleft(answer)
        return False

    def _send(self, key: Link, answers: list[Answer], wait_seconds: float) -> bool:
        """Send and commit the answers of one link; False if there is no room and ``wait_seconds`` is 0."""
        lane, generation = key
        payloads = [answer.payload for answer in answers]
        try:
            link = self._links.open(lane.source, generation)
            deadline = monotonic() + wait_seconds
            link.send_all(EnvelopeType.SPC_RESPONSE, FLAG_REPLY, payloads, deadline, urgent=not wait_seconds)
        except (SpeedError, OSError) as error:
            if isinstance(error, InboxFullError) and not wait_seconds:
                return False
            self._context.stats.count("answers_undelivered", len(payloads))
            log.warning("answers to %s not delivered: %s", lane.source, error)
        lane.finish([answer.token for answer in answers])
        return True
