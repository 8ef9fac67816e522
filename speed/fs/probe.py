"""What a filesystem is and can do: memory or disk, local or remote, FIFOs or not (L-22)."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from speed.wire.names import child_path, temporary_name

MEMORY_KINDS = frozenset({"tmpfs", "ramfs", "devtmpfs"})
REMOTE_KINDS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "ceph", "glusterfs", "afs", "lustre"}
)


@dataclass(frozen=True, slots=True)
class Filesystem:
    """Kind and abilities of the filesystem under a path."""

    kind: str
    is_memory: bool
    is_remote: bool
    supports_fifo: bool


def filesystem_of(path: str) -> Filesystem:
    """Look at the filesystem of an existing directory that this process may write to."""
    kind = _kind_of(os.path.realpath(path))
    remote = kind in REMOTE_KINDS or kind.startswith("fuse.")
    return Filesystem(kind, kind in MEMORY_KINDS, remote, _supports_fifo(path))


def _kind_of(path: str) -> str:
    """The type of the longest mount point above ``path``, from the kernel's mount table."""
    best, kind = -1, "unknown"
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                fields = line.split()
                point = fields[1].replace("\\040", " ")
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= best:
                    best, kind = len(point), fields[2]
    except OSError:
        pass
    return kind


def _supports_fifo(path: str) -> bool:
    trial = child_path(path, temporary_name(f"fifo-{os.getpid()}-{os.urandom(4).hex()}"))
    try:
        os.mkfifo(trial, 0o600)
        supported = stat.S_ISFIFO(os.lstat(trial).st_mode)
    except (OSError, AttributeError):
        return False
    os.unlink(trial)
    return supported
