"""What may go: whole volumes, when they are too old, or their journal is too large (J-8)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from speed.journal.journal_lane import JournalLane
from speed.journal.volume import Volume


class Kept(NamedTuple):
    """One volume: when its first and last record were recorded (Unix ms), and its bytes."""

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
    """Limits of a whole journal; None is no limit. Remembers the times of volumes, which do not change."""

    def __init__(self, max_bytes: int | None, max_age_seconds: float | None) -> None:
        self.max_bytes = max_bytes
        self.max_age_seconds = max_age_seconds
        self._began: dict[tuple[str, int], int] = {}
        self._ended: dict[str, tuple[list[int], int, int]] = {}
        """Of lanes that others wrote: their volumes, the size of the last one, and when their last record came."""

    @property
    def keeps_all(self) -> bool:
        return self.max_bytes is None and self.max_age_seconds is None

    def expired(self, directory: str, lanes: Mapping[str, Lane], now_ms: int) -> dict[str, list[int]]:
        """The volumes to remove by lane, the oldest first; none of a lane in which there is nothing."""
        sources: dict[str, list[Kept]] = {}
        gone: dict[str, list[int]] = {}
        for lane_id, lane in lanes.items():
            kept = list(self._lane(directory, lane_id, lane.last_ms))
            sources.setdefault(lane.source, []).extend(kept)
            if not kept:
                gone[lane_id] = []
        for volume in self._chosen(sources, now_ms):
            self._began.pop((volume.lane, volume.first), None)
            gone.setdefault(volume.lane, []).append(volume.first)
        return gone

    def forget(self, lane_id: str) -> None:
        """A lane was removed wholly."""
        self._ended.pop(lane_id, None)

    def _chosen(self, sources: Mapping[str, list[Kept]], now_ms: int) -> Iterator[Kept]:
        oldest_ms = now_ms - self.max_age_seconds * 1000 if self.max_age_seconds is not None else -1
        held: dict[str, deque[Kept]] = {}
        for source, volumes in sources.items():
            yield from (volume for volume in volumes if volume.last_ms < oldest_ms)
            held[source] = deque(sorted(volume for volume in volumes if volume.last_ms >= oldest_ms))
        if self.max_bytes is not None:
            yield from _too_much(held, self.max_bytes)

    def _lane(self, directory: str, lane: str, last_ms: int | None) -> Iterator[Kept]:
        """The volumes of a lane that hold something. A volume ends before its successor begins."""
        try:
            with JournalLane(directory, lane) as files:
                volumes = files.volumes()
                sizes = [files.size(first) for first in volumes]
                began = [self._first_ms(files, first) for first in volumes]
                end = last_ms if last_ms is not None else self._last_ms(files, volumes, sizes)
        except OSError:
            return
        for at, first in enumerate(volumes):
            last = next((time for time in began[at + 1 :] if time is not None), end)
            start = began[at]
            if sizes[at]:
                yield Kept(last if start is None else start, last, lane, first, sizes[at])

    def _first_ms(self, files: JournalLane, first: int) -> int | None:
        """When a volume begins; None if it is empty or its beginning is damaged."""
        known = self._began.get((files.id, first))
        if known is None:
            volume = Volume(files.open(first), first)
            try:
                header = next((header for header, _ in volume.headers()), None)
            finally:
                volume.close()
            if header is None:
                return None
            known = self._began[(files.id, first)] = header.first_ms
        return known

    def _last_ms(self, files: JournalLane, volumes: list[int], sizes: list[int]) -> int:
        """When the last record of a lane was recorded; 0 if there is none to be read, or nobody asks."""
        if self.max_age_seconds is None or not volumes:
            return 0
        known = self._ended.get(files.id)
        if known is None or known[:2] != (volumes, sizes[-1]):
            last = next((time for time in map(partial(_end_ms, files), reversed(volumes)) if time), 0)
            known = self._ended[files.id] = volumes, sizes[-1], last
        return known[2]


def _too_much(held: Mapping[str, deque[Kept]], max_bytes: int) -> Iterator[Kept]:
    """The oldest volumes of whom holds the most, until all hold no more than ``max_bytes``."""
    sizes = {source: sum(volume.size for volume in volumes) for source, volumes in held.items()}
    total = sum(sizes.values())
    while total > max_bytes:
        largest = max(sizes, key=sizes.__getitem__)
        volume = held[largest].popleft()
        sizes[largest] -= volume.size
        total -= volume.size
        yield volume


def _end_ms(files: JournalLane, first: int) -> int:
    """When a volume's last record was recorded, 0 without one."""
    volume = Volume(files.open(first), first)
    last = 0
    try:
        for header, _ in volume.headers():
            last = header.last_ms
    finally:
        volume.close()
    return last
