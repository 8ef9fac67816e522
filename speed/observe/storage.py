"""What is wrong with a root's files, durable topics included. Nothing here needs to write."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from speed.errors import JournalError, KeyFileError, WireError
from speed.fs.keyfile import load_key_file
from speed.fs.open import SHARED_DIRECTORY, is_shared
from speed.fs.registry import Registry
from speed.journal import Journal
from speed.journal.files import JournalLane
from speed.journal.reader import LaneInfo
from speed.observe import Finding, bytes_text, refused, unusable
from speed.topics.storage import TopicState
from speed.wire import names
from speed.wire.entry import Entry
from speed.wire.names import topics_dir
from speed.wire.seal import Keyring
from speed.wire.topic import COMPACTED, PRODUCERS, SETTINGS

LOW_SPACE_BYTES = 256 << 20
FULL_BYTES = 4096
FEW_FILES = 1000
MAX_LOOKED_AT = 100_000
"""Files and directories: a root may hold many more, and one that is not ours is rarely alone."""
_ALL = os.R_OK | os.W_OK | os.X_OK


def mounted(root: str) -> Iterator[Finding]:
    """Whether the filesystem may be written to at all."""
    if hasattr(os, "statvfs") and os.statvfs(root).f_flag & os.ST_RDONLY:
        todo = "mount it for writing; `dmesg` tells whether an error made it read-only"
        yield unusable("filesystem", f"the filesystem of {root} is read-only", todo)


def owned(root: str, status: os.stat_result) -> Iterator[Finding]:
    """Whether the root is this user's, or a group's that it belongs to."""
    if status.st_uid == os.geteuid() or is_shared(status.st_mode):
        return
    found = f"{root} belongs to {_user(status.st_uid)}, and you are {_user(os.geteuid())}"
    todo = f"run as {_user(status.st_uid)}, or choose a root of your own"
    if os.access(root, _ALL):
        yield Finding("owner", "warning", found, todo)
    else:
        yield unusable("owner", found, todo)


def space(root: str) -> Iterator[Finding]:
    """Bytes and files that there is room for."""
    if not hasattr(os, "statvfs"):
        return
    status = os.statvfs(root)
    mine = os.geteuid() == 0  # what is reserved is root's
    free = (status.f_bfree if mine else status.f_bavail) * status.f_frsize
    if free < FULL_BYTES:
        todo = "make room on it: remove files, or run `speed root gc`"
        yield unusable("space", f"the filesystem of {root} is full: {bytes_text(free)} free", todo)
    elif free < LOW_SPACE_BYTES:
        yield Finding("space", "warning", f"{bytes_text(free)} free", "make room: senders fail when it is full")
    else:
        yield Finding("space", "ok", f"{bytes_text(free)} free")
    files = status.f_ffree if mine else status.f_favail
    if status.f_files and not files:
        todo = "remove files on it, or run `speed root gc`"
        yield unusable("space", f"the filesystem of {root} has no inodes left: no file can be made", todo)
    elif status.f_files and files < FEW_FILES:
        yield Finding("space", "warning", f"{files} files can still be made", "remove files, or `speed root gc`")


def access(root: str) -> Iterator[Finding]:
    """Directories and files in the root that this user, or the root's owner, cannot use."""
    head = os.stat(root)
    found: dict[str, list[Finding]] = defaultdict(list)
    for path in islice(_within(root), MAX_LOOKED_AT):
        one = _access(path, root, head)
        if one is not None:
            found[one.check].append(one)
    for check, all_of_it in found.items():
        yield all_of_it[0]
        if len(all_of_it) > 1:
            more = f"{len(all_of_it) - 1} more like it, such as {all_of_it[-1].found}"
            yield unusable(check, more, all_of_it[-1].todo)
    if not found:
        whose = f"the group's (gid {head.st_gid})" if is_shared(head.st_mode) else f"{_user(head.st_uid)}'s"
        yield Finding("access", "ok", f"files and directories are {whose}")


def _within(directory: str) -> Iterator[str]:
    """The directory and all in it, as far as it can be listed."""
    yield directory
    try:
        with os.scandir(directory) as entries:
            rows = [(one.path, one.is_dir(follow_symlinks=False)) for one in entries]
    except OSError:
        return
    for path, is_directory in rows:
        if is_directory:
            yield from _within(path)
        else:
            yield path


def _access(path: str, root: str, head: os.stat_result) -> Finding | None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None  # nodes come and go
    except OSError as error:
        return refused("access", error, path)
    if is_shared(head.st_mode):
        return _lost_to_group(path, status, head.st_gid)
    if status.st_uid != head.st_uid:
        whose = f"{path} belongs to {_user(status.st_uid)}, the root to {_user(head.st_uid)}"
        return unusable("owner", whose, f"chown -R {_user(head.st_uid)} {root}")
    is_directory = stat.S_ISDIR(status.st_mode)
    is_open = os.access(path, os.R_OK | os.X_OK if is_directory else os.R_OK)
    if not (is_open and (status.st_mode & stat.S_IWUSR or not is_directory)):
        return _closed(path, status)
    return None


def _lost_to_group(path: str, status: os.stat_result, group: int) -> Finding | None:
    """What the members of a group cannot use in their root; a key is for reading, and so are some other files."""
    is_directory = stat.S_ISDIR(status.st_mode)
    least = SHARED_DIRECTORY if is_directory else 0o040 if _is_for_reading(path, status.st_mode) else 0o060
    if status.st_gid == group and status.st_mode & least == least:
        return None
    found = f"{path} is not the group's (mode {stat.S_IMODE(status.st_mode):04o}, {_user(status.st_uid)}'s, "
    rights = "u+rwx,g+rwxs" if is_directory else "g+r" if least == 0o040 else "g+rw"
    return unusable("group", f"{found}gid {status.st_gid})", f"chgrp {group} {path} && chmod {rights} {path}")


def _is_for_reading(path: str, mode: int) -> bool:
    """The key, the observers, and the claim of who left: nobody of the group writes there."""
    directory = os.path.dirname(path)
    is_of_owner = path in (names.default_key_path(directory), names.observers_path(os.path.dirname(directory)))
    return is_of_owner or not mode & stat.S_IWUSR


def _closed(path: str, status: os.stat_result) -> Finding:
    mode = f"mode {stat.S_IMODE(status.st_mode):04o}, {_user(status.st_uid)}'s"
    if status.st_uid == os.geteuid():
        todo = f"chmod u+rwX {path}"
    else:
        todo = f"run as {_user(status.st_uid)}, or give the root to {_user(os.geteuid())} with chown -R"
    return unusable("access", f"{path} cannot be used ({mode})", todo)


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


class _Copy(NamedTuple):
    name: str
    pid: int
    original: str


def copies(registry: Registry) -> Iterator[Finding]:
    """Entries that came with a copy of the root: their nodes keep another file open than this one."""
    for copy in filter(None, (_copy(registry, name) for name in registry.names())):
        root = os.path.dirname(os.path.dirname(copy.original))
        entry = names.entry_path(registry.root, copy.name)
        found = f"the entry of {copy.name} is a copy: process {copy.pid} is a node of {root}"
        yield Finding("copy", "broken", found, f"use {root}; here: `rm {entry}`")


def _copy(registry: Registry, name: str) -> _Copy | None:
    entry = registry.read(name)
    if entry is None or registry.process_gone(entry):
        return None
    path = names.entry_path(registry.root, name)
    held = _held_as(entry.pid, os.path.basename(path))
    if any(_is_same(one, path) for one in held):
        return None
    # One process may be nodes of this name in several roots.
    original = next((one for one in held if _is_of_one_life(entry, one, registry.keyring)), None)
    return None if original is None else _Copy(name, entry.pid, original)


def _is_of_one_life(entry: Entry, path: str, keyring: Keyring) -> bool:
    """Whether the entry at ``path``, of some root, is of the same life of the same node."""
    there = Registry(os.path.dirname(os.path.dirname(path)), keyring).read(entry.name)
    life = (entry.generation, entry.startup_timestamp)
    return there is not None and (there.generation, there.startup_timestamp) == life


def _held_as(pid: int, filename: str) -> list[str]:
    """Files of this name that a process of this machine has open, as far as it may be seen."""
    directory = f"/proc/{pid}/fd"
    found = []
    try:
        for fd in os.listdir(directory):
            path = os.readlink(f"{directory}/{fd}")
            if os.path.basename(path) == filename and os.path.exists(path):
                found.append(path)
    except OSError:
        return []
    return found


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


MAX_BYTES = 1 << 30
"""Of messages that are read: more take longer than somebody waits."""
TODO = "restore it from a copy, or `speed topic seek` behind what is missing"


def topics(root: str, key: str) -> Iterator[Finding]:
    """One finding for each that is damaged, else one for all; none where there are no topics."""
    place = topics_dir(root)
    if not os.path.isdir(place):
        return
    journal, keyring = Journal(place, key), load_key_file(key)
    try:
        found, damaged = journal.survey()
    except JournalError as error:
        yield Finding("topics", "broken", str(error), "run as the owner of the topics")
        return
    yield from (Finding("topics", "broken", str(error), "restore it from a copy") for error in damaged.values())
    count = read = 0
    for info in found:
        whys = list(_damaged_states(place, info, keyring))
        size = _size(place, info)
        if read + size <= MAX_BYTES:
            read += size
            whys += _damaged_messages(journal, info)
        count += bool(whys)
        yield from (Finding("topics", "broken", f"topic {info.subject}: {why}", TODO) for why in whys)
    if not damaged and not count:
        yield Finding("topics", "ok", f"{len(found)}, of which {bytes_text(read)} were read")


def _damaged_states(place: str, info: LaneInfo, keyring: Keyring) -> Iterator[str]:
    state = TopicState(place, info.id, keyring, durable=False)
    try:
        for name in (SETTINGS, PRODUCERS, COMPACTED):
            try:
                state.get(name)
            except (OSError, WireError) as error:
                yield f"{name}: {error}"
        yield from (f"{name}: {why}" for name, why in state.cursors().items() if isinstance(why, str))
    finally:
        state.close()


def _size(place: str, info: LaneInfo) -> int:
    with JournalLane(place, info.id) as files:
        return sum(map(files.size, files.volumes()))


def _damaged_messages(journal: Journal, info: LaneInfo) -> list[str]:
    """The first damage of a topic."""
    try:
        for _ in journal.blocks(info.id, journal.first(info.id), journal.end(info.id)):
            pass
    except (JournalError, KeyFileError) as error:
        return [str(error)]
    return []
