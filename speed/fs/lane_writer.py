"""The sender's end of a lane: whole envelopes appended to numbered files (L-2 to L-7, L-23)."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from speed.errors import StorageError
from speed.fs.committed import Outstanding, lane_files_in, newest_cursor
from speed.fs.open import (
    UnclearRenameError,
    above_standard,
    create_file,
    is_shared,
    make_directory,
    open_directory,
    put_in_place,
    replace_file,
    sync_directory,
    unlink_quietly,
    write_all,
)
from speed.fs.root import registry_gone
from speed.fs.slots import SlotWriter
from speed.wire.cursor import SlotHead
from speed.wire.envelope import ENVELOPE_OVERHEAD
from speed.wire.limits import (
    LANE_CHECK_SECONDS,
    LANE_WINDOW_BYTES,
    MAX_LANE_SEGMENTS,
    SEGMENT_BYTES,
    SLOT_HEAD_BYTES,
)
from speed.wire.names import inbox_dir, lane_dir, lane_file_name, node_dir, temporary_name

_MAX_PARTS = 512
"""Envelopes per writev; Linux takes 1024."""
_FIXES = {
    errno.ENOSPC: "the filesystem is full: free space, or let the receiver catch up",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the process's file size limit is reached (ulimit -f)",
    errno.EMFILE: "this process has too many open files (ulimit -n)",
    errno.EACCES: "the receiver's inbox belongs to another user",
    errno.ENOENT: "the receiver has no inbox here: was it ever started on this root?",
}


def storage_error(error: OSError, doing: str) -> StorageError:
    """A StorageError that says what failed and, where known, what to do."""
    name = errno.errorcode.get(error.errno or 0, "?")
    return StorageError(
        f"{doing}: {error.strerror} ({name}); {_FIXES.get(error.errno or 0, 'see `speed root doctor`')}"
    )


def has_no_space(error: StorageError) -> bool:
    """Whether space or quota was missing: removing a file may help."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT)


class LaneWriter:
    """Appends whole envelopes of one link. Not thread-safe: the link's lock guards every method.

    ``window_bytes`` bounds what is written and not yet committed by the receiver; ``file_bytes`` is
    the size from which a file is followed by the next. ``mode`` is ``append``, or ``rename`` where
    FIFOs or local semantics are missing: then each append becomes one complete file (L-23). With
    ``durable`` a file is flushed before it is left; ``flush`` does it for the present one (L-7).
    """

    def __init__(
        self,
        root: str,
        source: str,
        target: str,
        generation: int,
        lane_keys: Sequence[bytes],
        *,
        window_bytes: int = LANE_WINDOW_BYTES,
        file_bytes: int = SEGMENT_BYTES,
        mode: str = "append",
        durable: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target = target
        self._path = lane_dir(root, target, source)
        self._places = (self._path, inbox_dir(root, target), node_dir(root, target), root)
        """Each holds the name of the one before."""
        self._generation = generation
        self._keys = lane_keys
        self._window = window_bytes
        self._file_bytes = file_bytes
        self._rename = mode == "rename"
        self._durable = durable
        self._clock = clock
        self._dir = -1
        self._dir_inode = 0
        self._verified = float("-inf")
        self._fd = -1
        self._file = 0
        self._size = 0
        self._outstanding = Outstanding()
        self._slots = SlotWriter(generation, durable=durable)
        self._created = False
        self.opening: tuple[str, bytes] | None = None
        """Name and bytes of the file that is to be in the lane before the next envelope (I-4)."""
        self._left = ""
        """Which opening was left since the directory was opened."""
        self.flush_failures = 0
        """Flushes that failed so far: what was appended before each may be lost in a power cut."""
        self.flush_error = ""
        """What the last of them said."""

    def append(self, envelopes: bytes | Sequence[bytes]) -> None:
        """Write whole envelopes; ``StorageError`` names errno and target.

        L-5: after a failure ``error.envelopes_written`` of them are in the lane for good and the others
        are not: the caller reuses the counters of the others only.
        """
        if self._dir < 0 or self._clock() - self._verified > LANE_CHECK_SECONDS or not os.fstat(self._dir).st_nlink:
            self._verify()
        if self.opening is not None and self._left != self.opening[0]:
            self._leave_opening(*self.opening)
        if self._rename:
            self._publish([envelopes] if isinstance(envelopes, bytes) else envelopes)
            return
        if self._slots:
            self._trim_slots(len(envelopes) if isinstance(envelopes, bytes) else sum(map(len, envelopes)))
        if self._fd < 0:
            self._open_file()
        if isinstance(envelopes, bytes):
            self._write([envelopes], 0)
        elif len(envelopes) <= _MAX_PARTS:
            self._write(envelopes, 0)
        else:
            for first in range(0, len(envelopes), _MAX_PARTS):
                self._write(envelopes[first : first + _MAX_PARTS], first)
        if self._size >= self._file_bytes:
            self._leave_file()

    def _leave_opening(self, filename: str, opening: bytes) -> None:
        """On disk before the envelopes that it opens, where they are to be."""
        try:
            os.close(replace_file(filename, opening, self._dir, durable=self._durable))
        except OSError as error:
            raise self._storage_error(error, 0) from error
        self._left = filename

    def _write(self, parts: Sequence[bytes], before: int) -> None:
        """One writev, continued by write after a short one; ``before`` envelopes went ahead of ``parts``."""
        written = 0
        total = sum(map(len, parts))
        try:
            written = os.writev(self._fd, parts)
            if written < total:
                rest = memoryview(b"".join(parts))
                while written < total:
                    written += os.write(self._fd, rest[written:])
        except OSError as error:
            if error.errno is None:  # a signal handler of the program raised it, a TimeoutError perhaps
                self._leave_file()
                raise
            self._size += written
            self._outstanding.grow(written)
            whole = _whole(parts, written)
            if self._size:
                # Never truncated: the reader may have read torn bytes already. A successor also lets the
                # receiver remove this file, which may be what frees the space that is missing.
                self._leave_file()
            raise self._storage_error(error, before + whole) from error
        except BaseException:
            self._leave_file()  # a signal handler raised: what is torn must not lie before whole envelopes
            raise
        self._size += written
        self._outstanding.grow(written)

    def _open_file(self) -> None:
        """Create the next free file of this generation (L-2)."""
        while True:
            name = lane_file_name(self._generation, self._file + 1)
            try:
                self._fd = create_file(name, self._dir, append=True)
                break
            except FileExistsError:
                self._file += 1
            except OSError as error:
                self.close()
                raise self._storage_error(error, 0) from error
        self._file += 1
        self._size = 0
        self._created = True
        self._outstanding.add(self._generation, self._file, 0)

    def _publish(self, parts: Sequence[bytes]) -> None:
        """Make one complete file appear at once: temporary file, rename (L-23)."""
        batch = b"".join(parts)
        name = lane_file_name(self._generation, self._file + 1)
        temporary = temporary_name(name)
        try:
            unlink_quietly(temporary, self._dir)
            self._write_complete(temporary, batch)
            put_in_place(temporary, name, self._dir)
        except UnclearRenameError as error:
            unlink_quietly(temporary, self._dir)
            self._file += 1  # neither its number nor the counters may be used again: it may be there
            raise self._storage_error(error, len(parts)) from error
        except OSError as error:
            unlink_quietly(temporary, self._dir)
            raise self._storage_error(error, 0) from error
        self._file += 1
        self._created = True
        self._outstanding.add(self._generation, self._file, len(batch))

    def _write_complete(self, name: str, batch: bytes) -> None:
        fd = create_file(name, self._dir, append=False)
        try:
            write_all(fd, batch)
            if self._durable:
                os.fsync(fd)
        finally:
            os.close(fd)

    def room(self, size: int) -> bool:
        """Whether ``size`` more bytes fit the window (L-6); the receiver's cursor is read only when not.

        An empty lane takes an envelope of any size.
        """
        if self._dir < 0:
            self._verify()
        held = self._outstanding.bytes + self._slots.held
        if held + size <= self._window and (self._fd >= 0 or self._may_begin()):
            return True
        self._verify()
        self._look_at_cursor()
        if self._may_begin():
            if self.outstanding_bytes == 0 or self.outstanding_bytes + size <= self._window:
                return True
            if self._fd < 0 and not self._rename:
                self._open_file()  # only a successor lets the receiver pass a torn rest (L-5)
        return False

    def _may_begin(self) -> bool:
        """Whether one more append leaves the directory small enough to be listed whole."""
        return self._fd >= 0 or len(self._outstanding.files) < MAX_LANE_SEGMENTS

    def _look_at_cursor(self) -> None:
        try:
            cursor = newest_cursor(self._dir, self._keys)
        except OSError as error:
            raise self._storage_error(error, 0) from error
        if cursor is not None:
            self._outstanding.commit(cursor.sender_generation, cursor.file, cursor.offset)
            self._slots.commit(cursor)

    @property
    def outstanding_bytes(self) -> int:
        """Bytes written and, as far as this sender has looked, not committed; those in slots as well."""
        return self._outstanding.bytes + self._slots.held

    # --- large payloads (L-29) ---

    def begin_slot(self, payload_bytes: int) -> SlotHead | None:
        """Reserve a slot for a payload, and say what its envelope holds; None if all are in use. StorageError.

        The next ``append`` brings that envelope alone; then ``fill_slot``, or ``spoil_slot`` whatever failed since.
        """
        self._verify()
        if self._slots.is_in_use:
            self._look_at_cursor()
        head_bytes = ENVELOPE_OVERHEAD + SLOT_HEAD_BYTES
        with self._storage_errors():
            return self._slots.begin(self._dir, payload_bytes, self._window - self.outstanding_bytes - head_bytes)

    def _trim_slots(self, size: int) -> None:
        """Free ones keep no window from what is about to be written (L-29)."""
        if self._outstanding.bytes + self._slots.file_bytes + size > self._window:
            self._slots.trim(self._dir, self._window - self.outstanding_bytes - size)

    def fill_slot(self, payload: bytes) -> None:
        """Write the payload; ``StorageError`` if it is not whole there, or may not survive a power cut."""
        start = self._size - ENVELOPE_OVERHEAD - SLOT_HEAD_BYTES
        with self._storage_errors():
            self._slots.write(payload, (self._generation, self._file, start))

    def spoil_slot(self) -> None:
        """Let the receiver know that the payload does not come."""
        self._slots.spoil((self._generation, self._file))

    def release_slots(self, *, idle: bool = False) -> bool:
        """Remove the slots that are free, or with ``idle`` those that were not used since this was called last.

        Whether there were any. What cannot be done is left: the receiver removes it once this sender begins anew.
        """
        before = self._slots.file_bytes
        if not self._slots:
            return False
        with contextlib.suppress(OSError):
            directory = open_directory(self._path)
            try:
                cursor = newest_cursor(directory, self._keys)
                if cursor is not None:
                    self._slots.commit(cursor)
                self._slots.release(directory, idle=idle)
            finally:
                os.close(directory)
        return self._slots.file_bytes < before

    # --- what makes it last ---

    def flush(self) -> Callable[[], None]:
        """What makes all that was appended survive a power cut (L-7), on a descriptor of its own.

        It may run while others append; ``StorageError`` when the device refuses.
        """
        try:
            fd = above_standard(os.dup(self._fd)) if self._fd >= 0 else -1
        except OSError as error:
            raise self._flush_failed(error) from error
        directories, self._created = self._places if self._created else (), False
        return lambda: self._flush(fd, directories)

    def _flush(self, fd: int, directories: Sequence[str]) -> None:
        try:
            if fd >= 0:
                os.fdatasync(fd)
            for directory in directories:
                sync_directory(directory)
        except OSError as error:
            self._created = True
            raise self._flush_failed(error) from error
        except BaseException:
            self._created = True
            self.flush_failures += 1
            raise
        finally:
            if fd >= 0:
                os.close(fd)

    def _flush_failed(self, error: OSError) -> StorageError:
        failure = self._storage_error(error, 0)
        self.flush_failures += 1
        self.flush_error = str(failure)
        return failure

    def _verify(self) -> None:
        """Make or find the lane directory; start anew when it is another one than before (L-2)."""
        self._verified = self._clock()
        try:
            if self._dir >= 0 and os.lstat(self._path).st_ino == self._dir_inode:
                return
        except OSError:
            pass  # gone: the receiver put it aside
        self.close()
        try:
            self._open_directory()
        except OSError as error:
            self.close()
            raise self._storage_error(error, 0) from error

    def _open_directory(self) -> None:
        with contextlib.suppress(FileExistsError):
            make_directory(self._path)
        self._created = True  # that it is there may be the answer to a request that was repeated
        self._dir = open_directory(self._path)
        self._left = ""
        status = os.fstat(self._dir)
        if status.st_uid != os.geteuid() and not is_shared(status.st_mode):
            raise PermissionError(errno.EACCES, f"the lane directory belongs to user {status.st_uid}")
        if status.st_ino != self._dir_inode:
            self._slots.forget()
        self._dir_inode = status.st_ino
        self._outstanding = Outstanding()
        for generation, file, size in lane_files_in(self._dir):
            self._outstanding.add(generation, file, size)
            if generation == self._generation:
                self._file = max(self._file, file)

    def _leave_file(self) -> None:
        """End the current file; the next append opens another."""
        fd, self._fd = self._fd, -1
        try:
            if self._durable:
                os.fdatasync(fd)
        except OSError as error:
            self._flush_failed(error)  # whoever appended to it is told
        finally:
            os.close(fd)

    def close(self) -> None:
        """Release the descriptors; the files stay for the receiver. The next append begins a new file."""
        if self._fd >= 0:
            self._leave_file()
        directory, self._dir = (
            self._dir,
            -1,
        )  # first: a child that is forked between closes it no second time
        if directory >= 0:
            os.close(directory)

    @contextlib.contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno is None:  # a signal handler of the program raised it, a TimeoutError perhaps
                raise
            raise self._storage_error(error, 0) from error

    def _storage_error(self, error: OSError, whole: int) -> StorageError:
        gone = registry_gone(self._places[-1]) if error.errno == errno.ENOENT else None
        failure = gone or storage_error(error, f"cannot write into the inbox of {self._target!r}")
        failure.envelopes_written = whole
        return failure


def _whole(parts: Sequence[bytes], written: int) -> int:
    """How many envelopes are complete after ``written`` bytes."""
    return sum(end <= written for end in accumulate(map(len, parts)))
