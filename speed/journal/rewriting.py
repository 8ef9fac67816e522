"""Rewriting volumes that are not written any more: what is kept of neighbours goes into one of them (J-15).

Offsets stay. The first volume is replaced by a rename, then the others go: at any moment all that is kept is there, and
readers pass what is there twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from speed.fs.open import create_file, unlink_quietly, write_all
from speed.journal.journal_lane import JournalLane
from speed.journal.record import Record
from speed.journal.volume import End, Volume
from speed.wire import names
from speed.wire.journal import MAX_LEFT_OUT, RECORD_BYTES, Entry, VolumeKeys
from speed.wire.limits import JOURNAL_BLOCK_BYTES, JOURNAL_BLOCK_RECORDS
from speed.wire.seal import NonceSource

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
    entries = [Entry(one.sequence, one.recorded_at_ms, one.flags, one.message) for one in records]
    return keys.seal_kept(first, [one.offset for one in records], entries, nonces.draw())


def write_beside(files: JournalLane, first: int, blocks: Iterable[bytes], *, durable: bool) -> str:
    """Write a volume under a temporary name, which it returns. OSError: then nothing is left."""
    temporary = names.rewritten_name(first)
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
    for name in files.unfinished():
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
