"""Bytes of a lane -> authenticated envelopes, sans-IO; finds the next one after damage (L-11, L-16)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from speed.errors import WireError
from speed.wire.envelope import ENVELOPE_OVERHEAD, Header, parse_header
from speed.wire.limits import AAD_BYTES, COUNTER_BITS

_IDS_OFFSET = 32
_MAX_CANDIDATES = 16
_MAX_DAMAGES = 4
"""Candidates per search and searches per scan: bound the work that a hostile lane can cause (L-16)."""

Opener = Callable[[Header, memoryview], bytes]


class Opened(NamedTuple):
    """An authenticated envelope at ``start..end`` (bytes from the start of the segment)."""

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


class LaneDecoder:
    """Decodes any window of a segment: it keeps no bytes, so every split of a lane decodes equally.

    ``opener(header, envelope)`` authenticates and returns the payload or raises ``WireError``.
    """

    __slots__ = ("_max_payload", "_opener", "_pattern", "_source", "_target")

    def __init__(self, source_id: bytes, target_id: bytes, max_payload: int, opener: Opener) -> None:
        self._source = source_id
        self._target = target_id
        self._pattern = source_id + target_id
        self._max_payload = max_payload
        self._opener = opener

    def scan(
        self,
        data: bytes,
        base: int,
        generation: int,
        *,
        final: bool = False,
        suspicious: bool = False,
        limit: int = 64,
    ) -> Scan:
        """Decode ``data``, which lies at offset ``base`` of a segment.

        ``final``: no byte will follow. ``suspicious``: an incomplete envelope is checked for a lying
        length (L-16). At most ``limit`` items are returned.
        """
        items: list[Opened | Damage] = []
        length = len(data)
        at = needed = searches = 0
        with memoryview(data) as view:
            while at < length:
                if len(items) >= limit or searches >= _MAX_DAMAGES:
                    return Scan(items, at, 0, True)
                found = self._one(view, data, at, length, base, generation)
                if isinstance(found, Opened):
                    items.append(found)
                    at = found.end - base
                    continue
                if isinstance(found, int) and not final and not suspicious:
                    needed = found
                    break
                reason = "TRUNCATED" if isinstance(found, int) else found
                searches += 1
                end = self._resync(view, data, at, length, base, generation, final)
                if (
                    isinstance(found, int)
                    and not final
                    and not self._valid_at(view, data, end, length, base, generation)
                ):
                    needed = found
                    break
                _add_damage(items, Damage(reason, base + at, base + end))
                at = end
        return Scan(items, at, needed, False)

    def _one(
        self, view: memoryview, data: bytes, at: int, length: int, base: int, generation: int
    ) -> Opened | int | str:
        """The envelope at ``at``; else the bytes it needs in all; else why it is none."""
        left = length - at
        if left < AAD_BYTES:
            return ENVELOPE_OVERHEAD
        try:
            header = parse_header(data, at)
            if (
                header.source != self._source
                or header.target != self._target
                or header.payload_bytes > self._max_payload
                or header.sequence >> COUNTER_BITS != generation
            ):
                return self._misplaced(header)
            total = ENVELOPE_OVERHEAD + header.payload_bytes
            if left < total:
                return total
            with view[at : at + total] as envelope:
                payload = self._opener(header, envelope)
        except WireError as error:
            return error.reason
        return Opened(header, payload, base + at, base + at + total)

    def _misplaced(self, header: Header) -> str:
        """Why an envelope does not belong into this segment."""
        if header.source != self._source:
            return "WRONG_SOURCE"
        if header.target != self._target:
            return "WRONG_TARGET"
        if header.payload_bytes > self._max_payload:
            return "TOO_LARGE"
        return "BAD_SEQUENCE"

    def _valid_at(self, view: memoryview, data: bytes, at: int, length: int, base: int, generation: int) -> bool:
        return at < length and isinstance(self._one(view, data, at, length, base, generation), Opened)

    def _resync(
        self,
        view: memoryview,
        data: bytes,
        at: int,
        length: int,
        base: int,
        generation: int,
        final: bool,
    ) -> int:
        """Where the damage that begins at ``at`` ends: the next place that may hold an envelope (L-16).

        A complete candidate must authenticate. An incomplete one ends the damage as well: it is judged
        when its bytes are there. Without any, all bytes that cannot begin a header pattern are damage.
        """
        place = at + 1
        for _ in range(_MAX_CANDIDATES):
            index = data.find(self._pattern, place + _IDS_OFFSET, length)
            if index < 0:
                # the last 63 bytes may be the start of a header whose ids are not yet visible
                return length if final else max(at, length - 63)
            place = index - _IDS_OFFSET
            if not isinstance(self._one(view, data, place, length, base, generation), str):
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
