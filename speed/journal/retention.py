"""What may go: whole segments, when they are too old, or their journal is too large (J-8)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
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


class Lane(NamedTuple):
    """A lane that retention looks at; ``last_ms`` is when its last record came, None where that is not known."""

    source: str
    last_ms: int | None = None


class Retention:
    """Limits of a whole journal; None is no limit. Remembers the times of segments, which do not change."""

    def __init__(self, max_bytes: int | None, max_age_seconds: float | None) -> None:
        self.max_bytes = max_bytes
        self.max_age_seconds = max_age_seconds
        self._began: dict[tuple[str, int], int] = {}
        self._ended: dict[str, tuple[list[int], int, int]] = {}
        """Of lanes that others wrote: their segments, the size of the last one, and when their last record came."""

    @property
    def keeps_all(self) -> bool:
        return self.max_bytes is None and self.max_age_seconds is None

    def expired(self, directory: str, lanes: Mapping[str, Lane], now_ms: int) -> dict[str, list[int]]:
        """The segments to remove by lane, the oldest first; none of a lane in which there is nothing."""
        sources: dict[str, list[Kept]] = {}
        gone: dict[str, list[int]] = {}
        for lane_id, lane in lanes.items():
            kept = list(self._lane(directory, lane_id, lane.last_ms))
            sources.setdefault(lane.source, []).extend(kept)
            if not kept:
                gone[lane_id] = []
        for segment in self._chosen(sources, now_ms):
            self._began.pop((segment.lane, segment.first), None)
            gone.setdefault(segment.lane, []).append(segment.first)
        return gone

    def forget(self, lane_id: str) -> None:
        """A lane was removed wholly."""
        self._ended.pop(lane_id, None)

    def _chosen(self, sources: Mapping[str, list[Kept]], now_ms: int) -> Iterator[Kept]:
        oldest_ms = now_ms - self.max_age_seconds * 1000 if self.max_age_seconds is not None else -1
        held: dict[str, deque[Kept]] = {}
        for source, segments in sources.items():
            yield from (segment for segment in segments if segment.last_ms < oldest_ms)
            held[source] = deque(sorted(segment for segment in segments if segment.last_ms >= oldest_ms))
        if self.max_bytes is not None:
            yield from _too_much(held, self.max_bytes)

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


def _too_much(held: Mapping[str, deque[Kept]], max_bytes: int) -> Iterator[Kept]:
    """The oldest segments of whom holds the most, until all hold no more than ``max_bytes``."""
    sizes = {source: sum(segment.size for segment in segments) for source, segments in held.items()}
    total = sum(sizes.values())
    while total > max_bytes:
        largest = max(sizes, key=sizes.__getitem__)
        segment = held[largest].popleft()
        sizes[largest] -= segment.size
        total -= segment.size
        yield segment


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
