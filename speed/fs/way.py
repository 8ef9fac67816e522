"""The way to a root or a key file: each step of it is one that no other user can change (R-28)."""

from __future__ import annotations

import os
import stat

from speed.core.trust import Step, Trust, Who, judge_step
from speed.wire import names
from speed.wire.limits import MAX_LINKS


class UntrustedError(Exception):
    """What was found, and the command that mends it, if one does."""

    def __init__(self, found: str, cure: str = "") -> None:
        super().__init__(found)
        self.cure = cure

    def told(self, otherwise: str) -> str:
        """What was found and what to do: the cure, or else ``otherwise``."""
        return f"{self}: {self.cure}, or {otherwise}" if self.cure else f"{self}: {otherwise}"


def who() -> Who:
    """This process."""
    return Who(os.geteuid(), frozenset((os.getegid(), *os.getgroups())))


def followed(path: str) -> str:
    """Where ``path`` leads once its links are followed. ``UntrustedError`` for a step that others can change, OSError.

    The last step is judged by its owner alone: whoever asks knows what it should be.
    """
    way = os.path.abspath(path).split("/")[::-1]
    place, links, me = "", 0, who()
    _check("/", os.lstat("/"), me, is_last=False)
    while way:
        name = way.pop()
        if name == "..":
            place = place.rpartition("/")[0]
        elif name not in ("", "."):
            step = names.child_path(place, name)
            status = os.lstat(step)
            _check(step, status, me, is_last=not way)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                place = _follow(step, place, way, links)
            else:
                place = step
    return place or "/"


def step_of(status: os.stat_result) -> Step:
    return Step(status.st_uid, status.st_gid, status.st_mode)


def _check(step: str, status: os.stat_result, me: Who, *, is_last: bool) -> None:
    trust = judge_step(step_of(status), me)
    if trust is Trust.OWNER:
        raise UntrustedError(f"{step} belongs to another user (uid {status.st_uid})")
    if trust is Trust.WRITABLE and not is_last:
        cure = f"chmod {'+t' if status.st_mode & stat.S_ISGID else 'go-w'} {step}"
        raise UntrustedError(f"others can write to {step}, and so replace what is below it", f"run `{cure}`")


def _follow(link: str, place: str, way: list[str], links: int) -> str:
    """Put the steps of a link before the others; the directory in which they begin."""
    if links > MAX_LINKS:
        raise UntrustedError(f"{link} is one of more than {MAX_LINKS} links")
    target = os.readlink(link)
    way += target.split("/")[::-1]
    return "" if target.startswith("/") else place
