"""A root is made private, and trusted only whole: with all that lies above it, and its registry (R-1, R-28)."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from speed.core.trust import Trust, judge_root
from speed.errors import RootError
from speed.fs.open import SHARED_DIRECTORY, is_groups, make_directory, open_directory, open_or_make
from speed.fs.way import UntrustedError, followed, step_of, who
from speed.wire import names

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
    for lock in (names.daemon_lock(place), names.lock_beside(names.default_key_path(place))):
        os.close(open_or_make(lock, os.O_RDWR))  # or a member's would stand there, which nobody else could use


def check_root(root: str) -> None:
    """RootError unless only root and this user can change what is at ``root``, or a group that shares it.

    One that is not there yet can be made.
    """
    try:
        trust_of(root)
    except FileNotFoundError:
        return
    except UntrustedError as error:
        raise RootError(error.told(_OTHERWISE)) from None
    except OSError as error:
        raise RootError(f"cannot use the root {root}: {error.strerror}; {_OTHERWISE}") from None


def trust_of(root: str) -> Trust:
    """Whether a root is this user's or a group's; ``UntrustedError`` if it is neither, OSError if it cannot be seen."""
    trust = _checked(followed(root), inside=False)
    for path in (names.registry_dir(root), names.claims_dir(root)):
        with suppress(FileNotFoundError):  # it is made where it is missing
            _checked(path, inside=trust is Trust.GROUP)
    return trust


def _checked(path: str, *, inside: bool) -> Trust:
    """What a directory is judged to be; ``UntrustedError`` says why it is not trusted."""
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise UntrustedError(f"{path} is no directory")
    trust = judge_root(step_of(status)._replace(lists=_lists(path)), who(), inside=inside)
    if trust is Trust.OWNER:
        raise UntrustedError(f"{path} belongs to another user (uid {status.st_uid})")
    if trust is Trust.WRITABLE:
        others = "everybody" if status.st_mode & stat.S_IWOTH else f"the group {status.st_gid}"
        raise UntrustedError(f"{others} can write to {path}", f"run `chmod 700 {path}`, or `speed init --group`")
    if trust is Trust.LISTED:
        raise UntrustedError(f"an access list lets others write to {path}", f"run `setfacl -bk {path}`")
    if trust is Trust.STRANGER:
        raise UntrustedError(
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
