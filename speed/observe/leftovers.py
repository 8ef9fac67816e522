"""What nodes left behind in a root, and which of it nobody needs any more.

A thing is removable only when that is certain: undelivered messages of a node that may come back stay, and so
does the newest claim of every name. Nothing is removed by looking; ``remove_leftover`` looks again before it acts.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from speed.errors import NameTakenError, StorageError
from speed.fs.lane_files import LaneFiles
from speed.fs.registration import hold
from speed.fs.registry import Registry
from speed.fs.sweep import Leftovers, forget, has_lanes, is_forgettable
from speed.wire import names
from speed.wire.limits import RECONSTRUCTION_SECONDS, TEMPORARY_SECONDS


@dataclass(frozen=True)
class Leftover:
    """One thing: ``kind`` as in KINDS, its bytes, and whether it can go, with the reason."""

    kind: str
    path: str
    size: int
    removable: bool
    reason: str
    node: str = ""
    sender: str = ""


KINDS = ("ephemeral node", "stale entry", "old claim", "temporary file", "quarantined file", "lane", "node directory")


def find_leftovers(registry: Registry, quarantine_seconds: float = 0.0) -> list[Leftover]:
    """Everything left behind; quarantined files are removable after ``quarantine_seconds``."""
    forgettable = sorted(name for name in Leftovers(registry) if name and is_forgettable(registry, name))
    stale = {entry.name for entry in registry.remove_stale(dry_run=True)}
    present = set(registry.names()) - stale - set(forgettable)
    found = [_ephemeral_node(registry, name) for name in forgettable]
    found += [_stale_entry(registry, name) for name in sorted(stale)]
    found += _old_claims(registry.root)
    found += _temporaries(registry.root)
    for name in _node_directories(registry.root):
        if name in forgettable:
            continue
        refused = list(_quarantined(registry.root, name, quarantine_seconds))
        found += refused
        if name not in present:
            found += _dead_node(registry, name, present, all(one.removable for one in refused))
    return found


def remove_leftover(registry: Registry, leftover: Leftover) -> bool:
    """Remove it if it still can go; False when it cannot any more. Nobody starts under its names meanwhile."""
    removing = {
        "ephemeral node": lambda: forget(registry, leftover.node),
        "stale entry": lambda: registry.remove_stale_entry(leftover.node),
        "old claim": lambda: _remove_old_claim(registry, leftover),
        "lane": lambda: _remove_lane(registry, leftover),
        "node directory": lambda: _remove_node_directory(registry, leftover.node),
    }
    with contextlib.suppress(OSError, NameTakenError):
        return removing.get(leftover.kind, lambda: _unlink(leftover.path))()
    return False


def _ephemeral_node(registry: Registry, name: str) -> Leftover:
    waits = has_lanes(registry.root, name)
    reason = "a live node has yet to read what it sent" if waits else "it is gone, and its name does not come back"
    return Leftover("ephemeral node", names.node_dir(registry.root, name), 0, not waits, reason, name)


def _stale_entry(registry: Registry, name: str) -> Leftover:
    path = names.entry_path(registry.root, name)
    return Leftover("stale entry", path, _size(path), True, "its node is gone", name)


def _old_claims(root: str) -> list[Leftover]:
    """All claims but the newest of each name, which keeps generations growing for ever."""
    newest: dict[str, int] = {}
    claims = [found for found in map(names.parse_claim, listed(names.claims_dir(root))) if found]
    for name, generation in claims:
        newest[name] = max(generation, newest.get(name, 0))
    old = sorted((name, generation) for name, generation in claims if generation < newest[name])
    paths = [(name, names.claim_path(root, name, generation)) for name, generation in old]
    reason = "a newer claim of the name exists"
    return [Leftover("old claim", path, _size(path), True, reason, name) for name, path in paths]


def _remove_old_claim(registry: Registry, old: Leftover) -> bool:
    """Remove it below a generation that an entry tells, or while this holds the name.

    A newer claim alone proves nothing: that of a sweep goes again, and then this would have been the newest.
    """
    _, generation = names.parse_claim(os.path.basename(old.path)) or ("", 0)
    entry = registry.read(old.node)
    if entry is not None and entry.generation > generation:
        return _unlink(old.path)
    with hold(registry, old.node) as held:
        return generation < held.former and _unlink(old.path)


def _temporaries(root: str) -> Iterator[Leftover]:
    directories = [root, names.registry_dir(root)]
    for name in _node_directories(root):
        inbox = names.inbox_dir(root, name)
        directories += [names.node_dir(root, name), inbox]
        directories += [names.child_path(inbox, sender) for sender in listed(inbox)]
    for directory in directories:
        for filename in listed(directory):
            if filename.startswith(names.TEMPORARY_PREFIX):
                path = names.child_path(directory, filename)
                old = _age(path) > TEMPORARY_SECONDS
                reason = "its writer was killed" if old else "too young to be certain"
                yield Leftover("temporary file", path, _size(path), old, reason)


def _quarantined(root: str, name: str, quarantine_seconds: float) -> Iterator[Leftover]:
    directory = names.quarantine_dir(root, name)
    for filename in sorted(listed(directory)):
        path = names.child_path(directory, filename)
        old = _age(path) >= quarantine_seconds
        reason = "it was refused" if old else "it was refused a short while ago"
        yield Leftover("quarantined file", path, _size(path), old, reason, name)


def _dead_node(registry: Registry, name: str, present: set[str], empty: bool) -> Iterator[Leftover]:
    """The lanes and the directory of a node without an entry; ``empty``: nothing else in it must stay."""
    kept = not empty
    for sender in sorted(listed(names.inbox_dir(registry.root, name))):
        if not names.is_node_name(sender):
            continue
        lane = _lane(registry, name, sender, present)
        kept = kept or not lane.removable
        yield lane
    segments = names.segments_dir(registry.root, name)
    kept = kept or (os.path.lexists(segments) and _age(segments) < RECONSTRUCTION_SECONDS)
    path = names.node_dir(registry.root, name)
    reason = "something in it must stay" if kept else "its node is gone and nothing waits in it"
    yield Leftover("node directory", path, 0, not kept, reason, name)


def _lane(registry: Registry, name: str, sender: str, present: set[str]) -> Leftover:
    path = names.lane_dir(registry.root, name, sender)
    size = sum(_size(names.child_path(path, filename)) for filename in listed(path))
    if sender in present:
        removable, reason = False, "its sender is alive"
    elif unread := _unread_bytes(registry, name, sender):
        removable, reason = False, f"{unread} bytes wait for the node to come back"
    else:
        removable, reason = True, "both ends are gone and nothing in it is unread"
    return Leftover("lane", path, size, removable, reason, name, sender)


def _unread_bytes(registry: Registry, name: str, sender: str) -> int:
    """Bytes in a lane beyond its newest cursor; unfinished envelopes count from the first one on."""
    keys = registry.keyring.lane_keys(names.node_id(sender), names.node_id(name))
    try:
        lane = LaneFiles(names.lane_dir(registry.root, name, sender), keys)
    except OSError:
        return 0
    try:
        listing = lane.list()
        cursor = next((found for found in map(lane.read_cursor, listing.cursors) if found), None)
    finally:
        lane.close()
    path = names.lane_dir(registry.root, name, sender)
    sizes = {one: _size(names.child_path(path, names.lane_file_name(*one))) for one in listing.files}
    if cursor is None:
        return sum(sizes.values())
    unfinished = [(one.generation, one.file, one.offset) for one in cursor.unfinished]
    start = min([*unfinished, (cursor.sender_generation, cursor.file, cursor.offset)])
    return sum(max(0, size - start[2] if one == start[:2] else size) for one, size in sizes.items() if one >= start[:2])


def _remove_lane(registry: Registry, lane: Leftover) -> bool:
    with hold(registry, lane.node), hold(registry, lane.sender):
        if _unread_bytes(registry, lane.node, lane.sender):
            return False
        for filename in listed(lane.path):
            _unlink(names.child_path(lane.path, filename))
        os.rmdir(lane.path)
        return True


def _remove_node_directory(registry: Registry, name: str) -> bool:
    """Remove the directory while it is empty of lanes; ``rmdir`` itself refuses one that is not."""
    root = registry.root
    with hold(registry, name):
        segments = names.segments_dir(root, name)
        for filename in listed(segments):
            if names.is_segment_file(filename):
                _unlink(names.child_path(segments, filename))
        for path in (segments, names.inbox_dir(root, name), names.quarantine_dir(root, name)):
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(names.bell_path(root, name))
        os.rmdir(names.node_dir(root, name))
        return True


def _node_directories(root: str) -> list[str]:
    """Names with a directory in the root; a journal is nobody's leftover."""
    with os.scandir(root) as entries:
        found = [one.name for one in entries if names.is_node_name(one.name) and one.is_dir(follow_symlinks=False)]
    return sorted(name for name in found if names.JOURNAL_LOCK not in listed(names.node_dir(root, name)))


def listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _age(path: str) -> float:
    """Seconds since the last change; a file of the future is young."""
    try:
        return time.time() - os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _unlink(path: str) -> bool:
    """Remove a file, or an empty or quarantined directory, without following links."""
    if stat.S_ISDIR(os.lstat(path).st_mode):
        import shutil

        shutil.rmtree(path)
    else:
        os.unlink(path)
    return True


class LeftFiles(NamedTuple):
    """So many files of one kind."""

    what: str
    files: int
    size: int


def left_of(registry: Registry, node: str) -> Iterator[LeftFiles]:
    """What stands in the directory of a node, by kind, and its entry."""
    own = names.node_dir(registry.root, node)
    kinds = {
        "waiting messages": names.inbox_dir(registry.root, node),
        "dead letters": names.dead_letters_dir(registry.root, node),
        "quarantined files": names.quarantine_dir(registry.root, node),
        "segments": names.segments_dir(registry.root, node),
    }
    counted = 0
    for what, directory in kinds.items():
        sizes = list(_sizes(directory))
        counted += len(sizes)
        yield LeftFiles(what, len(sizes), sum(sizes))
    others = list(_sizes(own))
    yield LeftFiles("other files", len(others) - counted, sum(others) - sum(map(sum, map(_sizes, kinds.values()))))
    entry = names.entry_path(registry.root, node)
    yield LeftFiles("entry", int(os.path.lexists(entry)), os.path.getsize(entry) if os.path.lexists(entry) else 0)


def _sizes(directory: str) -> Iterator[int]:
    for path, _, files in os.walk(directory):
        for file in files:
            try:
                yield os.lstat(names.child_path(path, file)).st_size
            except FileNotFoundError:
                continue  # somebody else was quicker


def remove_node(registry: Registry, node: str) -> None:
    """Remove it while this process holds the node's name, so that it cannot start meanwhile.

    An entry of another boot is watched for its lease before. NameTakenError if the node started, StorageError if
    something cannot be removed.
    """
    import shutil

    from speed.fs.registration import hold

    with hold(registry, node, waits=True):
        path = names.node_dir(registry.root, node)
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            why = error.strerror or error
            raise StorageError(f"{path} cannot be removed: {why}; see `speed root doctor`") from error
        registry.remove_stale_entry(node)
