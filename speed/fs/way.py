"""The way to a key file: each step of it is one that no other user can change (W-14)."""

from __future__ import annotations

import os
import stat

from speed.errors import KeyFileError
from speed.wire import names

MAX_LINKS = 40
"""As many as Linux follows."""


def followed(path: str) -> str:
    """Where ``path`` leads once its links are followed; KeyFileError for a step that others can change."""
    way = os.path.abspath(path).split("/")[::-1]
    place, links = "", 0
    _check_directory("/", os.lstat("/"))
    while way:
        name = way.pop()
        if name == "..":
            place = place.rpartition("/")[0]
        elif name not in ("", "."):
            step = names.child_path(place, name)
            status = _looked_at(step, path)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                place = _follow(step, place, way, links)
                continue
            if stat.S_ISDIR(status.st_mode):
                _check_directory(step, status)
            place = step
    return place or "/"


def _looked_at(step: str, path: str) -> os.stat_result:
    try:
        status = os.lstat(step)
    except FileNotFoundError:
        raise KeyFileError(f"there is no key file {path}: make one with `speed init` or `speed key new`") from None
    except OSError as error:
        raise KeyFileError(f"cannot read the key file {path}: {error.strerror}") from None
    if status.st_uid not in (os.geteuid(), 0):
        raise KeyFileError(f"{step} belongs to another user (uid {status.st_uid}): use a key file of your own")
    return status


def _check_directory(step: str, status: os.stat_result) -> None:
    """Others may make names in a sticky directory, but not change those of root and of this user."""
    if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
        mend = f"run `chmod go-w {step}`, or keep the key elsewhere"
        raise KeyFileError(f"others can write to {step}, and so replace what is below it: {mend}")


def _follow(link: str, place: str, way: list[str], links: int) -> str:
    """Put the steps of a link before the others; the directory in which they begin."""
    if links > MAX_LINKS:
        raise KeyFileError(f"{link} is one of more than {MAX_LINKS} links: name the key file itself")
    try:
        target = os.readlink(link)
    except OSError as error:
        raise KeyFileError(f"cannot read the link {link}: {error.strerror}") from None
    way += target.split("/")[::-1]
    return "" if target.startswith("/") else place
