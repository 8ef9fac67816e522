"""The file of an entry: read without trust, removed only while it is the one that was meant (R-1, R-13, R-15)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from speed.errors import WireError
from speed.fs.open import opened, put_in_place, unique_name, unlink_quietly
from speed.wire import names
from speed.wire.limits import MAX_ENTRY_BYTES

FAILING = (errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of the system, which say nothing about the file itself."""


def read_entry_file(path: str) -> bytes:
    """A regular file's first bytes; never follows a link, never waits, never reads more than an entry may have."""
    fd = opened(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise WireError("BAD_ENTRY", "no regular file")
        if status.st_size > MAX_ENTRY_BYTES:
            raise WireError("BAD_ENTRY", "too large")
        return os.read(fd, MAX_ENTRY_BYTES)
    finally:
        os.close(fd)


def check_reachable(root: str, name: str) -> None:
    """OSError if the system cannot show whether there is an entry: such an entry does not count as absent (R-5)."""
    try:
        os.close(opened(names.entry_path(root, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        if error.errno in FAILING:
            raise


def is_file(path: str, fd: int) -> bool:
    """Whether ``path`` leads to the file that ``fd`` holds open."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
    except OSError:
        return False


def remove_entry_file(root: str, name: str, is_meant: Callable[[str], bool]) -> bool:
    """Remove the entry of ``name`` if ``is_meant(path)`` says so; False if it was none or another's.

    No call unlinks a file by its identity, and a new owner may publish at any time. So the file moves to a name
    that nobody else knows, is looked at there, and is put back if it became another's. OSError if that fails.
    """
    path = names.entry_path(root, name)
    if not is_meant(path):
        return False
    aside = names.child_path(names.registry_dir(root), unique_name(name))
    put_in_place(path, aside)
    meant = is_meant(aside)  # False as well if somebody else removed it first
    if not meant:
        _put_back(aside, path)
    unlink_quietly(aside)
    return meant


def _put_back(aside: str, path: str) -> None:
    """Put an entry back under its name, unless its owner has published a newer one (R-14)."""
    try:
        os.link(aside, path, follow_symlinks=False)
    except OSError:
        pass  # a newer one is there, or no links are: then the owner's next heartbeat publishes again
