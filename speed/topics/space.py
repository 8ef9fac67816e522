"""Room on the file systems of topics: what is published can still be consumed when they are full (D-27)."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import NamedTuple

from speed.errors import StorageError
from speed.fs.open import open_directory
from speed.wire.limits import TOPIC_HEADROOM_BYTES, TOPIC_RESERVE_BYTES

RESERVE = "reserve"
SHARE = 8
"""Of a small file system no more than one part in so many is kept free."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class Room(NamedTuple):
    """What is free on a file system, and what publishing leaves there."""

    free: int
    headroom: int

    def check(self, place: str, size: int) -> None:
        """Raises StorageError where ``size`` bytes more would not leave enough."""
        if self.free - size < self.headroom:
            raise StorageError(
                f"{place}: {self.free} bytes are free, and {self.headroom} are left for consumers: make room, consume, "
                "or shorten retention"
            )

    @property
    def answer_bytes(self) -> int:
        """How large an answer may be that has to be written there."""
        return self.free // 2


def room_at(path: str) -> Room:
    """As it is now; all there is where that cannot be found out."""
    if not hasattr(os, "statvfs"):
        return Room(1 << 62, 0)
    try:
        status = os.statvfs(path)
    except OSError:
        return Room(1 << 62, 0)
    total = status.f_blocks * status.f_frsize
    return Room(status.f_bavail * status.f_frsize, min(TOPIC_HEADROOM_BYTES, total // SHARE))


class Reserve:
    """A file whose blocks are given up when a cursor could not be written otherwise. Not thread-safe."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._is_held = False

    def refill(self) -> None:
        """Take the blocks, if there are enough."""
        if self._is_held or room_at(self._directory).free < 2 * TOPIC_RESERVE_BYTES:
            return
        with suppress(OSError):
            self._write()
            self._is_held = True

    def _write(self) -> None:
        """By writing: not every file system knows how to reserve."""
        directory = open_directory(self._directory)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(RESERVE, flags, 0o600, dir_fd=directory)
        finally:
            os.close(directory)
        try:
            if os.fstat(fd).st_size < TOPIC_RESERVE_BYTES:
                os.write(fd, bytes(TOPIC_RESERVE_BYTES))
        finally:
            os.close(fd)

    def release(self) -> bool:
        """Give the blocks up; whether there were any."""
        if not self._is_held:
            return False
        self._is_held = False
        with suppress(OSError):
            os.truncate(os.path.join(self._directory, RESERVE), 0)
        return True
