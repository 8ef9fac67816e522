"""Arrivals handed over many at a time: what waits is one batch, a lone message does not wait (L-15).

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
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from speed.core import counters
from speed.core.lane import Token
from speed.core.log import logger
from speed.core.services import failure_text
from speed.engine.message import BatchHandler, Message
from speed.engine.python.context import Context, Stats
from speed.engine.python.lanes import Lane
from speed.engine.threads import ProgramsCode
from speed.engine.workers import WorkerPool
from speed.errors import JournalFullError, JournalRefusedError, SpeedError
from speed.fs.identity import unix_ms
from speed.message.errors import AwayError, NamespaceError
from speed.wire.limits import DEFAULT_PRIORITY, MAX_ERROR_CHARACTERS, RETRY_FIRST_SECONDS, RETRY_MOST_SECONDS

if TYPE_CHECKING:
    from speed.core.scheduler import Work


# One message or event on its way from the thread that reads to whoever handles it.

Open = Callable[["Arrival"], "Message | None"]
"""Puts a payload in segments together; None if that failed, which was told where it had to be."""
Acknowledge = Callable[[bool], None]
"""Tells the sender that it was handled, or with True that it waits for the program to take it."""
Refuse = Callable[[str, str], None]
Answer = tuple[Acknowledge, Refuse]


class Arrival:
    """``token`` commits it in ``lane``. Its sender is answered once, if it asked for that: ``wants_ack``.

    ``letter`` is the number of the dead letter that it was until now, if it was one.
    """

    __slots__ = (
        "_answers",
        "_is_counted",
        "_opener",
        "_report",
        "_run",
        "arrived",
        "deliveries",
        "failures",
        "is_event",
        "lane",
        "letter",
        "message",
        "order",
        "priority",
        "redelivered",
        "token",
    )

    def __init__(
        self,
        lane: Lane,
        token: Token,
        *,
        is_event: bool,
        redelivered: bool,
        run: Callable[[Arrival, Work], None],
        message: Message | None = None,
        order: Hashable = None,
        answer: Answer | None = None,
        wants_ack: bool = True,
    ) -> None:
        self.lane, self.token, self.is_event, self.redelivered = lane, token, is_event, redelivered
        self.message, self.order, self._run = message, order, run
        self._opener: Open | None = None
        self.priority = DEFAULT_PRIORITY if message is None else message.metadata.priority
        self._answers = [answer] if answer is not None and wants_ack else []
        self._report = None if answer is None or wants_ack else answer[1]
        self.arrived = monotonic()
        self.deliveries = 0
        self.failures = 0
        self.letter: int | None = None
        self._is_counted = False

    @property
    def source(self) -> str:
        return self.lane.source

    @property
    def topic(self) -> str | None:
        """None while the payload is not put together."""
        return None if self.message is None else self.message.topic

    def run(self, work: Work) -> None:
        """Handle it, on a worker."""
        self._run(self, work)

    def opens_with(self, opener: Open) -> None:
        """Have the payload put together when its turn has come."""
        self._opener = opener

    def open(self) -> Message | None:
        """The message, put together if need be; None if that failed for good."""
        return self._opener(self) if self.message is None and self._opener is not None else self.message

    def begin(self) -> int:
        """Note that it is begun: how often it has been by then; for one that came again, on disk (L-25)."""
        if not self._is_counted:
            self._is_counted = True
            if self.redelivered:
                self.deliveries = max(self.deliveries + 1, self.lane.begin_again(self.token))
            else:
                self.deliveries += 1
        return self.deliveries

    def failed(self, *, counts: bool) -> int:
        """Its handling failed; how often in a row. What ``counts`` is one delivery more the next time."""
        self._is_counted = not counts
        self.failures += 1
        return self.failures

    def acknowledge(self, *, waiting: bool = False) -> None:
        for acknowledge, _ in self._answer():
            acknowledge(waiting)

    def refuse(self, code: str, text: str) -> None:
        for _, refuse in self._answer():
            refuse(code, text)

    def report(self, code: str, text: str) -> None:
        """Tell its sender unasked that it was refused; one that asked gets its answer."""
        if self._report is not None:
            self._report(code, text)

    def _answer(self) -> list[Answer]:
        """How its sender is answered, once: ``pop`` gives it to one thread alone."""
        try:
            return [self._answers.pop()]
        except IndexError:
            return []

    def finish(self) -> None:
        """Commit it: it is never delivered again."""
        if self.message is not None:
            self.message.done()
        else:
            self.lane.finish((self.token,))


# How long handlers take (S-14).

MESSAGES, BATCHES = "(messages)", "(batches)"
"""Handlers that no pattern of events has: no topic is called so."""


@contextmanager
def handled(stats: Stats, handler: str, arrival: Arrival) -> Iterator[None]:
    """Count one attempt of a handler, which fails if it raises; ``arrival`` waited since it came."""
    began = monotonic()
    queued = None if arrival.failures else began - arrival.arrived
    failed = True
    try:
        yield
        failed = False
    finally:
        stats.handled(handler, monotonic() - began, queued, failed=failed)


# What is looked at before a message is handed to the program, wherever it waited (M-7, M-34).

log = logger("speed.messages")

_EXPIRED = "the message expired before it was handled"
_LIMIT_SECONDS = 60.0
ALL_NAMESPACES = "*"


def may_be_handed(context: Context, arrival: Arrival) -> bool:
    """Whether the program may have the message; else it is counted, its sender is told, and it is finished.

    Of a dead letter that is not asked: it was handed over before, and somebody asked for another try.
    """
    return arrival.letter is not None or not (is_expired(context, arrival) or _is_of_others(context, arrival))


def is_expired(context: Context, arrival: Arrival) -> bool:
    """Whether its time is over; then it is finished as well."""
    assert arrival.message is not None
    if not arrival.message.metadata.is_expired(unix_ms()):
        return False
    text = "a message of %s expired before it was handled"
    context.limiter.warn(log, "expired", text, arrival.source, seconds=_LIMIT_SECONDS)
    _refuse(context, arrival, counters.MESSAGES_EXPIRED, "EXECUTION_FAILED", _EXPIRED)
    return True


def _is_of_others(context: Context, arrival: Arrival) -> bool:
    """Whether it is of a namespace that this node does not take."""
    assert arrival.message is not None
    namespace = arrival.message.metadata.namespace
    taken = context.accept_namespaces
    if namespace in taken or ALL_NAMESPACES in taken:
        return False
    why = f"namespace: {namespace!r} is not taken by {context.name!r}"
    context.limiter.warn(
        log, "namespace", "a message of %s is refused: %s", arrival.source, why, seconds=_LIMIT_SECONDS
    )
    _refuse(context, arrival, counters.MESSAGES_REFUSED, "INVALID_ARGUMENTS", f"{NamespaceError.code}: {why}")
    return True


def _refuse(context: Context, arrival: Arrival, counter: str, code: str, text: str) -> None:
    context.stats.count(counter)
    arrival.refuse(code, text)
    arrival.finish()


# Telling a publisher unasked that its events are not recorded (J-9).

REPORTED = (JournalFullError, JournalRefusedError)
AGAIN_SECONDS = 1.0
"""So long a publisher is told nothing more of its events."""
_MAX_SOURCES = 1024


class _LastReport(NamedTuple):
    until: float
    left_out: int


class RefusedEvents:
    """When each publisher was told, and of how many events it was not. Not thread-safe: it is used by batch."""

    def __init__(self) -> None:
        self._last_reports: dict[str, _LastReport] = {}

    def report(self, arrival: Arrival, error: SpeedError) -> None:
        """Report to the publisher of an event, unless it had a report just before."""
        if not arrival.is_event or not isinstance(error, REPORTED):
            return
        now = monotonic()
        last = self._last_reports.get(arrival.source, _LastReport(0.0, 0))
        if now < last.until:
            self._last_reports[arrival.source] = _LastReport(last.until, last.left_out + 1)
            return
        if len(self._last_reports) >= _MAX_SOURCES:
            self._last_reports = {source: one for source, one in self._last_reports.items() if now < one.until}
            if len(self._last_reports) >= _MAX_SOURCES:
                return
        self._last_reports[arrival.source] = _LastReport(now + AGAIN_SECONDS, 0)
        more = f"; {last.left_out} more of its events were refused since the last report" if last.left_out else ""
        arrival.report(error.code, f"{error}{more}"[:MAX_ERROR_CHARACTERS])


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
        limit, first = self._context.max_deliveries, batch[0]
        if first.deliveries > limit and first.letter is None:
            self._put_aside(first, ENDED)
            return
        for attempt in range(max(one.deliveries for one in batch), limit):
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
                with handled(self._context.stats, BATCHES, batch[0]), ProgramsCode():
                    refused = self._handler(messages) or {}
            except AwayError as error:
                self._context.stats.count(counters.BATCHES_FAILED)
                self._context.limiter.warn(log, "batch waits", "a batch of %d messages waits: %s", len(batch), error)
                self._pause(attempt)
                attempt += 1
            except BaseException as error:  # its own exit or cancellation, too
                self._context.stats.count(counters.BATCHES_FAILED)
                why = failure_text(error) or type(error).__name__
                self._context.limiter.warn(log, "batch failed", "a batch of %d messages failed: %s", len(batch), why)
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
                self._context.stats.count(counters.MESSAGES_REFUSED)
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
