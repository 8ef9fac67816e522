"""The wake-up FIFO of a node: ringing never blocks and never kills the process (L-8, L-9)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
import threading
from _signal import getsignal  # type: ignore[import-not-found]  # the public one makes an enum member of each answer: 1 µs a ring
from enum import Enum

from speed.errors import RootError
from speed.fs.open import SHARED_FILE, is_groups, opened, share
from speed.wire.limits import NODE_ID_BYTES

_READ_BYTES = 65536
"""What a pipe holds where the system does not tell; Linux makes smaller ones for a user who has many."""


class RingResult(Enum):
    """What came of a ring."""

    RUNG = "rung"
    FULL = "full"
    NOBODY = "nobody"


class _End:
    """One end of a bell, which threads ring while another closes it.

    Its lock is the last that a thread takes, and nothing waits under it: without it a ring would go to whatever file
    has the number of the descriptor by then. A signal handler may ring as well: the lock is re-entrant.
    """

    __slots__ = ("_fd", "_lock", "path")

    def __init__(self, path: str, fd: int = -1) -> None:
        self.path = path
        self._fd = fd
        self._lock = threading.RLock()

    def close(self) -> None:
        """Close the descriptor; the FIFO stays."""
        with self._lock:
            if self._fd >= 0:
                fd, self._fd = self._fd, -1
                os.close(fd)

    def abandon(self) -> None:
        """The same in a forked child, where another thread of the parent may hold the lock for ever."""
        self._lock = threading.RLock()
        self.close()


class Bell(_End):
    """The receiver's end: holds its own FIFO open read-write, so that it never sees end-of-file.

    Made by ``open_own``. One thread drains, any may wake.
    """

    __slots__ = ("_full_bytes",)

    def __init__(self, path: str, fd: int) -> None:
        super().__init__(path, fd)
        self._full_bytes = _capacity_of(fd)

    @classmethod
    def open_own(cls, path: str) -> Bell:
        """Make the FIFO if it is absent and open it; ``RootError`` if something else is there (L-8)."""
        try:
            os.mkfifo(path, 0o600)
        except FileExistsError:
            pass
        except OSError as error:
            raise RootError(f"cannot make the bell {path}: {error.strerror}") from error
        try:
            fd = opened(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise RootError(f"cannot open the bell {path}: {error.strerror}") from error
        try:
            status = os.fstat(fd)
            shared = is_groups(os.path.dirname(path))
            if not stat.S_ISFIFO(status.st_mode) or (status.st_uid != os.geteuid() and not shared):
                raise RootError(f"{path} is not a FIFO of this user; remove it")
        except BaseException:
            os.close(fd)
            raise
        if shared:
            share(fd, SHARED_FILE)
        return cls(path, fd)

    def drain(self) -> set[bytes] | None:
        """Source ids rung since the last drain; None asks for a scan of everything (L-8)."""
        try:
            data = os.read(self._fd, self._full_bytes)
        except BlockingIOError:
            return set()
        if len(data) == NODE_ID_BYTES:
            return {data}
        if len(data) == self._full_bytes or len(data) % NODE_ID_BYTES:
            return None
        return {data[at : at + NODE_ID_BYTES] for at in range(0, len(data), NODE_ID_BYTES)}

    def wake(self, own_id: bytes) -> None:
        """Ring this bell from its own node, with any 16-byte id."""
        # Full: the reader wakes anyhow. Closed while the node ends: nobody is left to be woken.
        with self._lock, contextlib.suppress(OSError):
            os.write(self._fd, own_id)

    def fileno(self) -> int:
        """Descriptor for polling readability."""
        return self._fd


class Ringer(_End):
    """A sender's end of another node's bell; opened at the first ring, and again after its reader went. Thread-safe."""

    __slots__ = ("_is_shut",)

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._is_shut = False

    def shut(self) -> None:
        """Close it for good: later rings do not open it again."""
        with self._lock:
            self._is_shut = True
            self.close()

    def ring(self, source_id: bytes) -> RingResult:
        """Write the 16-byte source id; ``NOBODY`` tells at once that no process listens (L-9).

        A bell whose reader went is opened once more: its owner may have come back.
        """
        with self._lock:
            for _ in range(2):
                if self._fd < 0 and not self._open():
                    return RingResult.NOBODY
                try:
                    _write_without_signal(self._fd, source_id)
                except BlockingIOError:
                    return RingResult.FULL
                except OSError as error:
                    if error.errno is None:  # a signal handler of the program raised it, a TimeoutError perhaps
                        raise
                    self.close()
                else:
                    return RingResult.RUNG
            return RingResult.NOBODY

    def _open(self) -> bool:
        if self._is_shut:
            return False
        try:
            fd = opened(self.path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # ENXIO: nobody reads; ENOENT: never started; ELOOP: a link
            return False
        if not _is_fifo(fd):
            os.close(fd)
            return False
        self._fd = fd
        return True

    def fileno(self) -> int | None:
        """Descriptor for polling POLLERR (the reader died); None where nobody listens."""
        with self._lock:
            return self._fd if self._fd >= 0 or self._open() else None


def _capacity_of(fd: int) -> int:
    """How many bytes make a pipe full."""
    try:
        return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
    except (OSError, AttributeError):
        return _READ_BYTES


def _is_fifo(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:  # what is appended is accepted all the same: the receiver's scan finds it
        return False


def _write_without_signal(fd: int, data: bytes) -> None:
    """Write to a FIFO; a dead reader is an error even in a program that set SIGPIPE back to its default.

    Python ignores SIGPIPE from its start, so the costly way is taken by such programs only.
    """
    if getsignal(signal.SIGPIPE) == signal.SIG_IGN:
        os.write(fd, data)
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGPIPE,))
    try:
        os.write(fd, data)
    except OSError as error:
        if error.errno == errno.EPIPE and signal.SIGPIPE not in before:
            signal.sigtimedwait((signal.SIGPIPE,), 0)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
