"""What may go: whole segments, the oldest first, when a journal is too large or they are too old (J-8)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from speed.journal.lane_files import LaneFiles
from speed.journal.segment import Segment


class Kept(NamedTuple):
    """One segment: when its first and last record were recorded (Unix ms), and its bytes."""

    first_ms: int
    last_ms: int
    lane: str
    first: int
    size: int


class Retention:
    """Limits of a whole journal; None is no limit. Remembers the times of segments, which do not change."""

    def __init__(self, max_bytes: int | None, max_age_seconds: float | None) -> None:
        self.max_bytes = max_bytes
        self.max_age_seconds = max_age_seconds
        self._began: dict[tuple[str, int], int] = {}
        self._ended: dict[str, tuple[list[int], int, int]] = {}
        """Of lanes that others wrote: their segments, the size of the last one, and when their last record came."""

    def expired(self, directory: str, lanes: dict[str, int | None], now_ms: int) -> Iterator[Kept]:
        """The segments to remove, the oldest first. ``lanes``: ids, and the last time (ms) where it is known."""
        if self.max_bytes is None and self.max_age_seconds is None:
            return
        kept = sorted(segment for lane, last_ms in lanes.items() for segment in self._lane(directory, lane, last_ms))
        total = sum(segment.size for segment in kept)
        oldest = now_ms - self.max_age_seconds * 1000 if self.max_age_seconds is not None else -1
        for segment in kept:
            if segment.last_ms < oldest or (self.max_bytes is not None and total > self.max_bytes):
                total -= segment.size
                self._began.pop((segment.lane, segment.first), None)
                yield segment

    def _lane(self, directory: str, lane: str, last_ms: int | None) -> Iterator[Kept]:
        """The segments of a lane that hold something. A segment ends before its successor begins."""
        try:
            with LaneFiles(directory, lane) as files:
                segments = files.segments()
                sizes = [files.size(first) for first in segments]
                began = [self._first_ms(files, first) for first in segments]
                end = last_ms if last_ms is not None else self._last_ms(files, segments, sizes)
        except OSError:
            return
        for at, first in enumerate(segments):
            last = next((time for time in began[at + 1 :] if time is not None), end)
            start = began[at]
            if sizes[at]:
                yield Kept(last if start is None else start, last, lane, first, sizes[at])

    def _first_ms(self, files: LaneFiles, first: int) -> int | None:
        """When a segment begins; None if it is empty or its beginning is damaged."""
        known = self._began.get((files.id, first))
        if known is None:
            segment = Segment(files.open(first), first)
            try:
                header = next((header for header, _ in segment.headers()), None)
            finally:
                segment.close()
            if header is None:
                return None
            known = self._began[(files.id, first)] = header.first_ms
        return known

    def _last_ms(self, files: LaneFiles, segments: list[int], sizes: list[int]) -> int:
        """When the last record of a lane was recorded; 0 if there is none to be read, or nobody asks."""
        if self.max_age_seconds is None or not segments:
            return 0
        known = self._ended.get(files.id)
        if known is None or known[:2] != (segments, sizes[-1]):
            last = next((time for time in map(partial(_end_ms, files), reversed(segments)) if time), 0)
            known = self._ended[files.id] = segments, sizes[-1], last
        return known[2]


def _end_ms(files: LaneFiles, first: int) -> int:
    """When a segment's last record was recorded, 0 without one."""
    segment = Segment(files.open(first), first)
    last = 0
    try:
        for header, _ in segment.headers():
            last = header.last_ms
    finally:
        segment.close()
    return last
