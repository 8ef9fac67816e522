"""Fences: what a sender that lost its name writes afterwards is never accepted (L-18)."""

from __future__ import annotations

import errno
import os

from speed.fs.committed import lane_files_in, newest_cursor
from speed.fs.open import open_directory, replace_file
from speed.wire import names
from speed.wire.cursor import Fence, encode_fence
from speed.wire.seal import Keyring

_NO_LANE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""No lane is there, or nothing that could be one."""


def fence_lanes(root: str, source: str, generation: int, keyring: Keyring) -> int:
    """End all lanes that older generations of ``source`` left anywhere; returns how many.

    A paused and replaced owner may resume and append to files it still holds open. Called by the new
    owner after it won its claim and before its entry appears. OSError when a fence cannot be written.
    """
    fenced = 0
    for target in nodes_in(root):
        try:
            lane = open_directory(names.lane_dir(root, target, source))
        except OSError as error:
            if error.errno in _NO_LANE or (error.errno == errno.EACCES and _is_others(names.node_dir(root, target))):
                continue
            raise
        try:
            lane_key = keyring.lane_key(names.node_id(source), names.node_id(target))
            _fence_lane(lane, generation, lane_key)
            fenced += 1
        finally:
            os.close(lane)
    return fenced


def has_unopened_lanes(root: str, source: str, keyring: Keyring) -> bool:
    """Whether a receiver has yet to open a lane of ``source``; one that cannot be looked into counts as such."""
    return any(_is_unopened(root, source, target, keyring) for target in nodes_in(root))


def generation_left(root: str, name: str, keyring: Keyring) -> int:
    """The newest generation of a name that the files it left tell of; 0 for one that left nothing.

    For a name whose claims somebody removed: what it sent in a generation that was used is taken for repeated.
    """
    if not os.path.lexists(names.node_dir(root, name)):
        return 0
    inbox = names.inbox_dir(root, name)
    found = [_read_up_to(inbox, sender) for sender in _listed(inbox)]
    found += [_written_up_to(root, name, target, keyring) for target in nodes_in(root)]
    return max(found, default=0)


def _read_up_to(inbox: str, sender: str) -> int:
    """By the names of cursors and deliveries in one lane."""
    listed = _listed(names.child_path(inbox, sender))
    parsed = (parse(file) for parse in (names.parse_cursor, names.parse_deliveries) for file in listed)
    return max(filter(None, parsed), default=0)


def _written_up_to(root: str, source: str, target: str, keyring: Keyring) -> int:
    """By what it wrote into one lane, and by what was read there."""
    path = names.lane_dir(root, target, source)
    listed = _listed(path)
    numbered = (parse(file) for parse in (names.parse_lane_file, names.parse_slot) for file in listed)
    found = [one[0] for one in numbered if one] + [fence for file in listed if (fence := names.parse_fence(file))]
    if listed:
        lane = open_directory(path)
        try:
            cursor = newest_cursor(lane, keyring.lane_keys(names.node_id(source), names.node_id(target)))
            found.append(cursor.sender_generation if cursor else 0)
        finally:
            os.close(lane)
    return max(found, default=0)


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError as error:
        if error.errno in (*_NO_LANE, errno.EACCES):
            return []
        raise


def nodes_in(root: str) -> list[str]:
    """All directories of a root whose names are valid names of nodes."""
    return [name for name in os.listdir(root) if names.is_node_name(name)]


def _is_unopened(root: str, source: str, target: str, keyring: Keyring) -> bool:
    """After a power cut a cursor may be a name without its bytes."""
    keys = keyring.lane_keys(names.node_id(source), names.node_id(target))
    try:
        lane = open_directory(names.lane_dir(root, target, source))
        try:
            return newest_cursor(lane, keys) is None
        finally:
            os.close(lane)
    except OSError as error:
        return error.errno not in _NO_LANE


def _is_others(path: str) -> bool:
    """Whether the directory of a node belongs to another user. Who may not enter it never wrote there."""
    return os.stat(path, follow_symlinks=False).st_uid != os.geteuid()


def _fence_lane(lane: int, generation: int, lane_key: bytes) -> None:
    """Record the newest older file and its size; (0, 0, 0) if none is left, so that nothing old counts."""
    older = [found for found in lane_files_in(lane) if found[0] < generation]
    fence = Fence(generation, *(older[-1] if older else (0, 0, 0)))
    os.close(replace_file(names.fence_name(generation), encode_fence(fence, lane_key), lane))
