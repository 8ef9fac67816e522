"""What may go: whole volumes that are too old, or of a journal too large (J-8); what is left is rewritten (J-15).

Offsets stay. The first volume is replaced by a rename, then the others go: at any moment all that is kept is there, and
readers pass what is there twice.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from speed.fs.open import create_file, unlink_quietly, write_all
from speed.journal.files import End, JournalLane, Record, Volume
from speed.wire import names
from speed.wire.journal import MAX_LEFT_OUT, RECORD_BYTES, BlockEntry, VolumeKeys
from speed.wire.limits import JOURNAL_BLOCK_BYTES, JOURNAL_BLOCK_RECORDS
from speed.wire.seal import NonceSource


class KeptVolume(NamedTuple):
    """One volume: when its first and last record were recorded (Unix ms), and its bytes."""

    first_ms: int
    last_ms: int
    lane: str
    first: int
    size: int


class RetainedLane(NamedTuple):
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

    def expired(self, directory: str, lanes: Mapping[str, RetainedLane], now_ms: int) -> dict[str, list[int]]:
        """The volumes to remove by lane, the oldest first; none of a lane in which there is nothing."""
        sources: dict[str, list[KeptVolume]] = {}
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

    def _chosen(self, sources: Mapping[str, list[KeptVolume]], now_ms: int) -> Iterator[KeptVolume]:
        oldest_ms = now_ms - self.max_age_seconds * 1000 if self.max_age_seconds is not None else -1
        held: dict[str, deque[KeptVolume]] = {}
        for source, volumes in sources.items():
            yield from (volume for volume in volumes if volume.last_ms < oldest_ms)
            held[source] = deque(sorted(volume for volume in volumes if volume.last_ms >= oldest_ms))
        if self.max_bytes is not None:
            yield from _too_much(held, self.max_bytes)

    def _lane(self, directory: str, lane: str, last_ms: int | None) -> Iterator[KeptVolume]:
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
                yield KeptVolume(last if start is None else start, last, lane, first, sizes[at])

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


def _too_much(held: Mapping[str, deque[KeptVolume]], max_bytes: int) -> Iterator[KeptVolume]:
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


Keeps = Callable[[Record], bool]
"""Whether a record is kept."""


def kept(first: int, records: Iterable[Record], keeps: Keeps, longest: int = MAX_LEFT_OUT) -> Iterator[Record]:
    """Those that are kept, and the last one of all, which says where the volume ends.

    One more stays wherever more than ``longest`` offsets would be left out.
    """
    passed: Record | None = None
    following = first
    for record in records:
        if passed is not None and record.offset - following > longest:
            yield passed
            following = passed.offset + 1
        passed = record
        if keeps(record):
            yield record
            following, passed = record.offset + 1, None
    if passed is not None:
        yield passed


def sealed(
    first: int, records: Iterable[Record], keys: VolumeKeys, nonces: NonceSource, longest: int = MAX_LEFT_OUT
) -> Iterator[bytes]:
    """Blocks of these records, filled well: small ones are put together."""
    some: list[Record] = []
    size = 0
    for record in records:
        cost = len(record.message) + RECORD_BYTES
        is_full = len(some) >= JOURNAL_BLOCK_RECORDS or size + cost > JOURNAL_BLOCK_BYTES
        if some and (is_full or record.offset - first - len(some) > longest):
            yield _block(first, some, keys, nonces)
            first, some, size = some[-1].offset + 1, [], 0
        some.append(record)
        size += cost
    if some:
        yield _block(first, some, keys, nonces)


def _block(first: int, records: Sequence[Record], keys: VolumeKeys, nonces: NonceSource) -> bytes:
    entries = [BlockEntry(one.sequence, one.recorded_at_ms, one.flags, one.message) for one in records]
    return keys.seal_kept(first, [one.offset for one in records], entries, nonces.draw())


def write_temporary(files: JournalLane, first: int, blocks: Iterable[bytes], *, durable: bool) -> str:
    """Write a volume under a temporary name, which it returns. OSError: then nothing is left."""
    temporary = names.temporary_name(names.volume_name(first))
    fd = create_file(temporary, files.fd, append=False)
    try:
        for block in blocks:
            write_all(fd, block)
        if durable:
            os.fsync(fd)
    except BaseException:
        unlink_quietly(temporary, files.fd)
        raise
    finally:
        os.close(fd)
    return temporary


def remove_leftovers(files: JournalLane) -> None:
    """Remove what a crash left: volumes that are not in place, and those that lie wholly within one before. OSError."""
    for name in files.unfinished_volumes():
        unlink_quietly(name, files.fd)
    reached = 0
    for first in files.volumes()[:-1]:
        end = _end(files, first)
        if first < reached and end is not None and end <= reached:
            unlink_quietly(names.volume_name(first), files.fd)
        reached = max(reached, end or 0)


def _end(files: JournalLane, first: int) -> int | None:
    """The offset behind a volume; None if it is damaged."""
    volume = Volume(files.open(first), first)
    try:
        for _ in volume.headers():
            pass
        return None if volume.ended is End.DAMAGED else volume.offset
    finally:
        volume.close()


def identities(files: JournalLane, volumes: Iterable[int]) -> list[tuple[int, int]]:
    """Which files these volumes are; one that is gone is missing."""
    found = []
    for first in volumes:
        with suppress(FileNotFoundError):
            status = os.stat(names.volume_name(first), dir_fd=files.fd, follow_symlinks=False)
            found.append((status.st_ino, status.st_size))
    return found
