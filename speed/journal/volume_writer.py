"""Writing one lane: whole blocks at the end of its last volume, its end, recovery (J-4 to J-6, J-9, J-12)."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from speed.errors import JournalError, StorageError, WireError
from speed.fs.open import create_file, open_directory, opened, replace_file, write_all, write_at_start
from speed.journal.files import End, JournalLane, Volume
from speed.journal.reader import Journal
from speed.wire import names
from speed.wire.journal import FLAG_REDELIVERED, RECORD_BYTES, BlockEntry, Description, VolumeKeys, seal_end
from speed.wire.limits import JOURNAL_BLOCK_BYTES, JOURNAL_BLOCK_RECORDS
from speed.wire.seal import Keyring, NonceSource

TAIL_RECORDS = 16384
"""How far back a repeat is looked for: more than a sender's lane may have unfinished (L-19)."""
_APPEND = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Incoming(NamedTuple):
    """One message to be recorded; ``sequence`` 0: it never comes again."""

    sequence: int
    redelivered: bool
    message: bytes


class VolumeWriter:
    """The end of one lane. Not thread-safe; the journal's lock makes it the only writer."""

    def __init__(
        self,
        journal: Journal,
        lane_id: str,
        keyring: Keyring,
        nonces: NonceSource,
        volume_bytes: int,
        *,
        durable: bool,
    ) -> None:
        """Finds the end of the lane; a torn block behind it is cut off. One that was cut is left as it is."""
        self._journal = journal
        self.id = lane_id
        self._keyring = keyring
        self._nonces = nonces
        self._volume_bytes = volume_bytes
        self._durable = durable
        self._fd = self._end_fd = -1
        self._size = 0
        self._first = -1
        self._keys: VolumeKeys | None = None
        self._tail: dict[int, bytes] | None = None
        self.next = 0
        self.last_ms = 0
        self.description: Description
        self.is_cut = False
        """Whether it ends before its noted end, or that cannot be read: nothing may be written to it."""
        self._last_sequence: int | None = None
        self._gap = 0, 0
        """Offsets that no record has, since damage may have taken them: first and end."""
        self._recover()

    # --- recovery ---

    def _recover(self) -> None:
        with JournalLane(self._journal.directory, self.id) as files:
            self.description = files.description(self._keyring)
            volumes = files.volumes()
            volume = Volume(files.open(volumes[-1]), volumes[-1]) if volumes else None
            try:
                if volume is not None:
                    self._find_end(volume)
                self.is_cut = self.description.has_end and self._is_cut(files)
                if volume is not None and volume.ended is not End.DAMAGED and not self.is_cut:
                    self._reopen(volume)
            finally:
                if volume is not None:
                    volume.close()

    def _find_end(self, volume: Volume) -> None:
        for header, _ in volume.headers():
            self.last_ms = header.last_ms
        self.next = volume.offset
        if volume.ended is End.DAMAGED:
            # How many records were lost cannot be known; each took a byte at least, so no offset comes twice.
            self.next += volume.size() - volume.position
            self._gap = volume.offset, self.next

    def _is_cut(self, files: JournalLane) -> bool:
        try:
            return self.next < files.end(self._keyring)
        except WireError:
            return True

    def _reopen(self, volume: Volume) -> None:
        """Go on in the last volume, behind its last whole block."""
        self._attach(volume.first, self._open(volume.first))
        self._size = volume.position
        if volume.ended is End.TORN:
            os.ftruncate(self._fd, volume.position)

    def _find_last_record(self) -> int:
        """Sequence of the last record that can be read; where the last block is damaged, one further back."""
        first = self._journal.first(self.id)
        for start in (self.next - 1, self._tail_start()):
            found = deque(self._journal.read(self.id, max(first, start), self.next, skip_damaged=True), maxlen=1)
            if found:
                self.last_ms = max(self.last_ms, found[0].recorded_at_ms)
                return found[0].sequence
        return max(self._records_before(), default=0)

    def _records_before(self) -> dict[int, bytes]:
        """The last records of the lane that this one goes on for, by their sequence."""
        before = self.description.after.hex()
        if not before:
            return {}
        try:
            end = self._journal.end(before, skip_damaged=True)
            start = max(self._journal.first(before), end - TAIL_RECORDS)
            records = self._journal.read(before, start, end, skip_damaged=True)
            return {record.sequence: record.message for record in records}
        except JournalError:
            return {}  # retention removed it

    def _tail_start(self) -> int:
        """Where the last TAIL_RECORDS records begin; offsets in the gap do not count."""
        gap, end = self._gap
        start = self.next - TAIL_RECORDS
        return max(0, start if start >= end else start - (end - gap))

    # --- appending ---

    def append(self, incoming: Iterable[Incoming], now_ms: int) -> int:
        """Record what is not recorded yet; returns the bytes written.

        Raises StorageError if not everything is in the file (and flushed, when durable). To try again with the same
        messages is right: those that are in are known.
        """
        if self._last_sequence is None:
            self._last_sequence = self._find_last_record()
        try:
            entries = self._fresh(incoming, max(now_ms, self.last_ms))
            return sum(self._write(part) for part in _parts(entries, self._volume_bytes)) if entries else 0
        except OSError as error:
            raise StorageError(
                f"the journal's lane {self.id} cannot be written: {error.strerror}; make room, or shorten its retention"
            ) from error

    def _fresh(self, incoming: Iterable[Incoming], now_ms: int) -> list[BlockEntry]:
        entries = []
        last = self._last_sequence or 0
        for sequence, redelivered, message in incoming:
            if sequence and sequence <= last and self._is_recorded(sequence, message):
                continue
            entries.append(BlockEntry(sequence, now_ms, FLAG_REDELIVERED if redelivered else 0, message))
            last = sequence
        return entries

    def _is_recorded(self, sequence: int, message: bytes) -> bool:
        """Whether this very record is there: a low sequence alone may be that of a root made anew."""
        if self._tail is None:
            first = max(self._journal.first(self.id), self._tail_start())
            records = self._journal.read(self.id, first, self.next, skip_damaged=True)
            self._tail = self._records_before() | {record.sequence: record.message for record in records}
        return self._tail.get(sequence) == message

    def _write(self, entries: Sequence[BlockEntry]) -> int:
        """Append blocks by one write; all of them count, or none."""
        if self._size >= self._volume_bytes or not self._reopened():
            self._roll()
        assert self._keys is not None
        blocks, offset = [], self.next
        for part in _blocks(entries):
            blocks.append(self._keys.seal(offset, part, self._nonces.draw()))
            offset += len(part)
        data = b"".join(blocks)
        try:
            write_all(self._fd, data)
            if self._durable:
                os.fdatasync(self._fd)
            self._note_end(offset)
        except OSError:
            self._take_back()
            raise
        self._size += len(data)
        self.next, self.last_ms, self._tail = offset, entries[-1].recorded_at_ms, None
        self._last_sequence = entries[-1].sequence
        return len(data)

    def _note_end(self, offset: int) -> None:
        """Behind the block, and never flushed: what is noted is there, whatever else a power cut takes (J-12)."""
        data = seal_end(offset, bytes.fromhex(self.id), self._keyring)
        if self._end_fd < 0:
            self._end_fd = self._open_end(data)
        write_at_start(self._end_fd, data)

    def _open_end(self, data: bytes) -> int:
        """The end of a lane that is known to be whole; one that was taken away meanwhile is made anew."""
        with JournalLane(self._journal.directory, self.id) as files:
            try:
                return files.open_end()
            except OSError:
                return replace_file(names.JOURNAL_END, data, files.fd)

    def _take_back(self) -> None:
        """Cut off what did not get in whole; the volume is left all the same, since it failed once."""
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            pass  # a torn rest before a successor is passed by readers (J-6)
        self.release()
        self._first = -1

    # --- volumes ---

    def leave_volume(self) -> None:
        """Begin the next volume, unless nothing is in the last one. OSError."""
        if self._size:
            self._roll()

    def _roll(self) -> None:
        """Begin the next volume."""
        if self._first == self.next and self._size == 0 and self._reopened():
            return
        directory = open_directory(names.child_path(self._journal.directory, self.id))
        try:
            fd = self._create(directory)
            if self._durable:
                os.fsync(directory)
        finally:
            os.close(directory)
        self.release()
        self._attach(self.next, fd)
        self._size = 0

    def _create(self, directory: int) -> int:
        name = names.volume_name(self.next)
        try:
            return create_file(name, directory, append=True)
        except FileExistsError:  # nothing of it counted: its first write failed
            os.unlink(name, dir_fd=directory)
            return create_file(name, directory, append=True)

    def _reopened(self) -> bool:
        """Whether the last volume is open for writing, as it was left; it may have been released meanwhile."""
        if self._fd >= 0 or self._first < 0:
            return self._fd >= 0
        fd = self._open(self._first)
        if os.fstat(fd).st_size != self._size:
            os.close(fd)
            return False
        self._fd = fd
        return True

    def _open(self, first: int) -> int:
        directory = open_directory(names.child_path(self._journal.directory, self.id))
        try:
            return opened(names.volume_name(first), _APPEND, dir_fd=directory)
        finally:
            os.close(directory)

    def _attach(self, first: int, fd: int) -> None:
        self._fd, self._first = fd, first
        self._keys = VolumeKeys(self._keyring, bytes.fromhex(self.id), first)

    @property
    def is_open(self) -> bool:
        """Whether it holds descriptors."""
        return self._fd >= 0 or self._end_fd >= 0

    def release(self) -> None:
        """Close the descriptors; the next append opens the files again."""
        for fd in (self._fd, self._end_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._end_fd = -1


def _blocks(entries: Sequence[BlockEntry]) -> Iterator[Sequence[BlockEntry]]:
    """Runs of entries that fit a block; a large message has one of its own."""
    return _runs(entries, JOURNAL_BLOCK_RECORDS, JOURNAL_BLOCK_BYTES)


def _parts(entries: Sequence[BlockEntry], max_bytes: int) -> Iterator[Sequence[BlockEntry]]:
    """Runs of entries that go into one write, hence one volume."""
    return _runs(entries, len(entries), max_bytes)


def _runs(entries: Sequence[BlockEntry], limit: int, max_bytes: int) -> Iterator[Sequence[BlockEntry]]:
    ends = list(accumulate(RECORD_BYTES + len(entry.message) for entry in entries))
    start = before = 0
    while start < len(entries):
        fit = bisect_right(ends, before + max_bytes, start)
        end = max(start + 1, min(start + limit, fit))
        yield entries[start:end]
        start, before = end, ends[end - 1]
