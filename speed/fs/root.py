"""The communication directory: where it is by default, and that it is safe to use (rules R-1 to R-3)."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from typing import NamedTuple

from speed.errors import RootError
from speed.wire import names


class Modes(NamedTuple):
    """Permission bits for what is made under a root: private, or shared with the root's group (rule R-2)."""

    directory: int
    file: int


PRIVATE = Modes(0o700, 0o600)
SHARED = Modes(0o2770, 0o660)


def default_root() -> str:
    """``$SPEED_ROOT``, ``$XDG_RUNTIME_DIR/speed``, ``/dev/shm/speed-<uid>``, or a temporary directory."""
    if chosen := os.environ.get("SPEED_ROOT"):
        return chosen
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return os.path.join(runtime, "speed")
    uid = os.getuid() if hasattr(os, "getuid") else 0
    memory = "/dev/shm"  # noqa: S108 - the root inside is private, and refused when it is another user's
    base = memory if os.access(memory, os.W_OK) else tempfile.gettempdir()
    return os.path.join(base, f"speed-{uid}")


def prepare_root(root: str) -> Modes:
    """Make root (0700), ``speed_registry/`` and ``.claims/`` where missing; check the root; return its modes.

    Raises RootError saying what to do.
    """
    try:
        os.makedirs(root, mode=PRIVATE.directory, exist_ok=True)
        modes = root_modes(root)
        make_directory(names.registry_dir(root), modes)
        make_directory(names.claims_dir(root), modes)
    except FileExistsError as error:
        raise RootError(f"{error.filename} is not a directory: remove it or choose another root") from error
    except OSError as error:
        raise RootError(f"cannot prepare the root {root}: {error.strerror}; choose another root") from error
    return modes


def root_modes(root: str) -> Modes:
    """Check an existing root and say how to make things in it. Raises RootError."""
    try:
        found = os.stat(root)
    except OSError as error:
        raise RootError(f"root {root}: {error.strerror}; make it with mode 0700 or choose another") from error
    if not stat.S_ISDIR(found.st_mode):
        raise RootError(f"root {root} is not a directory: remove it or choose another root")
    _check_owner(root, found)
    _check_writers(root, found)
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        raise RootError(f"root {root} is not readable and writable for this user: ask its owner for access")
    return SHARED if found.st_mode & stat.S_IWGRP else PRIVATE


def make_directory(path: str, modes: Modes) -> None:
    """Make one directory with exactly these bits whatever the umask; an existing real directory is fine.

    Raises FileExistsError for a link or a file of that name, OSError.
    """
    try:
        os.mkdir(path, modes.directory)
    except FileExistsError as error:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise FileExistsError(error.errno, "exists and is not a directory", path) from error
    else:
        with contextlib.suppress(OSError):  # setgid may be refused; the plain bits stand then
            os.chmod(path, modes.directory)


def _check_owner(root: str, found: os.stat_result) -> None:
    """Another user's directory is used only when it is shared with a group of ours."""
    if not hasattr(os, "getuid") or found.st_uid in (os.getuid(), 0):
        return
    shared = found.st_mode & stat.S_IWGRP and found.st_gid in (os.getgid(), *os.getgroups())
    if not shared:
        raise RootError(
            f"root {root} belongs to uid {found.st_uid}: choose a root of your own, or share it by group"
        )


def _check_writers(root: str, found: os.stat_result) -> None:
    """Others who may write must not be able to rename our directories away: the sticky bit is needed."""
    writers = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if os.name == "posix" and writers and not found.st_mode & stat.S_ISVTX:
        raise RootError(
            f"root {root} is writable by others (mode {stat.S_IMODE(found.st_mode):o}) and not sticky: "
            "chmod 700 for one user, or chmod 3770 for a group"
        )
