"""The sender's side of a lane: whole envelopes appended to numbered segments (rules L-3 to L-9)."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Sequence

from speed.errors import StorageError
from speed.fs.committed import Outstanding, newest_cursor, segments_in
from speed.fs.open import create_file, open_directory, unlink_quietly
from speed.wire.limits import LANE_WINDOW_BYTES, SEGMENT_BYTES
from speed.wire.names import lane_dir, segment_name

_MAX_PARTS = 512
"""Envelopes per writev; Linux takes 1024."""
_VERIFY_SECONDS = 0.25


class LaneWriter:
    """Appends envelopes of one link. Not thread-safe: the caller's link lock guards every method.

    ``window_bytes`` bounds what is written and not yet committed by the receiver; ``segment_bytes`` is
    the size from which a segment is followed by the next. ``mode`` is ``append``, or ``rename`` where
    FIFOs or local semantics are missing: then each batch becomes one complete segment (L-9).
    """

    def __init__(
        self,
        root: str,
        source: str,
        target: str,
        generation: int,
        lane_keys: tuple[bytes, ...],
        window_bytes: int = LANE_WINDOW_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        *,
        mode: str = "append",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.target = target
        self._path = lane_dir(root, target, source)
        self._generation = generation
        self._keys = lane_keys
        self._window = window_bytes
        self._segment_bytes = segment_bytes
        self._rename = mode == "rename"
        self._clock = clock
        self._dir = -1
        self._dir_inode = 0
        self._verified = 0.0
        self._fd = -1
        self._segment = 0
        self._size = 0
        self._outstanding = Outstanding()
        self._created = False
        self._unsynced: list[int] = []

    def append(self, envelopes: bytes | Sequence[bytes]) -> None:
        """Write whole envelopes; ``StorageError`` names errno and target.

        L-6: after a failure ``error.envelopes_written`` of them are in the lane for good and the others
        are not: the caller reuses the counters of the others only.
        """
        if self._dir < 0 or self._clock() - self._verified > _VERIFY_SECONDS:
            self._verify()
        if self._rename:
            self._publish(envelopes if isinstance(envelopes, bytes) else b"".join(envelopes))
            return
        if self._fd < 0:
            self._open_segment()
        if isinstance(envelopes, bytes):
            self._write([envelopes], 0)
        else:
            for first in range(0, len(envelopes), _MAX_PARTS):
                self._write(envelopes[first : first + _MAX_PARTS], first)
        if self._size >= self._segment_bytes:
            self._leave_segment()

    def _write(self, parts: Sequence[bytes], before: int) -> None:
        """One writev, continued by write after a short one; ``before`` envelopes went ahead of ``parts``."""
        written = 0
        total = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        try:
            written = os.write(self._fd, parts[0]) if len(parts) == 1 else os.writev(self._fd, parts)
            if written < total:
                rest = memoryview(b"".join(parts))
                while written < total:
                    written += os.write(self._fd, rest[written:])
        except OSError as error:
            self._grown(written)
            whole, torn = _whole(parts, written)
            if torn:
                # never truncated: the reader may have read the torn bytes already
                self._leave_segment()
            raise self._storage_error(error, before + whole) from error
        self._grown(written)

    def _grown(self, written: int) -> None:
        self._size += written
        self._outstanding.add(self._generation, self._segment, written)

    def _open_segment(self) -> None:
        """Create the next free segment of this generation (L-4)."""
        while True:
            name = segment_name(self._generation, self._segment + 1)
            try:
                self._fd = create_file(name, self._dir, append=True)
                break
            except FileExistsError:
                self._segment += 1
            except OSError as error:
                self._drop_directory()
                raise self._storage_error(error, 0) from error
        self._segment += 1
        self._size = 0
        self._created = True

    def _publish(self, batch: bytes) -> None:
        """Make one complete segment appear at once: temporary file, rename (L-9)."""
        temporary = f".tmp-{segment_name(self._generation, self._segment + 1)}"
        try:
            unlink_quietly(temporary, self._dir)
            fd = create_file(temporary, self._dir, append=False)
            self._unsynced.append(fd)
            written = 0
            while written < len(batch):
                written += os.write(fd, memoryview(batch)[written:])
            os.rename(
                temporary,
                segment_name(self._generation, self._segment + 1),
                src_dir_fd=self._dir,
                dst_dir_fd=self._dir,
            )
        except OSError as error:
            unlink_quietly(temporary, self._dir)
            raise self._storage_error(error, 0) from error
        self._segment += 1
        self._created = True
        self._outstanding.add(self._generation, self._segment, len(batch))
        if len(self._unsynced) > 1:
            os.close(self._unsynced.pop(0))

    def room(self, size: int) -> bool:
        """Whether ``size`` more bytes fit the window (L-7); the receiver's cursor is read only when not.

        An empty lane takes an envelope of any size.
        """
        if self._outstanding.bytes + size <= self._window:
            return True
        self._verify()
        cursor = newest_cursor(self._dir, self._keys)
        if cursor is not None:
            self._outstanding.commit(cursor.sender_generation, cursor.segment, cursor.offset)
        return self._outstanding.bytes == 0 or self._outstanding.bytes + size <= self._window

    @property
    def outstanding_bytes(self) -> int:
        """Bytes written and, as far as known, not committed."""
        return self._outstanding.bytes

    def sync(self) -> None:
        """Make what was appended survive a power cut (L-8); ``StorageError`` when the device refuses."""
        try:
            for fd in self._unsynced:
                os.fdatasync(fd)
            if self._fd >= 0:
                os.fdatasync(self._fd)
            if self._created:
                os.fsync(self._dir)
        except OSError as error:
            raise self._storage_error(error, 0) from error
        self._created = False
        while self._unsynced:
            os.close(self._unsynced.pop())

    def reopen(self) -> None:
        """Look for the lane directory again at the next append (the receiver may have moved it away)."""
        self._verified = float("-inf")

    def _verify(self) -> None:
        """Make or find the lane directory; start anew when it is another one than before (L-5)."""
        self._verified = self._clock()
        try:
            if self._dir >= 0 and os.lstat(self._path).st_ino == self._dir_inode:
                return
        except OSError:
            pass
        self._drop_directory()
        try:
            self._open_directory()
        except OSError as error:
            raise self._storage_error(error, 0) from error

    def _open_directory(self) -> None:
        try:
            os.mkdir(self._path, 0o700)
            self._created = True
        except FileExistsError:
            pass
        fd = open_directory(self._path)
        status = os.fstat(fd)
        if status.st_uid != os.geteuid():
            os.close(fd)
            raise PermissionError(errno.EPERM, f"the lane directory belongs to user {status.st_uid}")
        self._dir = fd
        self._dir_inode = status.st_ino
        self._outstanding = Outstanding()
        for generation, segment, size in segments_in(fd):
            self._outstanding.add(generation, segment, size)
            if generation == self._generation:
                self._segment = max(self._segment, segment)

    def _leave_segment(self) -> None:
        """End the current segment; the next append opens another. It is kept open until ``sync``."""
        if self._fd >= 0:
            self._unsynced.append(self._fd)
            self._fd = -1
        if len(self._unsynced) > 1 and not self._created:
            os.close(self._unsynced.pop(0))
        while len(self._unsynced) > 4:
            os.close(self._unsynced.pop(0))

    def _drop_directory(self) -> None:
        self.close()
        self._dir_inode = 0

    def close(self) -> None:
        """Release all descriptors; the files stay for the receiver."""
        for fd in (self._fd, self._dir, *self._unsynced):
            if fd >= 0:
                os.close(fd)
        self._fd = self._dir = -1
        self._unsynced.clear()

    def _storage_error(self, error: OSError, whole: int) -> StorageError:
        name = errno.errorcode.get(error.errno or 0, "EIO")
        failure = StorageError(f"cannot write to the inbox of {self.target}: {name} ({error.strerror})")
        failure.envelopes_written = whole
        return failure


def _whole(parts: Sequence[bytes], written: int) -> tuple[int, bool]:
    """How many envelopes are complete after ``written`` bytes, and whether the next one is torn."""
    for count, part in enumerate(parts):
        if written < len(part):
            return count, written > 0
        written -= len(part)
    return len(parts), False
