"""Messages and events handed over many at a time: what waits is one batch, a lone message does not wait (L-15).

A batch is acknowledged and committed after its handler returned: one commit a lane. One whose handler raised is
handed over again, until the handler takes it or the node leaves; then it waits in its lanes for the next start.
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
from speed.runtime.arrival import Arrival
from speed.runtime.context import Context
from speed.runtime.fork import ProgramsCode
from speed.runtime.handing import may_be_handed
from speed.runtime.inbound import Lane
from speed.runtime.message import Message
from speed.runtime.refused_events import RefusedEvents
from speed.runtime.workers import WorkerPool

log = logger("speed.messages")

BatchHandler = Callable[[Sequence[Message]], Mapping[int, SpeedError] | None]
"""Takes a batch; the messages at the places it returns are refused, and their senders told."""

BATCH_MESSAGES = 1024
BATCH_BYTES = 4 << 20
AGAIN_SECONDS = 0.25
"""Pause before a batch is handed over again."""


class Batches:
    """What waits for the handler of batches. Thread-safe; one batch at a time is handled."""

    def __init__(self, context: Context, pool: WorkerPool, handler: BatchHandler, patterns: tuple[str, ...]) -> None:
        self._context = context
        self._pool = pool
        self._handler = handler
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
        batch: list[Arrival] = []
        size = 0
        waiting = self._waiting
        while waiting and len(batch) < BATCH_MESSAGES and size < BATCH_BYTES:
            arrival = waiting.popleft()
            if not may_be_handed(self._context, arrival):
                continue
            batch.append(arrival)
            size += _message_of(arrival).metadata.size
        return batch

    def _handle(self, batch: list[Arrival]) -> None:
        messages = [_message_of(arrival) for arrival in batch]
        said = ""
        while not self.leaving and self._context.failure is None:
            try:
                with ProgramsCode():
                    refused = self._handler(messages) or {}
            except BaseException as error:  # its own exit or cancellation, too: the batch waits
                self._context.stats.count("batches_failed")
                if said != failure_text(error):
                    said = failure_text(error)
                    log.warning("a batch of %d messages was not taken, it is tried again: %s", len(batch), said)
                self._context.stopping.wait(AGAIN_SECONDS)
            else:
                self._finish(batch, refused)
                return

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
