"""What kind of filesystem a directory lies on, and whether FIFOs work there (L-22)."""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from speed.fs.open import unique_name, unlink_quietly
from speed.wire.limits import REMOTE_LATE_SECONDS
from speed.wire.names import child_path

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
