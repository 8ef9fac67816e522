"""Opening what others may have put there: no link is followed, nothing blocks, owners are checked (L-10, R-28)."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Container, Iterator
from enum import Enum
from typing import NamedTuple

from speed.errors import RootError
from speed.wire.limits import MAX_REOPENS
from speed.wire.names import temporary_name

# Whether only root and this user can change a directory, or a group that was asked for as well.

OTHERS_WRITE = 0o022
GROUP_BITS = stat.S_ISGID | stat.S_IWGRP
_LIST_VERSION = 2
_ENTRY = struct.Struct("<HHI")
_NAMED_USER, _NAMED_GROUP = 0x02, 0x08
_WRITE = 0x02


class Trust(Enum):
    """Only the first two may be used."""

    TRUSTED = "trusted"
    GROUP = "group"
    """A root of several users: the members of its group can do all that its owner can."""
    OWNER = "owner"
    WRITABLE = "writable"
    LISTED = "listed"
    """An access list lets others write."""
    STRANGER = "stranger"
    """A root of a group of which this process is no member."""


class Step(NamedTuple):
    """What is on the way: ``mode`` as in ``st_mode``, ``lists`` the access lists that a root has."""

    owner: int
    group: int
    mode: int
    lists: tuple[bytes, ...] = ()


class Who(NamedTuple):
    """Effective user and all groups of a process."""

    user: int
    groups: frozenset[int]

    def is_trusted(self, user: int) -> bool:
        return user in (0, self.user)


def is_shared(mode: int) -> bool:
    """Whether a directory is one of a group root: what is made in it is the group's as well."""
    return mode & GROUP_BITS == GROUP_BITS


def judge_step(step: Step, who: Who) -> Trust:
    """Of a directory, link or file on the way. In a sticky directory others cannot change what is not theirs."""
    if not who.is_trusted(step.owner):
        return Trust.OWNER
    if stat.S_ISDIR(step.mode) and step.mode & OTHERS_WRITE and not step.mode & stat.S_ISVTX:
        return Trust.WRITABLE
    return Trust.TRUSTED


def judge_root(step: Step, who: Who, *, inside: bool = False) -> Trust:
    """Of a root, or of a directory ``inside`` a group root: there each member may have made it."""
    if not inside and not who.is_trusted(step.owner):
        return Trust.OWNER
    shared = is_shared(step.mode)
    if step.mode & stat.S_IWOTH or (step.mode & stat.S_IWGRP and not shared):
        return Trust.WRITABLE
    if shared and who.user != 0 and step.group not in who.groups:
        return Trust.STRANGER
    if any(_names_writer(one, who) for one in step.lists):
        return Trust.LISTED
    return Trust.GROUP if shared else Trust.TRUSTED


def _names_writer(access_list: bytes, who: Who) -> bool:
    """Whether another user or group may write by a POSIX access list, as the kernel shows it; also if it is none."""
    if len(access_list) < 4 or len(access_list) % _ENTRY.size != 4:
        return True
    if int.from_bytes(access_list[:4], "little") != _LIST_VERSION:
        return True
    for tag, rights, number in _ENTRY.iter_unpack(access_list[4:]):
        foreign = tag == _NAMED_GROUP or (tag == _NAMED_USER and not who.is_trusted(number))
        if foreign and rights & _WRITE:
            return True
    return False


_FIRST_OWN = 3
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE = os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

Owners = Container[int]

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600
SHARED_DIRECTORY = 0o2770
SHARED_FILE = 0o660


class UntrustedFileError(OSError):
    """A file is not the regular, singly linked file of an expected owner that the rules ask for."""


def opened(path: str | os.PathLike[str], flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    """As ``os.open``. All files of this package are opened here, so that none has a standard descriptor."""
    return above_standard(os.open(path, flags, mode, dir_fd=dir_fd))


def above_standard(fd: int) -> int:
    """The same file under a descriptor above those of standard input, output and error.

    A program that has closed these may write to them all the same: its log would fall into the file.
    """
    if fd >= _FIRST_OWN:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_OWN)
    finally:
        os.close(fd)


def open_directory(path: str, dir_fd: int | None = None) -> int:
    """Descriptor of a directory that is no link; OSError otherwise."""
    return opened(path, _DIRECTORY, dir_fd=dir_fd)


def open_beneath(path: str, *steps: str) -> int:
    """Descriptor of a directory below another; neither it nor one between is a link. OSError."""
    fd = open_directory(path)
    for step in steps:
        try:
            inner = open_directory(step, fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def open_regular(name: str, dir_fd: int, owners: Owners) -> int:
    """Descriptor of a regular file for reading; ``UntrustedFileError`` for anything else, OSError if opening failed.

    A FIFO or device is opened without blocking and closed again; links are refused by the kernel (ELOOP).
    """
    for _ in range(MAX_REOPENS):
        fd = _open_any(name, dir_fd, owners)
        try:
            status = os.fstat(fd)
            reason = _untrusted(status, owners)
            if reason:
                raise UntrustedFileError(errno.EPERM, reason, name)
        except OSError:
            os.close(fd)
            raise
        if status.st_nlink:
            return fd
        os.close(fd)
        os.sched_yield()  # it is being replaced or removed
    raise FileNotFoundError(errno.ENOENT, "replaced all the time", name)


def _open_any(name: str, dir_fd: int, owners: Owners) -> int:
    try:
        return opened(name, _READ, dir_fd=dir_fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        if _untrusted(status, owners) or not status.st_mode & stat.S_IRUSR:
            raise UntrustedFileError(error.errno, "cannot be opened by its kind or mode", name) from error
        raise  # a sound file: it was the system that failed


def _untrusted(status: os.stat_result, owners: Owners) -> str:
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    if status.st_uid not in owners:
        return "foreign owner"
    return "has several names" if status.st_nlink > 1 else ""


def is_groups(directory: int | str) -> bool:
    """Whether a directory is one of a group root: then what is made in it is the group's as well (R-29)."""
    return is_shared(os.stat(directory).st_mode)


def open_or_make(name: str, flags: int, dir_fd: int | None = None) -> int:
    """Descriptor of a file that is made if it is not there: private, or the group's, whatever the umask."""
    shared = is_groups(os.path.dirname(name) or "." if dir_fd is None else dir_fd)
    fd = opened(name, flags | _MAKE, SHARED_FILE if shared else PRIVATE_FILE, dir_fd=dir_fd)
    if shared:
        share(fd, SHARED_FILE)
    return fd


def share(fd: int, mode: int) -> None:
    """Give the group its rights to what was made, unless another member made it. OSError; then it is closed."""
    try:
        status = os.fstat(fd)
        if stat.S_IMODE(status.st_mode) != mode and status.st_uid == os.geteuid():
            os.fchmod(fd, mode)
    except OSError:
        os.close(fd)
        raise


def create_file(name: str, dir_fd: int, *, append: bool, private: bool = False) -> int:
    """Descriptor of a new file for writing; FileExistsError when the name is taken."""
    flags = os.O_WRONLY | os.O_EXCL | (os.O_APPEND if append else 0)
    if private:
        return opened(name, flags | _MAKE, PRIVATE_FILE, dir_fd=dir_fd)
    return open_or_make(name, flags, dir_fd)


def make_directory(path: str, *, private: bool = False) -> None:
    """Make a directory: private, or the group's, whatever the umask; OSError, FileExistsError as well."""
    os.mkdir(path, PRIVATE_DIRECTORY)
    if not private and is_groups(os.path.dirname(path) or "."):
        fd = open_directory(path)
        share(fd, SHARED_DIRECTORY)
        os.close(fd)


def make_directories(path: str, mode: int) -> None:
    """Make a directory and all above it that are missing, none of them with more rights than ``mode``. OSError."""
    parent = os.path.dirname(path)
    if parent and parent != path and not os.path.isdir(parent):
        make_directories(parent, mode)
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def open_log_file(path: str, mode: int) -> int:
    """Descriptor for appending to a regular file of this user, which is made if it is missing.

    Where others may make files, a link could lead elsewhere, and a file of theirs be read by them. OSError.
    """
    fd = opened(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | _MAKE, mode)
    reason = _untrusted(os.fstat(fd), (os.geteuid(),))
    if reason:
        os.close(fd)
        raise UntrustedFileError(errno.EPERM, reason, path)
    return fd


def write_all(fd: int, data: bytes) -> None:
    """Write everything or raise OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_all_at(fd: int, data: bytes, offset: int) -> None:
    """Write everything from ``offset`` on or raise OSError."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written


def write_at_start(fd: int, data: bytes) -> None:
    """One write, whole for every reader; OSError for a short one as well."""
    if os.pwrite(fd, data, 0) < len(data):
        raise OSError(errno.EIO, "a short write")


def open_for_writing(name: str, dir_fd: int, owners: Owners) -> int:
    """Descriptor of a regular file that is there; ``UntrustedFileError`` for anything else."""
    fd = opened(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        reason = _untrusted(os.fstat(fd), owners)
        if reason:
            raise UntrustedFileError(errno.EPERM, reason, name)
    except OSError:
        os.close(fd)
        raise
    return fd


class UnclearRenameError(OSError):
    """A rename failed, and whether it took place all the same could not be found out."""


def put_in_place(temporary: str, name: str, dir_fd: int | None = None) -> None:
    """Rename; OSError if it failed. Only this process uses the name ``temporary``.

    A network filesystem may repeat a request that was carried out, and report the failure of the repetition: opening
    the old name tells (L-24).
    """
    try:
        os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except OSError as error:
        try:
            os.close(opened(temporary, _READ, dir_fd=dir_fd))
        except FileNotFoundError:
            return
        except OSError:
            raise UnclearRenameError(error.errno, error.strerror, name) from error
        raise


def unique_name(token: str) -> str:
    """A temporary name that nobody else has, whatever the process, its threads and its namespace."""
    return temporary_name(f"{token}-{os.getpid()}-{os.urandom(8).hex()}")


def replace_file(name: str, data: bytes, dir_fd: int, *, private: bool = False, durable: bool = False) -> int:
    """Put ``data`` in place under ``name`` by a temporary file and a rename; returns its open descriptor.

    The descriptor is open for writing and stays with the new file. ``private``: whatever the directory. ``durable``:
    the file is flushed before the rename, or a power cut may keep the name without the data; the directory after it.
    """
    temporary = temporary_name(name)
    try:
        fd = create_file(temporary, dir_fd, append=False, private=private)
    except FileExistsError:  # left by a killed predecessor of the same process role
        os.unlink(temporary, dir_fd=dir_fd)
        fd = create_file(temporary, dir_fd, append=False, private=private)
    try:
        write_all(fd, data)
        if durable:
            os.fsync(fd)
        put_in_place(temporary, name, dir_fd)
        if durable:
            os.fsync(dir_fd)
    except OSError:
        os.close(fd)
        unlink_quietly(temporary, dir_fd)
        raise
    return fd


def replace_private(path: str, data: bytes) -> None:
    """Put ``data`` in place at ``path``, private to this user whatever its directory is: all of it or nothing."""
    directory, name = os.path.split(os.path.abspath(path))
    dir_fd = open_directory(directory)
    try:
        os.close(replace_file(name, data, dir_fd, private=True))
    finally:
        os.close(dir_fd)


def unlink_quietly(name: str, dir_fd: int | None = None) -> bool:
    """Remove a name; False when it is not there or cannot be removed."""
    try:
        os.unlink(name, dir_fd=dir_fd)
    except OSError:
        return False
    return True


def read_small(name: str, dir_fd: int, owners: Owners, limit: int) -> bytes:
    """At most ``limit`` bytes of a regular file; OSError when it cannot be trusted."""
    fd = open_regular(name, dir_fd, owners)
    try:
        return os.pread(fd, limit, 0)
    finally:
        os.close(fd)


def names_in(dir_fd: int, limit: int) -> Iterator[os.DirEntry[str]]:
    """The entries of a directory, unsorted, at most ``limit`` of them."""
    with os.scandir(dir_fd) as entries:
        for count, entry in enumerate(entries):
            if count >= limit:
                return
            yield entry


def ensure_directory(path: str, *, private: bool = False) -> None:
    """Make a directory unless it is there; ``RootError`` for a link, or a foreign owner where it is no group's."""
    try:
        make_directory(path, private=private)
    except FileExistsError:
        pass
    except OSError as error:
        raise RootError(
            f"cannot make the directory {path}: {error.strerror}; make room in the root, or choose another"
        ) from error
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise RootError(f"{path} is not a directory; remove it")
    if status.st_uid != os.geteuid() and not is_shared(status.st_mode):
        raise RootError(f"{path} belongs to user {status.st_uid}, not to {os.geteuid()}; remove it or use another root")


def sync_directory(path: str) -> None:
    """Make creations and renames in a directory durable."""
    fd = open_directory(path)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class _Anybody:
    def __contains__(self, user: object) -> bool:
        return True


def owners_of(dir_fd: int) -> Owners:
    """Who may own the files of a directory: its owner and this user; in a group's, whoever could make them."""
    status = os.fstat(dir_fd)
    return _Anybody() if is_shared(status.st_mode) else frozenset((status.st_uid, os.geteuid()))
