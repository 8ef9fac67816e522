"""What goes on in a root, for commands and for speedd: figures, metrics, examinations and troubles.

Here is what an examination finds of one thing, in words for people, and the cures of what a system refuses.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

_CURES = {
    errno.ENOSPC: "make room on its filesystem: remove files, or run `speed root gc`",
    errno.EDQUOT: "your quota of its filesystem is used up: remove files, or have it raised",
    errno.EROFS: "mount its filesystem for writing; `dmesg` tells whether an error made it read-only",
    errno.EACCES: "run as its owner, or give it to this user with chown and chmod",
    errno.EPERM: "run as its owner, or give it to this user with chown and chmod",
    errno.EIO: "the disk fails: see `dmesg`, and move the root to another",
    errno.ESTALE: "mount its filesystem again",
    errno.EMFILE: "raise the limit of open files: `ulimit -n`",
    errno.ENFILE: "raise the limit of open files of this machine: `sysctl fs.file-max`",
}


@dataclass(frozen=True)
class Finding:
    """One result: ``state`` is ok, warning or broken; ``todo`` is empty when there is nothing to do.

    ``code`` is STORAGE for what keeps nodes from writing or reading.
    """

    check: str
    state: str
    found: str
    todo: str = ""
    code: str = ""


def unusable(check: str, found: str, todo: str) -> Finding:
    """Nodes cannot write or read."""
    return Finding(check, "broken", found, todo, "STORAGE")


def refused(check: str, error: OSError, path: str) -> Finding:
    """What the system said, with its cure; ``path`` for errors that name none."""
    number = error.errno or 0
    where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else path
    return unusable(check, f"{where}: {os.strerror(number)}", _CURES.get(number, "see `dmesg` of this machine"))


def seconds_text(seconds: float) -> str:
    """A span of time for people, e.g. ``47 µs``, ``3.2 s``, ``2 h 05 min``."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def bytes_text(size: float) -> str:
    """A size for people, e.g. ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
