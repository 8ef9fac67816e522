"""Whether only root and this user, or a group that was asked for, can change a step of a way, or a root (R-28)."""

from __future__ import annotations

import struct
from typing import Any

ME, OTHER, STAFF = 1000, 1001, 50
OWNER, USER, GROUP, NAMED_GROUP, MASK, REST = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
NO_ID = 0xFFFFFFFF


def access_list(*named: tuple[int, int, int], version: int = 2) -> str:
    """The value of the attribute: owner, those that are named (tag, rights, id), group, mask and rest."""
    rows = [(OWNER, 7, NO_ID), *named, (GROUP, 0, NO_ID), (MASK, 7, NO_ID), (REST, 0, NO_ID)]
    return (struct.pack("<I", version) + b"".join(struct.pack("<HHI", *row) for row in rows)).hex()


def case(name: str, bug: str, owner: int, mode: str, verdict: str, **more: Any) -> dict[str, Any]:
    """One directory, link or file, and who looks at it."""
    seen = {"owner": owner, "group": STAFF, "mode": mode, "lists": [], "user": ME, "groups": [ME, STAFF]}
    return {"name": name, "bug": bug, **seen, "inside": False, **more, "verdict": verdict}


def trust() -> dict[str, Any]:
    """Owner, group, mode and access lists, and what is made of them."""
    return {
        "about": "R-28: `mode` is st_mode in octal digits; `lists`: values of system.posix_acl_access and _default; "
        "`user` and `groups` are those of the process; `inside`: the directory lies in the root of a group.",
        "steps": _steps(),
        "roots": [*_roots(), *_groups(), *_lists()],
    }


def _steps() -> list[dict[str, Any]]:
    return [
        case("own", "only root is trusted", ME, "40700", "trusted"),
        case("of root", "only the user is trusted", 0, "40755", "trusted"),
        case("of another", "whoever owns a directory can replace what is in it", OTHER, "40755", "owner"),
        case("of another, sticky", "a foreign step excused by its mode", OTHER, "41777", "owner"),
        case("of another, for root", "root is taken to trust all", OTHER, "40755", "owner", user=0),
        case("of its group", "only the rights of everybody are looked at", 0, "40775", "writable"),
        case("of everybody", "only the rights of the group are looked at", 0, "40757", "writable"),
        case("own, of everybody", "an own directory is not looked at", ME, "40777", "writable"),
        case("of a group, setgid", "taken for the root of a group", 0, "42775", "writable"),
        case("sticky", "/tmp and /dev/shm refused", 0, "41777", "trusted"),
        case("sticky, of a group", "the root of a group refused on the way to its key", 0, "43770", "trusted"),
        case("link", "the mode of a link counts", ME, "120777", "trusted"),
        case("link of another", "a link is not looked at", OTHER, "120777", "owner"),
        case("file", "the mode of a file counts as that of a directory", ME, "100666", "trusted"),
    ]


def _roots() -> list[dict[str, Any]]:
    return [
        case("private", "only root may have roots", ME, "40700", "trusted"),
        case("of root, readable", "rights to read taken for rights to write", 0, "40755", "trusted"),
        case("of another", "made first by somebody else", OTHER, "40700", "owner"),
        case("of another, listed", "the bits of the group that a list sets excuse the owner", OTHER, "40770", "owner"),
        case("of another, shared", "the root of a group excuses its owner", OTHER, "42770", "owner"),
        case("of everybody", "a sticky root excused", ME, "41777", "writable"),
        case("of others, shared", "setgid excuses the rights of everybody", ME, "42772", "writable"),
        case("of its group", "the rights of a group that nobody asked for", ME, "40770", "writable"),
        case("of another, inside", "a member may make what is missing", OTHER, "42770", "group", inside=True),
        case("open, inside", "nothing is asked of what is inside", OTHER, "42777", "writable", inside=True),
    ]


def _groups() -> list[dict[str, Any]]:
    return [
        case("of a group", "a root that was asked for refused", 0, "42770", "group"),
        case("of a group, sticky", "the same", 0, "43770", "group"),
        case("of a group, readable", "rights to read taken for rights to write", 0, "43775", "group"),
        case("own, of a group", "only root may share", ME, "42770", "group"),
        case("of another group", "used by who is no member", 0, "42770", "stranger", groups=[ME]),
        case("of another group, for root", "root must be a member", 0, "42770", "group", user=0, groups=[0]),
        case("setgid, not writable", "setgid alone taken for a group", ME, "42750", "trusted"),
    ]


def _lists() -> list[dict[str, Any]]:
    mine, roots = access_list((USER, 7, ME)), access_list((USER, 7, 0))
    writes, reads = access_list((USER, 7, OTHER)), access_list((USER, 5, OTHER))
    staff = access_list((NAMED_GROUP, 6, STAFF))
    return [
        case("another user may write", "the list is not read", ME, "40700", "listed", lists=[writes]),
        case("another group may write", "only users are looked at", ME, "40700", "listed", lists=[staff]),
        case("the second list", "only the first list is read", ME, "40700", "listed", lists=[reads, writes]),
        case("a list in a group's root", "the bits of its group hide the list", 0, "42770", "listed", lists=[writes]),
        case("another may read", "each list is refused", ME, "40700", "trusted", lists=[reads]),
        case("names this user and root", "each name is another's", ME, "40700", "trusted", lists=[mine, roots]),
        case("of another version", "guessed", ME, "40700", "listed", lists=[access_list(version=3)]),
        case("cut", "read beyond its end", ME, "40700", "listed", lists=[writes[:-2]]),
        case("empty", "no list taken for an empty one", ME, "40700", "listed", lists=[""]),
    ]
