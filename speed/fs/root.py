"""A root is made private, and trusted only whole, with the way to it (R-1, R-28); what its filesystem can (L-22)."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import NamedTuple

from speed.core.access import parse_observers
from speed.errors import ConfigurationError, RootError, StorageError
from speed.fs.open import (
    SHARED_DIRECTORY,
    Step,
    Trust,
    Who,
    is_groups,
    judge_root,
    judge_step,
    make_directory,
    open_directory,
    open_or_make,
    opened,
    unique_name,
    unlink_quietly,
    write_all,
)
from speed.wire import names
from speed.wire.limits import MAX_LINKS, MAX_OBSERVERS_BYTES, REMOTE_LATE_SECONDS
from speed.wire.names import child_path

# The way to a root or a key file: each step of it is one that no other user can change.


class UntrustedPathError(Exception):
    """What was found, and the command that mends it, if one does."""

    def __init__(self, found: str, cure: str = "") -> None:
        super().__init__(found)
        self.cure = cure

    def with_cure(self, otherwise: str) -> str:
        """The problem and its cure; ``otherwise`` where there is none or another one helps too."""
        return f"{self}: {self.cure}, or {otherwise}" if self.cure else f"{self}: {otherwise}"


def who() -> Who:
    """This process."""
    return Who(os.geteuid(), frozenset((os.getegid(), *os.getgroups())))


def followed(path: str) -> str:
    """Where ``path`` leads once its links are followed. UntrustedPathError for a step that others can change, OSError.

    The last step is judged by its owner alone: whoever asks knows what it should be.
    """
    steps = os.path.abspath(path).split("/")[::-1]
    place, links, me = "", 0, who()
    _check("/", os.lstat("/"), me, is_last=False)
    while steps:
        name = steps.pop()
        if name == "..":
            place = place.rpartition("/")[0]
        elif name not in ("", "."):
            step = names.child_path(place, name)
            status = os.lstat(step)
            _check(step, status, me, is_last=not steps)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                place = _follow(step, place, steps, links)
            else:
                place = step
    return place or "/"


def step_of(status: os.stat_result) -> Step:
    return Step(status.st_uid, status.st_gid, status.st_mode)


def _check(step: str, status: os.stat_result, me: Who, *, is_last: bool) -> None:
    trust = judge_step(step_of(status), me)
    if trust is Trust.OWNER:
        raise UntrustedPathError(f"{step} belongs to another user (uid {status.st_uid})")
    if trust is Trust.WRITABLE and not is_last:
        cure = f"chmod {'+t' if status.st_mode & stat.S_ISGID else 'go-w'} {step}"
        raise UntrustedPathError(f"others can write to {step}, and so replace what is below it", f"run `{cure}`")


def _follow(link: str, place: str, steps: list[str], links: int) -> str:
    """Put the steps of a link before the others; the directory in which they begin."""
    if links > MAX_LINKS:
        raise UntrustedPathError(f"{link} is one of more than {MAX_LINKS} links")
    target = os.readlink(link)
    steps += target.split("/")[::-1]
    return "" if target.startswith("/") else place


_OTHERWISE = "choose another root"
_LISTS = ("system.posix_acl_access", "system.posix_acl_default")
_NO_LIST = (errno.ENODATA, errno.EOPNOTSUPP)


def prepare_root(root: str) -> None:
    """Make root and registry directories where they are missing; RootError says what is wrong and what to do."""
    _make(os.path.abspath(root), above=True)
    check_root(root)
    for path in (names.registry_dir(root), names.claims_dir(root)):
        _make(path)
        _check_usable(path)


def share_root(root: str, group: int) -> None:
    """Give a root that is there to a group (R-29). Only uid 0 can: nobody trusts the root of another user."""
    place = followed(root)
    for path, mode in (
        (place, SHARED_DIRECTORY | stat.S_ISVTX),  # nobody but its maker takes away what lies there: key and registry
        (names.registry_dir(place), SHARED_DIRECTORY),
        (names.claims_dir(place), SHARED_DIRECTORY),
    ):
        fd = open_directory(path)
        try:
            os.fchown(fd, -1, group)
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
    for lock in (names.daemon_lock(place), names.lock_path(names.default_key_path(place))):
        os.close(open_or_make(lock, os.O_RDWR))  # or a member's would stand there, which nobody else could use


def registry_gone(root: str) -> StorageError | None:
    """The error of a root that was prepared, and whose registry is not there any more (R-20)."""
    if os.path.isdir(names.registry_dir(root)):
        return None
    return StorageError(
        f"the registry of {root} is gone: the root was removed or unmounted under its nodes; "
        f"put it back, or run `speed root init --root {root}`, and start them anew"
    )


def check_root(root: str) -> None:
    """RootError unless only root and this user can change what is at ``root``, or a group that shares it.

    One that is not there yet can be made.
    """
    try:
        trust_of(root)
    except FileNotFoundError:
        return
    except UntrustedPathError as error:
        raise RootError(error.with_cure(_OTHERWISE)) from None
    except OSError as error:
        raise RootError(f"cannot use the root {root}: {error.strerror}; {_OTHERWISE}") from None


def trust_of(root: str) -> Trust:
    """Whether a root is this user's or a group's; UntrustedPathError if it is neither, OSError if it cannot be seen."""
    trust = _checked(followed(root), inside=False)
    for path in (names.registry_dir(root), names.claims_dir(root)):
        with suppress(FileNotFoundError):  # it is made where it is missing
            _checked(path, inside=trust is Trust.GROUP)
    return trust


def _checked(path: str, *, inside: bool) -> Trust:
    """What a directory is judged to be; UntrustedPathError says why it is not trusted."""
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise UntrustedPathError(f"{path} is no directory")
    trust = judge_root(step_of(status)._replace(lists=_lists(path)), who(), inside=inside)
    if trust is Trust.OWNER:
        raise UntrustedPathError(f"{path} belongs to another user (uid {status.st_uid})")
    if trust is Trust.WRITABLE:
        others = "everybody" if status.st_mode & stat.S_IWOTH else f"the group {status.st_gid}"
        raise UntrustedPathError(
            f"{others} can write to {path}", f"run `chmod 700 {path}`, or `speed root init --group`"
        )
    if trust is Trust.LISTED:
        raise UntrustedPathError(f"an access list lets others write to {path}", f"run `setfacl -bk {path}`")
    if trust is Trust.STRANGER:
        raise UntrustedPathError(
            f"{path} is the root of a group (gid {status.st_gid}) of which this user is no member",
            "become one and log in again",
        )
    return trust


def _lists(path: str) -> tuple[bytes, ...]:
    """The access lists of a directory that is no link: its own, and the one that what is made in it gets."""
    found = []
    for name in _LISTS if hasattr(os, "getxattr") else ():
        try:
            found.append(os.getxattr(path, name, follow_symlinks=False))
        except OSError as error:
            if error.errno not in _NO_LIST:
                raise
    return tuple(found)


def is_group_root(path: str) -> bool:
    return os.path.isdir(names.registry_dir(path)) and is_groups(path)


def is_private(path: str) -> bool:
    """Whether a directory is this user's, and nobody else has a right to it."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _make(path: str, *, above: bool = False) -> None:
    """A directory of a root, or with ``above`` the root itself with what lies above it: private, wherever that is."""
    try:
        if above and not os.path.isdir(parent := os.path.dirname(path)):
            _make(parent, above=True)
        make_directory(path, private=above)
    except FileExistsError:
        pass
    except OSError as error:
        raise RootError(f"cannot make {path}: {error.strerror}; {_OTHERWISE}") from None


def _check_usable(path: str) -> None:
    if not os.access(path, os.W_OK | os.X_OK):
        raise RootError(f"{path} is not writable for this user: {_OTHERWISE}")


# Who may look at all nodes of a root: a file of its owner.

_OBSERVERS = """\
# Who may look at all nodes of this root without a grant of each: ping them, and ask for their figures.
# A node name, or a family such as cli.*, in each line. Nodes read this file again with each heartbeat.
"""


def observers_of(root: str) -> tuple[str, ...]:
    """Names and families that the owner of ``root`` lets look at its nodes, none without such a file.

    ConfigurationError for a file that does not count, with what to do.
    """
    path = names.observers_path(root)
    try:
        fd = opened(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ()
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else f"it cannot be read: {error.strerror}"
        raise _no_observers(path, why) from None
    try:
        _check_observers(path, os.fstat(fd), os.stat(root).st_uid)
        return parse_observers(os.read(fd, MAX_OBSERVERS_BYTES + 1))
    except ConfigurationError as error:
        raise _no_observers(path, str(error)) from None
    except OSError as error:
        raise _no_observers(path, f"it cannot be read: {error.strerror}") from None
    finally:
        os.close(fd)


def _check_observers(path: str, status: os.stat_result, owner: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigurationError("it is no regular file")
    if status.st_nlink != 1:
        raise ConfigurationError("it has a second name")
    if status.st_uid not in (0, owner):
        raise ConfigurationError(f"it belongs to another user (uid {status.st_uid}) than the root")
    if status.st_mode & 0o022:
        raise ConfigurationError(f"others can write to it: run `chmod go-w {path}`")


def _no_observers(path: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{path} lets nobody look at nodes: {why}; mend it, or remove it")


def ensure_observers(root: str, guardian: str = "speedd") -> bool:
    """Let speedd, a node of this name, and the operator's commands look at all nodes, unless a file says who may.

    Whether that was written: only the owner does, and never over a file that is there. OSError.
    """
    path = names.observers_path(root)
    if os.path.lexists(path) or os.stat(root).st_uid != os.geteuid():
        return False
    beside = child_path(names.registry_dir(root), unique_name("observers"))
    try:
        fd = opened(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(fd, 0o640 if is_group_root(root) else 0o600)
            write_all(fd, f"{_OBSERVERS}{guardian}\ncli.*\n".encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(beside, path)
    finally:
        unlink_quietly(beside)
    return True


_MEMORY = frozenset(("tmpfs", "ramfs", "devtmpfs"))
_REMOTE = frozenset(
    (
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "virtiofs",
        "ceph",
        "lustre",
        "gpfs",
        "afs",
        "glusterfs",
        "beegfs",
    )
)
_NO_FIFOS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors that say that a filesystem has no FIFOs."""


class Filesystem(NamedTuple):
    """``kind`` is the kernel's name of the filesystem, ``unknown`` where it cannot be told.

    ``late_seconds``: how long after a change on another host it may be seen here (R-21).
    """

    kind: str
    is_memory: bool
    is_remote: bool
    supports_fifo: bool
    late_seconds: float = 0.0


def filesystem_of(path: str) -> Filesystem:
    """Describe the filesystem of an existing, writable directory; tries a FIFO there and removes it.

    Where it is remote none is tried: bells ring on one machine. OSError if the system failed to make one.
    """
    kind, mounted = _mount_of(os.path.realpath(path))
    remote = kind in _REMOTE or kind == "fuse" or (kind.startswith("fuse.") and kind != "fuse.lxcfs")
    if remote:
        return Filesystem(kind, False, True, False, _late_seconds(mounted))
    return Filesystem(kind, kind in _MEMORY, False, _has_fifos(path))


def lies_in_memory(path: str) -> bool:
    return _mount_of(os.path.realpath(path))[0] in _MEMORY


def _mount_of(path: str) -> tuple[str, str]:
    """Type and options of the mount whose point is the longest prefix of ``path``; the last one there wins."""
    best, found = "", ("unknown", "")
    for point, kind, options in _mounts():
        inside = point == "/" or path == point or path.startswith(point + os.sep)
        if inside and len(point) >= len(best):
            best, found = point, (kind, options)
    return found


def _late_seconds(options: str) -> float:
    """How long a mount with these options may keep what it knows of files and directories."""
    late = dict.fromkeys(("acregmax", "acdirmax"), REMOTE_LATE_SECONDS)
    for option in options.split(","):
        key, _, value = option.partition("=")
        if key == "noac":
            return 0.0
        if key == "actimeo" and value.isdecimal():
            late = dict.fromkeys(late, float(value))
        elif key in late and value.isdecimal():
            late[key] = float(value)
    return max(late.values())


def _mounts() -> list[tuple[str, str, str]]:
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as table:
            rows = [line.split(" ") for line in table]
    except OSError:
        return []
    return [(_unescape(row[1]), row[2], row[3]) for row in rows if len(row) > 3]


def _unescape(point: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, character)
    return point


def _has_fifos(path: str) -> bool:
    """Whether a FIFO can be made. Other errors are raised: they say nothing about the filesystem, and a node
    that took them for an answer would poll for the rest of its life.
    """
    if not hasattr(os, "mkfifo"):
        return False
    name = child_path(path, unique_name("fifo"))
    try:
        os.mkfifo(name, 0o600)
    except OSError as error:
        if error.errno in _NO_FIFOS:
            return False
        raise
    unlink_quietly(name)
    return True
