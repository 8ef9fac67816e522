"""Bytes of a lane -> authenticated envelopes, sans-IO; finds the next one after damage (L-11, L-16)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from speed.errors import WireError
from speed.wire.envelope import ENVELOPE_OVERHEAD, FLAG_SLOTTED, Header, parse_header
from speed.wire.limits import AAD_BYTES, COUNTER_BITS

_IDS_OFFSET = 32
_HEADER_TAIL = 63
"""So many last bytes may begin a header whose ids are not yet visible."""
_MAX_CANDIDATES = 16
_MAX_SEARCHES = 4
"""Candidates per search and searches per scan: bound the work that a hostile lane can cause (L-16)."""

Opener = Callable[[Header, memoryview], bytes]


class Opened(NamedTuple):
    """An authenticated envelope at ``start..end`` (bytes from the start of the lane file)."""

    header: Header
    payload: bytes
    start: int
    end: int


class Damage(NamedTuple):
    """Bytes that are no valid envelope; ``reason`` is a `wire` code, TRUNCATED for a torn tail."""

    reason: str
    start: int
    end: int


class Scan(NamedTuple):
    """Result of one scan. ``consumed`` bytes are settled; ``needed`` is the total that the next
    envelope claims to need from ``consumed`` on (0: unknown); ``more`` means that a limit ended the scan."""

    items: list[Opened | Damage]
    consumed: int
    needed: int
    more: bool


class Window(NamedTuple):
    """A run of bytes of one lane file, and what is known of them."""

    data: bytes
    base: int
    """Where they lie in the file."""
    generation: int
    final: bool = False
    """Whether no byte will follow."""
    suspicious: bool = False
    """Whether an incomplete envelope is checked for a lying length (L-16)."""
    past_slots: bool = False
    """Whether what lies behind an envelope is decoded before its payload, in a slot, is there (L-30)."""


class LaneDecoder:
    """Decodes any window of a lane: it keeps no bytes, so every split of a lane decodes equally.

    ``opener(header, envelope)`` authenticates and returns the payload or raises ``WireError``.
    """

    __slots__ = ("_max_payload", "_opener", "_pattern", "_source", "_target")

    def __init__(self, source_id: bytes, target_id: bytes, max_payload: int, opener: Opener) -> None:
        self._source = source_id
        self._target = target_id
        self._pattern = source_id + target_id
        self._max_payload = max_payload
        self._opener = opener

    def scan(self, window: Window, limit: int = 64) -> Scan:
        """Decode what lies in ``window``; at most ``limit`` items are returned."""
        items: list[Opened | Damage] = []
        at = searches = 0
        while at < len(window.data):
            if len(items) >= limit or searches >= _MAX_SEARCHES:
                return Scan(items, at, 0, True)
            found = self._look(window, at)
            if isinstance(found, Opened):
                items.append(found)
                at = found.end - window.base
                if found.header.flags & FLAG_SLOTTED and not window.past_slots:
                    return Scan(items, at, 0, True)
                continue
            if isinstance(found, int) and not window.final and not window.suspicious:
                return Scan(items, at, found, False)
            searches += 1
            end = self._end_of_damage(window, at)
            if isinstance(found, int) and not window.final and not isinstance(self._look(window, end), Opened):
                return Scan(items, at, found, False)
            reason = "TRUNCATED" if isinstance(found, int) else found
            _add_damage(items, Damage(reason, window.base + at, window.base + end))
            at = end
        return Scan(items, at, 0, False)

    def _look(self, window: Window, at: int) -> Opened | int | str:
        """The envelope at ``at``; else the bytes it needs in all; else why it is none."""
        left = len(window.data) - at
        if left < AAD_BYTES:
            return ENVELOPE_OVERHEAD
        try:
            header = parse_header(window.data, at)
            if (
                header.source != self._source
                or header.target != self._target
                or header.payload_bytes > self._max_payload
                or header.sequence >> COUNTER_BITS != window.generation
            ):
                return self._misplaced(header)
            total = ENVELOPE_OVERHEAD + header.payload_bytes
            if left < total:
                return total
            payload = self._opener(header, memoryview(window.data)[at : at + total])
        except WireError as error:
            return error.reason
        start = window.base + at
        return Opened(header, payload, start, start + total)

    def _misplaced(self, header: Header) -> str:
        """Why an envelope does not belong into this file."""
        if header.source != self._source:
            return "WRONG_SOURCE"
        if header.target != self._target:
            return "WRONG_TARGET"
        if header.payload_bytes > self._max_payload:
            return "TOO_LARGE"
        return "BAD_SEQUENCE"

    def _end_of_damage(self, window: Window, at: int) -> int:
        """The next place behind damage that may hold an envelope (L-16).

        A complete candidate must authenticate. An incomplete one ends the damage as well: it is judged when its bytes
        are there. Without any, all bytes that cannot begin a header are damage.
        """
        length = len(window.data)
        place = at + 1
        for _ in range(_MAX_CANDIDATES):
            index = window.data.find(self._pattern, place + _IDS_OFFSET)
            if index < 0:
                return length if window.final else max(at, length - _HEADER_TAIL)
            place = index - _IDS_OFFSET
            if not isinstance(self._look(window, place), str):
                return place
            place += 1
        return place


def _add_damage(items: list[Opened | Damage], damage: Damage) -> None:
    """Join neighbouring damage, so that one accident counts once however the bytes arrived."""
    last = items[-1] if items else None
    if isinstance(last, Damage) and last.end == damage.start:
        items[-1] = Damage(last.reason, last.start, damage.end)
    else:
        items.append(damage)
