"""Bells: a FIFO wakes the receiver, each ring is the sender's 16-byte id (L-8, L-9)."""

from __future__ import annotations

import os
import stat
from enum import Enum

from speed.errors import RootError
from speed.wire.limits import NODE_ID_BYTES

_DRAIN_BYTES = 65536


class RingResult(Enum):
    """What became of a ring."""

    RUNG = "rung"
    FULL = "full"
    NOBODY = "nobody"


class Bell:
    """A node's own bell, held open for reading and writing so that it never reports end of file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def open_own(cls, path: str) -> Bell:
        """Make or take over the FIFO at ``path``; RootError if something else is there."""
        try:
            os.mkfifo(path, 0o600)
        except FileExistsError:
            pass
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        status = os.fstat(fd)
        if not stat.S_ISFIFO(status.st_mode) or status.st_uid != os.geteuid():
            os.close(fd)
            raise RootError(f"{path} is no bell of this user: remove it and start again")
        return cls(fd)

    def fileno(self) -> int:
        return self._fd

    def drain(self) -> set[bytes] | None:
        """Ids that rang; None after noise or a full pipe, when everything must be looked at."""
        try:
            rings = os.read(self._fd, _DRAIN_BYTES)
        except BlockingIOError:
            return set()
        if len(rings) == NODE_ID_BYTES:
            return {rings}
        if len(rings) % NODE_ID_BYTES or len(rings) == _DRAIN_BYTES:
            return None
        return {rings[at : at + NODE_ID_BYTES] for at in range(0, len(rings), NODE_ID_BYTES)}

    def wake(self, own_id: bytes) -> None:
        """Ring one's own bell; a full one wakes as well."""
        try:
            os.write(self._fd, own_id)
        except (BlockingIOError, OSError):
            pass

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class Ringer:
    """Rings another node's bell; opens it when needed and again after its owner came back.

    Python ignores SIGPIPE, so a bell without a reader is an errno, never a signal.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def fileno(self) -> int | None:
        """The open bell, for learning of its reader's death; None where there is nobody."""
        if self._fd < 0 and not self._open():
            return None
        return self._fd

    def ring(self, own_id: bytes) -> RingResult:
        """Ring once; a bell whose reader went is opened once more before NOBODY."""
        for _ in range(2):
            if self._fd < 0 and not self._open():
                return RingResult.NOBODY
            try:
                os.write(self._fd, own_id)
            except BlockingIOError:
                return RingResult.FULL
            except OSError:
                self.close()
            else:
                return RingResult.RUNG
        return RingResult.NOBODY

    def _open(self) -> bool:
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.close(fd)
            return False
        self._fd = fd
        return True

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
