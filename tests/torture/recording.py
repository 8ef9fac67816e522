"""What a process asked of the filesystem, recorded by strace: creations, writes, flushes; and what it said."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

CALLS = (
    "openat,mkdir,mkdirat,write,writev,pwrite64,fallocate,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,"
    "ftruncate"
)
_LINE = re.compile(r"(\d+) +(\d+\.\d+) (?:<\.\.\. (\w+) resumed>(.*)|(\w+)\((.*))$")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"(\.\.\.)?')
_PLACE = re.compile(r"(?:\d+|AT_FDCWD)<([^>]*)>")
_UNFINISHED = " <unfinished ...>"
_STDOUT = re.compile(r"1<(pipe|socket)")


@dataclass(frozen=True)
class Operation:
    """One that succeeded. ``kind``: create (empty if ``number`` is 0), mkdir, write (at ``number``, -1 for the end),
    sync, rename (``path`` to ``other``), remove, cut (to ``number`` bytes), grow (likewise), say (``data`` to stdout).
    ``at``: its end.
    """

    kind: str
    path: str = ""
    data: bytes = b""
    number: int = -1
    other: str = ""
    at: float = 0.0


def under_strace(out: str) -> list[str]:
    """What stands before the command of a process that is to be recorded."""
    return ["strace", "-f", "-y", "-ttt", "-qq", "--seccomp-bpf", "-s", "200000", "-e", f"trace={CALLS}", "-o", out]


def operations(trace: str, root: str) -> Iterator[Operation]:
    """Those below ``root``, and what was said."""
    unfinished: dict[str, str] = {}
    with open(trace, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            found = _LINE.match(line.rstrip("\n"))
            if not found:
                continue
            pid, at, resumed, rest, name, arguments = found.groups()
            if resumed:
                name, arguments = resumed, unfinished.pop(pid) + rest
            elif arguments.endswith(_UNFINISHED):
                unfinished[pid] = arguments.removesuffix(_UNFINISHED)
                continue
            operation = _operation(name, arguments, root, float(at))
            if operation is not None:
                yield operation


def _operation(name: str, text: str, root: str, at: float) -> Operation | None:
    arguments, _, result = text.rpartition(" = ")
    value = result.split(" ")[0].split("<")[0]
    if not value.isdigit():
        return None
    made = _made(name, arguments, int(value))
    if made is None:
        return None
    kind, path, data, number, other = made
    if kind != "say" and not (path.startswith(root + "/") or path == root):
        return None
    return Operation(kind, path, data, number, other, at)


def _made(name: str, arguments: str, value: int) -> tuple[str, str, bytes, int, str] | None:
    places, texts = _PLACE.findall(_TEXT.sub("", arguments)), _TEXT.findall(arguments)
    data = b"".join(codecs.escape_decode(text.encode("utf-8", "surrogateescape"))[0] for text, _ in texts)
    paths = [text for text, _ in texts]
    if name in ("write", "writev"):
        if _STDOUT.match(arguments):
            return "say", "", data[:value], -1, ""
        return "write", places[0] if places else "", data[:value], -1, ""
    if name == "pwrite64":
        return "write", places[0], data[:value], int(arguments.rstrip(")").rsplit(", ", 1)[1]), ""
    if name == "fallocate":
        return "grow", places[0], b"", sum(map(int, arguments.rstrip(")").rsplit(", ", 2)[1:])), ""
    if name in ("fsync", "fdatasync"):
        return "sync", places[0], b"", -1, ""
    if name == "ftruncate":
        return "cut", places[0], b"", int(arguments.rstrip(")").rsplit(", ", 1)[1]), ""
    if name == "openat":
        return (
            ("create", _join(places, paths, 0), b"", 0 if "O_TRUNC" in arguments else -1, "")
            if "O_CREAT" in arguments
            else None
        )
    kind = {"mkdir": "mkdir", "mkdirat": "mkdir", "unlink": "remove", "unlinkat": "remove"}.get(name, "rename")
    return kind, _join(places, paths, 0), b"", -1, _join(places, paths, 1) if kind == "rename" else ""


def _join(places: list[str], paths: list[str], which: int) -> str:
    place = places[min(which, len(places) - 1)] if places else ""
    return os.path.normpath(os.path.join(place, paths[which]))
