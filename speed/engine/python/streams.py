"""Streams of a node in Python: their channels, and which envelope is for which (S-28, S-29, S-33)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

from speed.core import counters
from speed.core.calls import raised
from speed.core.streams import Arrived, ProgressRate, StreamCredit, StreamWindow
from speed.engine import threads
from speed.engine.futures import Answer, Outcome
from speed.engine.streams import Reserved, Taken, TakenKind
from speed.engine.workers import place_given_up
from speed.errors import Execution, SpeedError
from speed.wire import spc
from speed.wire.spc import Progress, StreamOffer, StreamPart

_NOTHING: Taken = (TakenKind.NOTHING, None, 0, 0)
_OVER: Taken = (TakenKind.OVER, None, 0, 0)
_LAST: Taken = (TakenKind.LAST, None, 0, 0)
Write = Callable[[bytes], object]


class LaneChannel:
    """One stream at one of its nodes. Who reads brings envelopes, the program's threads take and give. Thread-safe."""

    def __init__(self, request_id: str, offer: StreamOffer, window: StreamWindow, credit: StreamCredit) -> None:
        self.request_id = request_id
        self.wants_items, self.sends_items = offer.wants_items, offer.sends
        self.wants_progress = offer.progress
        self.broken = ""
        self._window, self._credit = window, credit
        self._rate = ProgressRate()
        self._changed = threading.Condition(threads.lock("stream"))
        self._arrived: deque[Taken] = deque()
        self._progress: Progress | None = None
        self._is_last = self._is_over = self._is_closed = False
        self._outcome: Outcome = None
        self._write: Write = _unbound
        self._hint: Write = _unbound
        self._withdraw: Callable[[], None] = _nothing

    def bind(self, write: Write, hint: Write, withdraw: Callable[[], None]) -> None:
        """How it sends: ``write`` waits for room, ``hint`` does not, and may lose what it is given."""
        self._write, self._hint, self._withdraw = write, hint, withdraw

    # --- on the thread that reads ---

    def arrive(self, part: StreamPart, payload: bytes) -> None:
        """One envelope of the other side."""
        with self._changed:
            if part.credit is not None:
                self._credit.grant(*part.credit)
            elif part.progress is not None:
                self._progress = part.progress
            elif not self._is_closed:
                self._take_in(part, payload)
            self._changed.notify_all()

    def _take_in(self, part: StreamPart, payload: bytes) -> None:
        size = len(payload) - part.items_at
        arrived = self._window.arrive(part.number or 0, part.items, size)
        if arrived is Arrived.AGAIN:
            return
        if arrived is not Arrived.NEXT or self._is_last:
            self.broken = self.broken or f"what it sent breaks the stream: {arrived.value}"
            self._arrived.clear()
            return
        if part.items:
            self._arrived.append((TakenKind.ITEMS, payload, part.items, size))
        self._is_last = part.last

    def end(self, outcome: Outcome) -> None:
        """The call has ended."""
        with self._changed:
            self._outcome, self._is_over = outcome, True
            self._changed.notify_all()

    # --- the program's ---

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._arrived.clear()
            self._changed.notify_all()

    def take(self, timeout: float) -> Taken:
        taken = self._look()
        if taken is not _NOTHING or not timeout:
            return taken
        until = monotonic() + timeout
        with place_given_up(), self._changed:
            while (taken := self._look()) is _NOTHING and (left := until - monotonic()) > 0:
                self._changed.wait(left)
        return taken

    def _look(self) -> Taken:
        if self._is_closed or self.broken:
            return _OVER
        progress, self._progress = self._progress, None
        if progress is not None:
            return (TakenKind.PROGRESS, tuple(progress), 0, 0)
        is_over, is_last = self._is_over, self._is_last  # looked at first: items come before either
        try:
            return self._arrived.popleft()
        except IndexError:
            if is_over:
                return _OVER
            return _LAST if is_last else _NOTHING

    def process(self, items: int, size: int) -> None:
        with self._changed:
            granted = self._window.process(items, size)
            if granted is None or self._is_over or self._is_closed or self._is_last:
                return
        self._write(spc.encode_credit(self.request_id, *granted))

    def open(self) -> None:
        with self._changed:
            granted = self._window.open()
        self._write(spc.encode_credit(self.request_id, *granted))

    def reserve(self, size: int, timeout: float) -> int:
        reserved = self._reserve(size)
        if reserved != Reserved.NOTHING or not timeout:
            return reserved
        until = monotonic() + timeout
        with place_given_up(), self._changed:
            while (reserved := self._reserve(size)) == Reserved.NOTHING and (left := until - monotonic()) > 0:
                self._changed.wait(left)
        return reserved

    def _reserve(self, size: int) -> int:
        if self._is_closed or self._is_over or self.broken:
            return Reserved.OVER
        has_credit = self._credit.send(size) if size else self._credit.granted_items > 0
        return Reserved.CREDIT if has_credit else Reserved.NOTHING

    def write(self, payload: bytes) -> None:
        self._write(payload)

    def report(self, done: float, total: float | None, note: str) -> None:
        with self._changed:
            is_due = self._rate.takes(done, total, monotonic())
        if is_due:
            self._hint(spc.encode_progress(self.request_id, done, total, note))

    def outcome(self) -> Any:
        """The result of the call that has ended; raises its error."""
        outcome = self._outcome.outcome() if type(self._outcome) is Answer else self._outcome
        if isinstance(outcome, SpeedError):
            raise raised(outcome, Execution.MAY_HAVE_RUN)
        return outcome

    def withdraw(self) -> None:
        self._withdraw()


def _unbound(_: bytes) -> None:
    """It sends nothing before it is bound."""


def _nothing() -> None:
    """A service withdraws nothing."""


class Streams(dict[tuple[str, str], LaneChannel]):
    """The channels of one side by node and request id. Thread-safe: single operations of a dict."""

    def add(self, node: str, channel: LaneChannel) -> None:
        self[node, channel.request_id] = channel

    def remove(self, node: str, request_id: str) -> None:
        self.pop((node, request_id), None)

    def arrive(self, node: str, payload: bytes, count: Callable[[str], None]) -> None:
        """A STREAM envelope of ``node``; WireError if it cannot be read. ``count`` hears of one that nobody expects."""
        part = spc.decode_stream(payload)
        channel = self.get((node, part.request_id))
        if channel is None:
            count(counters.STREAM_ENVELOPES_UNEXPECTED)
        else:
            channel.arrive(part, payload)
