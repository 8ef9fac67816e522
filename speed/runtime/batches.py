"""Messages and events handed over many at a time: what waits is one batch, a lone message does not wait (L-15).

A batch is acknowledged and committed after its handler returned: one commit a lane. One whose handler raised is
handed over again; the last time each of its messages is alone, so that one which cannot be handled takes no other one
with it. What fails then is given up as any message is. What needs something that is away waits for as long as that
takes. When the node leaves, what was not taken waits in its lanes for the next start.
After a crash all that was not committed comes again, and only the first of a sender is marked ``redelivered``: who
must not handle a message twice compares its ``sequence``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from speed.core.log import logger
from speed.core.progress import Token
from speed.core.services import failure_text
from speed.errors import SpeedError
from speed.message.errors import AwayError
from speed.runtime.arrival import Arrival
from speed.runtime.context import Context
from speed.runtime.fork import ProgramsCode
from speed.runtime.handing import may_be_handed
from speed.runtime.inbound import Lane
from speed.runtime.message import BatchHandler, Message
from speed.runtime.refused_events import RefusedEvents
from speed.runtime.workers import WorkerPool
from speed.wire.limits import RETRY_FIRST_SECONDS, RETRY_MOST_SECONDS

log = logger("speed.messages")

BATCH_MESSAGES = 1024
BATCH_BYTES = 4 << 20
ENDED = "its handling ended the process"
GiveUp = Callable[[Arrival, Message, str], bool]
"""Puts a message aside, or drops it, and says why; False if there is no room for that."""


class Batches:
    """What waits for the handler of batches. Thread-safe; one batch at a time is handled."""

    def __init__(
        self,
        context: Context,
        pool: WorkerPool,
        handler: BatchHandler,
        patterns: tuple[str, ...],
        give_up: GiveUp,
    ) -> None:
        self._context = context
        self._pool = pool
        self._handler = handler
        self._give_up = give_up
        self.patterns = patterns
        self._waiting: deque[Arrival] = deque()
        self._lock = threading.Lock()
        self._running = False
        self._reports = RefusedEvents()
        self.leaving = False

    def add(self, arrival: Arrival) -> None:
        """Have a message handled with those that wait; in order for each sender."""
        with self._lock:
            self._waiting.append(arrival)
            if self._running:
                return
            self._running = True
        self._pool.submit(self._run)

    def _run(self) -> None:
        """Handle one batch, then queue the next behind other work."""
        try:
            batch = self._take()
            if batch:
                self._handle(batch)
        finally:
            self._handled()

    def _handled(self) -> None:
        with self._lock:
            self._running = bool(self._waiting) and not self.leaving
            again = self._running
        if again:
            self._pool.submit(self._run)

    def _take(self) -> list[Arrival]:
        """What waits; a message whose last attempt this is comes alone."""
        batch: list[Arrival] = []
        size, waiting = 0, self._waiting
        while waiting and len(batch) < BATCH_MESSAGES and size < BATCH_BYTES:
            arrival = waiting[0]
            if not may_be_handed(self._context, arrival):
                waiting.popleft()
                continue
            is_last = arrival.begin() > 1 and arrival.deliveries >= self._context.max_deliveries
            if is_last and batch:
                break
            batch.append(waiting.popleft())
            size += _message_of(arrival).metadata.size
            if is_last:
                break
        return batch

    def _handle(self, batch: list[Arrival]) -> None:
        """Hand it over until it is taken, or each of its messages was alone at last."""
        most, first = self._context.max_deliveries, batch[0]
        if first.deliveries > most and first.letter is None:
            self._put_aside(first, ENDED)
            return
        for attempt in range(max(one.deliveries for one in batch), most):
            if not self._failure(batch):
                return
            self._pause(attempt)
            for one in batch:
                one.failed(counts=True)
                one.begin()
        for one in batch:
            why = self._failure([one])
            if why:
                self._put_aside(one, why)

    def _failure(self, batch: list[Arrival]) -> str:
        """Why the handler did not take a batch; empty if it did, or the node leaves. It waits for what is away."""
        messages = [_message_of(arrival) for arrival in batch]
        for message, arrival in zip(messages, batch, strict=True):
            message.deliveries = arrival.deliveries
        attempt = 1
        while not self._is_over:
            try:
                with ProgramsCode():
                    refused = self._handler(messages) or {}
            except AwayError as error:
                self._context.stats.count("batches_failed")
                self._context.said.warn(log, "batch waits", "a batch of %d messages waits: %s", len(batch), error)
                self._pause(attempt)
                attempt += 1
            except BaseException as error:  # its own exit or cancellation, too
                self._context.stats.count("batches_failed")
                why = failure_text(error) or type(error).__name__
                self._context.said.warn(log, "batch failed", "a batch of %d messages failed: %s", len(batch), why)
                return why
            else:
                self._finish(batch, refused)
                break
        return ""

    @property
    def _is_over(self) -> bool:
        """Whether the node leaves: what was not taken waits in its lanes."""
        return self.leaving or self._context.failure is not None

    def _pause(self, attempt: int) -> None:
        self._context.stopping.wait(min(RETRY_MOST_SECONDS, RETRY_FIRST_SECONDS * 2 ** min(attempt - 1, 16)))

    def _put_aside(self, arrival: Arrival, why: str) -> None:
        """Give a message up, as soon as there is room for that."""
        attempt = 1
        while not self._is_over and not self._give_up(arrival, _message_of(arrival), why):
            self._pause(attempt)
            attempt += 1

    def _finish(self, batch: list[Arrival], refused: Mapping[int, SpeedError]) -> None:
        try:
            for place, error in refused.items():
                self._context.stats.count("messages_refused")
                batch[place].refuse("EXECUTION_FAILED", failure_text(error))
                self._reports.report(batch[place], error)
            for place, arrival in enumerate(batch):
                if place not in refused:
                    arrival.acknowledge()
        finally:
            self._commit(batch)

    def _commit(self, batch: list[Arrival]) -> None:
        lanes: dict[Lane, list[Token]] = {}
        for arrival in batch:
            lanes.setdefault(arrival.lane, []).append(arrival.token)
        for lane, tokens in lanes.items():
            lane.finish(tokens)


def _message_of(arrival: Arrival) -> Message:
    """It was put together before it came here."""
    assert arrival.message is not None
    return arrival.message
