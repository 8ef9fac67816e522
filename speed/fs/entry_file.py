"""Small files that others may be writing: read them with care, replace by rename, rewrite in place."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from typing import NamedTuple

from speed.wire.names import TEMPORARY_PREFIX

_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


class UnacceptableFileError(Exception):
    """What lies under a name is no file of ours: a link, a FIFO, a directory, or too large (rule R-17)."""


class Content(NamedTuple):
    """Bytes of a file and the stat taken before they were read."""

    data: bytes
    stat: os.stat_result


def read_regular(path: str, limit: int) -> Content:
    """Read a regular file of at most ``limit`` bytes without following links or blocking.

    Raises FileNotFoundError, UnacceptableFileError, OSError.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | _SAFE)
    except FileNotFoundError:
        raise
    except OSError as error:
        # ELOOP: a link; ENXIO: a socket; EACCES: another user's private file
        raise UnacceptableFileError(f"cannot be opened: {error.strerror}") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UnacceptableFileError("not a regular file")
        if found.st_size > limit:
            raise UnacceptableFileError(f"{found.st_size} bytes, more than {limit}")
        return Content(_read_all(descriptor, limit), found)
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, limit: int) -> bytes:
    """Everything up to ``limit`` bytes; a file that grows meanwhile is cut there."""
    data = os.read(descriptor, limit)
    while len(data) < limit and (more := os.read(descriptor, limit - len(data))):
        data += more
    return data


def create_exclusively(path: str, data: bytes, mode: int) -> bool:
    """Create ``path`` with ``data`` by one write; False when it exists. Readers may see it empty."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, mode)
    except FileExistsError:
        return False
    try:
        _set_mode(descriptor, mode)
        _write_at(descriptor, data)
    finally:
        os.close(descriptor)
    return True


def unlink_if_same(path: str, inode: tuple[int, int]) -> bool:
    """Unlink ``path`` only when it is the file ``inode`` (device, number); True when removed (rule R-16).

    The name is moved aside first and moved back when it turns out to be another file: a plain check
    followed by an unlink could remove an entry that was renamed in between.
    """
    try:
        if _inode(os.lstat(path)) != inode:
            return False
        aside = _temporary(path)
        os.rename(path, aside)
    except FileNotFoundError:
        return False
    same = _inode(os.lstat(aside)) == inode
    if not same:
        with contextlib.suppress(FileExistsError):  # a newer one has come already: that one counts
            os.link(aside, path, follow_symlinks=False)
    os.unlink(aside)
    return same


class EntryFile:
    """The entry file of this node, held open from its installation to its removal. Not locked: one owner."""

    __slots__ = ("_capacity", "_descriptor", "_mode", "path")

    def __init__(self, path: str, mode: int) -> None:
        """``mode``: permission bits of the file."""
        self.path = path
        self._mode = mode
        self._descriptor = -1
        self._capacity = 0

    @property
    def capacity(self) -> int:
        """Bytes of the installed file; constant until the next `install`."""
        return self._capacity

    def install(self, data: bytes) -> None:
        """Write beside and rename in (rule R-6), keep the descriptor. Raises OSError: nothing changed."""
        temporary = _temporary(self.path)
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE, self._mode)
        try:
            _set_mode(descriptor, self._mode)
            _write_at(descriptor, data)
            os.rename(temporary, self.path)
        except BaseException:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        self.close()
        self._descriptor, self._capacity = descriptor, len(data)

    def rewrite(self, data: bytes) -> None:
        """Replace the content by one write of the same length through the held descriptor (rule R-13)."""
        if len(data) > self._capacity:
            raise ValueError(f"{len(data)} bytes do not fit into {self._capacity}")
        _write_at(self._descriptor, data.ljust(self._capacity, b" "))

    def in_place(self) -> bool:
        """True while the path still names the file we hold."""
        held = os.fstat(self._descriptor)
        if held.st_nlink == 0:
            return False
        try:
            return _inode(os.lstat(self.path)) == _inode(held)
        except FileNotFoundError:
            return False

    def remove(self) -> bool:
        """Unlink the path if it is our file, and close; True when it was ours."""
        if self._descriptor < 0:
            return False
        try:
            return unlink_if_same(self.path, _inode(os.fstat(self._descriptor)))
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the descriptor; harmless when repeated."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _inode(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _temporary(path: str) -> str:
    """A fresh name beside ``path``; readers skip the prefix."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f"{TEMPORARY_PREFIX}{name[:64]}.{secrets.token_hex(8)}")


def _set_mode(descriptor: int, mode: int) -> None:
    """The exact bits, whatever the umask; where a filesystem refuses them, its own rule stands."""
    if hasattr(os, "fchmod"):
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, mode)


def _write_at(descriptor: int, data: bytes) -> None:
    """Write everything at offset 0, normally by one call. Raises OSError (ENOSPC and the like)."""
    written = 0
    while written < len(data):
        if hasattr(os, "pwrite"):
            written += os.pwrite(descriptor, data[written:], written)
        else:
            os.lseek(descriptor, written, os.SEEK_SET)
            written += os.write(descriptor, data[written:])
