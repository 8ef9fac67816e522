"""Whether only root and this user can change a directory, or a group that was asked for as well (R-28)."""

from __future__ import annotations

import stat
import struct
from enum import Enum
from typing import NamedTuple

OTHERS_WRITE = 0o022
GROUP_BITS = stat.S_ISGID | stat.S_IWGRP
_LIST_VERSION = 2
_ENTRY = struct.Struct("<HHI")
_NAMED_USER, _NAMED_GROUP = 0x02, 0x08
_WRITE = 0x02


class Trust(Enum):
    """Only the first two may be used."""

    TRUSTED = "trusted"
    GROUP = "group"
    """A root of several users: the members of its group can do all that its owner can."""
    OWNER = "owner"
    WRITABLE = "writable"
    LISTED = "listed"
    """An access list lets others write."""
    STRANGER = "stranger"
    """A root of a group of which this process is no member."""


class Step(NamedTuple):
    """What is on the way: ``mode`` as in ``st_mode``, ``lists`` the access lists that a root has."""

    owner: int
    group: int
    mode: int
    lists: tuple[bytes, ...] = ()


class Who(NamedTuple):
    """Effective user and all groups of a process."""

    user: int
    groups: frozenset[int]

    def is_trusted(self, user: int) -> bool:
        return user in (0, self.user)


def is_shared(mode: int) -> bool:
    """Whether a directory is one of a group root: what is made in it is the group's as well."""
    return mode & GROUP_BITS == GROUP_BITS


def judge_step(step: Step, who: Who) -> Trust:
    """Of a directory, link or file on the way. In a sticky directory others cannot change what is not theirs."""
    if not who.is_trusted(step.owner):
        return Trust.OWNER
    if stat.S_ISDIR(step.mode) and step.mode & OTHERS_WRITE and not step.mode & stat.S_ISVTX:
        return Trust.WRITABLE
    return Trust.TRUSTED


def judge_root(step: Step, who: Who, *, inside: bool = False) -> Trust:
    """Of a root, or of a directory ``inside`` a group root: there each member may have made it."""
    if not inside and not who.is_trusted(step.owner):
        return Trust.OWNER
    shared = is_shared(step.mode)
    if step.mode & stat.S_IWOTH or (step.mode & stat.S_IWGRP and not shared):
        return Trust.WRITABLE
    if shared and who.user != 0 and step.group not in who.groups:
        return Trust.STRANGER
    if any(_names_writer(one, who) for one in step.lists):
        return Trust.LISTED
    return Trust.GROUP if shared else Trust.TRUSTED


def _names_writer(access_list: bytes, who: Who) -> bool:
    """Whether another user or group may write by a POSIX access list, as the kernel shows it; also if it is none."""
    if len(access_list) < 4 or len(access_list) % _ENTRY.size != 4:
        return True
    if int.from_bytes(access_list[:4], "little") != _LIST_VERSION:
        return True
    for tag, rights, number in _ENTRY.iter_unpack(access_list[4:]):
        foreign = tag == _NAMED_GROUP or (tag == _NAMED_USER and not who.is_trusted(number))
        if foreign and rights & _WRITE:
            return True
    return False
