"""Answers of services on their way out: each is one write, one ring, one commit (L-15).

No thread waits for room in the inbox of a caller that does not read: such an answer is kept, and tried again by the
thread that reads, until its time is up.
"""

from __future__ import annotations

import logging
import threading
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

REPLY_WAIT_SECONDS = 5.0
"""How long an answer waits for room in the caller's full inbox before it is dropped and counted."""
AGAIN_SECONDS = 0.005


class Answer(NamedTuple):
    """What is to be done for one request: send ``payload``, then commit ``token``; until ``deadline`` (monotonic)."""

    lane: Lane
    generation: int
    payload: bytes
    token: Token
    deadline: float


class Answers:
    """Sends and commits; thread-safe."""

    def __init__(self, context: Context, links: Links) -> None:
        self._context = context
        self._links = links
        self._waiting: deque[Answer] = deque()
        self._lock = threading.Lock()

    def send(self, lane: Lane, generation: int, payload: bytes, token: Token) -> None:
        """Send an answer now, or keep it while there is no room; those of one caller keep their order."""
        answer = Answer(lane, generation, payload, token, monotonic() + REPLY_WAIT_SECONDS)
        with self._lock:
            behind = any(other.lane.source == lane.source for other in self._waiting)
            if behind:
                self._waiting.append(answer)
        if not behind and not self._sent(answer):
            with self._lock:
                self._waiting.append(answer)
            self._context.heed(monotonic() + AGAIN_SECONDS)

    def try_again(self) -> None:
        """Send what there is room for by now, drop what waited too long."""
        now = monotonic()
        full: set[str] = set()
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        kept: deque[Answer] = deque()
        for answer in waiting:
            if answer.lane.source not in full and self._sent(answer):
                continue
            full.add(answer.lane.source)
            if answer.deadline > now:
                kept.append(answer)
            else:
                self._undelivered(answer, "its inbox is full")
        with self._lock:
            kept.extend(self._waiting)
            self._waiting = kept

    def next_try(self) -> float:
        """Monotonic seconds of the next ``try_again``; infinity when nothing waits."""
        return monotonic() + AGAIN_SECONDS if self._waiting else float("inf")

    def __len__(self) -> int:
        return len(self._waiting)

    def _sent(self, answer: Answer) -> bool:
        """Send and commit; False if there is no room."""
        try:
            link = self._links.open(answer.lane.source, answer.generation)
            link.send(EnvelopeType.SPC_RESPONSE, FLAG_REPLY, answer.payload, 0.0, urgent=True)
        except InboxFullError:
            return False
        except (SpeedError, OSError) as error:
            self._undelivered(answer, str(error))
        else:
            answer.lane.finish((answer.token,))
        return True

    def _undelivered(self, answer: Answer, why: str) -> None:
        self._context.stats.count("answers_undelivered")
        log.warning("an answer to %s was not delivered: %s", answer.lane.source, why)
        answer.lane.finish((answer.token,))
