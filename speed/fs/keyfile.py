"""Key files on disk: found, read and written privately (rules W of the key file, R-4)."""

from __future__ import annotations

import os
import stat
from typing import Literal

from speed.errors import KeyFileError
from speed.fs.root import default_root
from speed.wire.keyfile import format_key_file, parse_key_file
from speed.wire.seal import Keyring

__all__ = ["default_key_path", "default_root", "load_key_file", "write_key_file"]

_MAX_BYTES = 65536
_READ = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
)


def default_key_path(root: str) -> str:
    """``$SPEED_KEY``, else ``<root>/speed.key``."""
    return os.environ.get("SPEED_KEY") or os.path.join(root, "speed.key")


def load_key_file(
    path: str, group_readable: bool = False, backend: Literal["openssl", "sodium"] = "openssl"
) -> Keyring:
    """Read a key file. ``group_readable``: the root is shared by a group, so the group may read the key too.

    Raises KeyFileError (missing, a link, not a regular file, another owner, readable by others, malformed).
    """
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError as error:
        raise KeyFileError(f"no key file at {path}: make one with `speed keygen {path}`") from error
    except OSError as error:
        raise KeyFileError(f"key file {path}: {error.strerror} (links are not followed)") from error
    try:
        _check_private(path, os.fstat(descriptor), group_readable)
        text = os.read(descriptor, _MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(text) > _MAX_BYTES:
        raise KeyFileError(f"key file {path} is larger than {_MAX_BYTES} bytes: it is no key file")
    return Keyring(parse_key_file(text), backend=backend)


def write_key_file(path: str, keys: tuple[bytes, ...]) -> None:
    """Write a new key file with mode 0600; never replaces one. Raises KeyFileError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError as error:
        raise KeyFileError(
            f"{path} exists already: a key file is never overwritten; rotate it, or remove it"
        ) from error
    except OSError as error:
        raise KeyFileError(f"cannot write the key file {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(format_key_file(keys))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        os.unlink(path)  # a torn key file would be worse than none
        raise KeyFileError(f"cannot write the key file {path}: {error.strerror}") from error


def _check_private(path: str, found: os.stat_result, group_readable: bool) -> None:
    """Refuse what others own or can read: the key is all that separates nodes of different users."""
    if not stat.S_ISREG(found.st_mode):
        raise KeyFileError(f"key file {path} is not a regular file")
    if os.name != "posix":
        return
    if found.st_uid not in (os.geteuid(), 0):
        raise KeyFileError(f"key file {path} belongs to uid {found.st_uid}: copy it to a file of your own")
    forbidden = 0o037 if group_readable else 0o077
    if found.st_mode & forbidden:
        mode = stat.S_IMODE(found.st_mode)
        wanted = "640" if group_readable else "600"
        raise KeyFileError(f"key file {path} can be read by others (mode {mode:o}): chmod {wanted} {path}")
