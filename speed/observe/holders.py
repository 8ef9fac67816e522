"""Which nodes have the keys of a key file, and what only its older keys open (W-20)."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from speed.errors import WireError
from speed.fs.claim import read_entry_file
from speed.fs.lane_files import LaneFiles
from speed.observe import bytes_text
from speed.wire import names
from speed.wire.entry import key_ids_in
from speed.wire.envelope import parse_header
from speed.wire.limits import AAD_BYTES

if TYPE_CHECKING:
    from speed.fs.registry import Registry
    from speed.wire.seal import Keyring


_HEAD_BYTES = 24
_KEY_ID = slice(8, 16)


@dataclass(frozen=True)
class Holder:
    """A node and the ids of the keys that it says to have, the sealing one first.

    ``state``: ``current`` (those of the file), ``behind`` (others, but it is understood), ``silent`` (it does not say),
    ``foreign`` (it seals with a key that the file does not have).
    """

    name: str
    ids: tuple[str, ...]
    state: str

    @property
    def found(self) -> str:
        """What is to be said of one that is not current."""
        if self.state == "foreign":
            return f"{self.name} is sealed with key {self.ids[0]}, which this key file does not have"
        if self.state == "silent":
            return f"{self.name} does not say which keys it has"
        return f"{self.name} has the keys {', '.join(self.ids)}, not those of this file"

    @property
    def todo(self) -> str:
        if self.state == "foreign":
            return "give its node this key file, or this root the key of its nodes; its entry is not junk"
        if self.state == "silent":
            return "it is of an older version: restart it after each step"
        return "it takes them with its next heartbeat; if not, its log says why, or its key file is another one"


def holders(registry: Registry) -> list[Holder]:
    """All nodes that may be alive, and entries under keys that the file does not have; sorted by name."""
    found = (_holder(registry, name) for name in sorted(registry.names()))
    return [one for one in found if one is not None]


def _holder(registry: Registry, name: str) -> Holder | None:
    try:
        ids = key_ids_in(read_entry_file(names.entry_path(registry.root, name)))
    except (OSError, WireError):
        return None
    key_ids, ours = tuple(one.hex() for one in ids), registry.keyring.key_ids
    if registry.live(name) is not None:
        return Holder(name, key_ids, "silent" if not ids else "current" if ids == ours else "behind")
    is_foreign = bool(ids) and ids[0] not in ours and registry.is_unreadable(name)
    return Holder(name, key_ids, "foreign") if is_foreign else None


# --- what a key that goes would take with it ---


def lost_with(registry: Registry, retired: Collection[bytes]) -> Iterator[str]:
    """What nodes could not read any more, were these keys taken out of the file."""
    for one in holders(registry):
        if one.state == "silent" or (one.ids and bytes.fromhex(one.ids[0]) in retired):
            yield f"{one.name} still seals with {one.ids[0] if one.ids else 'nobody knows which key'}"
    for name in sorted(filter(names.is_node_name, os.listdir(registry.root))):
        if count := _letters(registry.root, name, retired):
            yield f"{count} dead letters of {name}: see `speed dead list {name}`"
        if _is_store_under(registry.root, name, retired):
            yield f"what {name} has received in segments and not put together yet"
        for sender in _listed(names.inbox_dir(registry.root, name)):
            if names.is_node_name(sender) and _is_unread_under(registry, name, sender, retired):
                yield f"what {sender} sent to {name} and {name} has not read yet"


def recorded_with(directories: Iterable[str], ring: Keyring, retired: Collection[bytes]) -> Iterator[str]:
    """What these keys seal of journals and durable topics, and how they are sealed anew."""
    from speed.journal.reseal import held_by

    for place in directories:
        held = held_by(place, ring, retired)
        if held.files:
            yield f"{held.files} files in {place}, {bytes_text(held.size)}: `speed journal reseal` seals them anew"


def _letters(root: str, name: str, retired: Collection[bytes]) -> int:
    path = names.dead_letters_dir(root, name)
    letters = (names.child_path(path, one) for one in _listed(path) if names.parse_letter(one))
    return sum(_begins(letter, _HEAD_BYTES)[_KEY_ID] in retired for letter in letters)


def _is_store_under(root: str, name: str, retired: Collection[bytes]) -> bool:
    """Whether the store of segments is under such a key and holds something; its node may have it open."""
    path = names.child_path(names.segments_dir(root, name), names.SEGMENT_INDEX)
    if not os.path.isfile(path):
        return False
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as store:
            key = store.execute("SELECT value FROM setting WHERE name='key'").fetchone()
            return bool(key) and bytes(key[0]) in retired and bool(store.execute("SELECT 1 FROM payload").fetchone())
    except sqlite3.Error:
        return False  # its node looks after that


def _is_unread_under(registry: Registry, name: str, sender: str, retired: Collection[bytes]) -> bool:
    """Whether the first envelope that is not read yet was sealed with such a key."""
    keys = registry.keyring.lane_keys(names.node_id(sender), names.node_id(name))
    try:
        lane = LaneFiles(names.lane_dir(registry.root, name, sender), keys)
    except OSError:
        return False
    with contextlib.closing(lane), contextlib.suppress(OSError, WireError):
        listing = lane.list()
        cursor = next((found for found in map(lane.read_cursor, listing.cursors) if found), None)
        start = (cursor.sender_generation, cursor.file, cursor.offset) if cursor else (0, 0, 0)
        if cursor is not None and cursor.unfinished:
            start = min(start, *((one.generation, one.file, one.offset) for one in cursor.unfinished))
        for place in (one for one in listing.files if one >= start[:2]):
            head = _envelope_at(lane, place, start[2] if place == start[:2] else 0)
            if len(head) == AAD_BYTES:
                return _shared_key_id(lane, place[0], parse_header(head).key_id) in retired
    return False


def _shared_key_id(lane: LaneFiles, generation: int, key_id: bytes) -> bytes:
    """Of the key that an envelope needs; a bound link names its own, and its opening the shared one (I-4)."""
    from speed.wire.identities import shared_key_id_of

    try:
        return shared_key_id_of(lane.read_opening(generation, key_id))
    except FileNotFoundError:
        return key_id


def _envelope_at(lane: LaneFiles, place: tuple[int, int], offset: int) -> bytes:
    fd = lane.open_file(*place)
    try:
        return os.pread(fd, AAD_BYTES, offset)
    finally:
        os.close(fd)


def _begins(path: str, size: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return file.read(size) or b""
    except OSError:
        return b""


def _listed(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
