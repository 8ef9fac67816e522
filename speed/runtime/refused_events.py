"""Telling a publisher unasked that its events are not recorded (J-9)."""

from __future__ import annotations

from time import monotonic
from typing import NamedTuple

from speed.errors import JournalFullError, JournalRefusedError, SpeedError
from speed.runtime.arrival import Arrival
from speed.wire.limits import MAX_ERROR_CHARACTERS

REPORTED = (JournalFullError, JournalRefusedError)
AGAIN_SECONDS = 1.0
"""So long a publisher is told nothing more of its events."""
_MAX_SOURCES = 1024


class _Told(NamedTuple):
    until: float
    left_out: int


class RefusedEvents:
    """When each publisher was told, and of how many events it was not. Not thread-safe: it is used by batch."""

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}

    def report(self, arrival: Arrival, error: SpeedError) -> None:
        """Tell the publisher of an event, unless it was told just before."""
        if not arrival.is_event or not isinstance(error, REPORTED):
            return
        now = monotonic()
        told = self._told.get(arrival.source, _Told(0.0, 0))
        if now < told.until:
            self._told[arrival.source] = _Told(told.until, told.left_out + 1)
            return
        if len(self._told) >= _MAX_SOURCES:
            self._told = {source: one for source, one in self._told.items() if now < one.until}
            if len(self._told) >= _MAX_SOURCES:
                return
        self._told[arrival.source] = _Told(now + AGAIN_SECONDS, 0)
        more = f"; {told.left_out} more of its events were refused since the last report" if told.left_out else ""
        arrival.report(error.code, f"{error}{more}"[:MAX_ERROR_CHARACTERS])
