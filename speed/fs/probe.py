"""What kind of filesystem a directory lies on, and whether FIFOs work there (L-22)."""

from __future__ import annotations

import os
from typing import NamedTuple

from speed.wire.names import child_path, temporary_name

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


class Filesystem(NamedTuple):
    """``kind`` is the kernel's name of the filesystem, ``unknown`` where it cannot be told."""

    kind: str
    is_memory: bool
    is_remote: bool
    supports_fifo: bool


def filesystem_of(path: str) -> Filesystem:
    """Describe the filesystem of an existing, writable directory; tries a FIFO there and removes it."""
    kind = _kind_of(os.path.realpath(path))
    remote = kind in _REMOTE or (kind.startswith("fuse.") and kind != "fuse.lxcfs")
    return Filesystem(kind, kind in _MEMORY, remote, _fifo_works(path))


def _kind_of(path: str) -> str:
    """Type of the mount whose point is the longest prefix of ``path``; the last one mounted there wins."""
    best, kind = "", "unknown"
    for point, mounted in _mounts():
        inside = point == "/" or path == point or path.startswith(point + os.sep)
        if inside and len(point) >= len(best):
            best, kind = point, mounted
    return kind


def _mounts() -> list[tuple[str, str]]:
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as table:
            rows = [line.split(" ") for line in table]
    except OSError:
        return []
    return [(_unescape(row[1]), row[2]) for row in rows if len(row) > 2]


def _unescape(point: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, character)
    return point


def _fifo_works(path: str) -> bool:
    name = child_path(path, temporary_name(f"fifo.{os.getpid()}.{os.urandom(4).hex()}"))
    try:
        os.mkfifo(name, 0o600)
    except (OSError, AttributeError):
        return False
    os.unlink(name)
    return True
