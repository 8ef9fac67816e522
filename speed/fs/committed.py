"""The small files beside a lane: what a sender reads of its receiver (L-6, S-21), fences (L-18), deliveries (L-25)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence

from speed.core import counters
from speed.core.calls import NOTHING_BEGAN, Decider, decider
from speed.errors import WireError
from speed.fs.open import (
    Owners,
    UntrustedFileError,
    names_in,
    open_directory,
    owners_of,
    read_small,
    replace_file,
    unlink_quietly,
)
from speed.wire import names
from speed.wire.cursor import (
    MAX_CURSOR_BYTES,
    MAX_DELIVERIES_BYTES,
    Cursor,
    Fence,
    decode_cursor,
    decode_deliveries,
    encode_deliveries,
    encode_fence,
)
from speed.wire.limits import MAX_DELIVERIES_LISTED
from speed.wire.names import cursor_name, deliveries_name, parse_cursor, parse_lane_file
from speed.wire.seal import Keyring

MAX_LANE_FILES = 65536
"""How many names of a lane directory are looked at; honest senders stay below this (L-6)."""


class Outstanding:
    """Bytes written and not committed, per file, in lane order."""

    __slots__ = ("_growing", "bytes", "files")

    def __init__(self) -> None:
        self.files: dict[tuple[int, int], list[int]] = {}
        self._growing = [0, 0]
        self.bytes = 0

    def add(self, generation: int, file: int, size: int) -> None:
        """A file of ``size`` bytes is there, or begins with them; ``grow`` counts what follows in it."""
        self._growing = self.files[(generation, file)] = [size, 0]
        self.bytes += size

    def grow(self, size: int) -> None:
        """Count ``size`` more bytes of the file that was added last."""
        self._growing[0] += size
        self.bytes += size

    def commit(self, generation: int, file: int, offset: int) -> None:
        """Everything before this position is committed; an earlier position changes nothing."""
        place = (generation, file)
        for key in [key for key in self.files if key < place]:
            size, freed = self.files.pop(key)
            self.bytes -= size - freed
        record = self.files.get(place)
        if record is not None and offset > record[1]:
            freed = min(offset, record[0])
            self.bytes -= freed - record[1]
            record[1] = freed


def lane_files_in(dir_fd: int) -> list[tuple[int, int, int]]:
    """(generation, file, bytes) of the files of a lane, in order; links and the like are left out."""
    found = []
    for entry in names_in(dir_fd, MAX_LANE_FILES):
        parsed = parse_lane_file(entry.name)
        if parsed is None:
            continue
        try:
            status = os.stat(entry.name, dir_fd=dir_fd, follow_symlinks=False)
        except FileNotFoundError:
            continue  # consumed and removed meanwhile
        if stat.S_ISREG(status.st_mode):
            found.append((*parsed, status.st_size))
    return sorted(found)


def cursors_in(dir_fd: int) -> list[int]:
    """Receiver generations that left a cursor, the newest first."""
    parsed = (parse_cursor(entry.name) for entry in names_in(dir_fd, MAX_LANE_FILES))
    return sorted((generation for generation in parsed if generation is not None), reverse=True)


def read_cursor(dir_fd: int, name: str, keys: Sequence[bytes], owners: Owners) -> Cursor | None:
    """A valid cursor, or None; a torn read (the writer is just rewriting it) is tried again."""
    for _ in range(3):
        try:
            return decode_cursor(read_small(name, dir_fd, owners, MAX_CURSOR_BYTES), keys)
        except WireError:
            continue
        except OSError:
            return None
    return None


def newest_cursor(dir_fd: int, keys: Sequence[bytes]) -> Cursor | None:
    """The valid cursor of the newest receiver generation: what the receiver has committed."""
    owners = owners_of(dir_fd)
    for generation in cursors_in(dir_fd):
        cursor = read_cursor(dir_fd, cursor_name(generation), keys, owners)
        if cursor is not None:
            return cursor
    return None


# Reading, in the own lane to a node, what the node's generations had begun of it (S-21, step 2).

_LOOKS = 8
"""So often a file that was listed and is gone is looked for once more."""


def deciding_cursor(path: str, keys: Sequence[bytes], generation: int, has_ended: Callable[[], bool]) -> Cursor | None:
    """The cursor that decides of what was written to a generation of the receiver; None if nothing decides (yet).

    ``path`` is the lane. ``has_ended()`` says whether that generation's process is known to be gone, or left in order.
    """
    try:
        directory = open_directory(path)
    except OSError:  # the inbox of an ephemeral node is removed with its cursors
        return None
    try:
        for _ in range(_LOOKS):
            found = _list(directory)
            chosen = decider(*found, generation)
            cursor = _read(directory, keys, chosen, generation)
            if _list(directory) == found:  # or a start may have been kept, and the cursor gone on, in between
                return _believed(cursor, chosen, generation in found[1], has_ended)
        return None
    except OSError:
        return None
    finally:
        os.close(directory)


def _believed(
    cursor: Cursor | None, chosen: Decider | None, is_there: bool, has_ended: Callable[[], bool]
) -> Cursor | None:
    if chosen is not None:
        return cursor if cursor is not None and (cursor.sealed or has_ended()) else None
    if not has_ended():
        return None
    return cursor if is_there else NOTHING_BEGAN


def _list(directory: int) -> tuple[list[int], list[int]]:
    """The generations of starts and of cursors."""
    listed = [entry.name for entry in names_in(directory, MAX_LANE_FILES)]
    starts = sorted(one for name in listed if (one := names.parse_start(name)) is not None)
    return starts, sorted(one for name in listed if (one := names.parse_cursor(name)) is not None)


def _read(directory: int, keys: Sequence[bytes], chosen: Decider | None, generation: int) -> Cursor | None:
    """What decides; the generation's own cursor if there is nothing above it."""
    number = generation if chosen is None else chosen.generation
    name = names.start_name(number) if chosen is not None and chosen.is_start else names.cursor_name(number)
    cursor = read_cursor(directory, name, keys, owners_of(directory))
    return cursor if cursor is not None and cursor.receiver_generation == number else None


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


# How often messages that came again were begun, beside their lane's cursor (L-25).


class Deliveries:
    """Counts of the messages of one lane that are not finished. Not thread-safe: the lane's lock guards it.

    ``directory()`` is the descriptor of the lane. ``found`` are the generations that left a file, the newest first.
    ``count(what)`` hears of damaged ones.
    """

    def __init__(
        self,
        directory: Callable[[], int],
        generation: int,
        keys: Sequence[bytes],
        owners: Owners,
        found: Sequence[int],
        count: Callable[[str], None],
    ) -> None:
        self._dir, self._generation, self._keys, self._owners = directory, generation, keys, owners
        self._count = count
        self._older = [one for one in found if one < generation]
        self._is_there = generation in found
        self._counts = self._newest([one for one in found if one <= generation])

    def _newest(self, generations: Sequence[int]) -> dict[int, int]:
        for generation in generations:
            try:
                data = read_small(deliveries_name(generation), self._dir(), self._owners, MAX_DELIVERIES_BYTES + 1)
                return decode_deliveries(data, self._keys)
            except (WireError, UntrustedFileError):
                self._count(counters.DELIVERIES_DAMAGED)
            except FileNotFoundError:
                continue
        return {}

    def begin(self, sequence: int) -> int:
        """Count another start of a redelivered message; returns how often it was begun. OSError."""
        count = self._counts.get(sequence, 1) + 1
        if sequence in self._counts or len(self._counts) < MAX_DELIVERIES_LISTED:
            self._counts[sequence] = count
        self._write()
        return count

    def finished(self, sequence: int) -> None:
        """Stop counting a message that is finished. OSError."""
        if self._counts.pop(sequence, None) is not None:
            self._write()

    def rewrite(self) -> None:
        """Write the counts again under the present first key. OSError."""
        if self._counts:
            self._write()

    def _write(self) -> None:
        name = deliveries_name(self._generation)
        if self._counts:
            os.close(replace_file(name, encode_deliveries(self._counts, self._keys[0]), self._dir()))
            self._is_there = True
        elif self._is_there:
            self._is_there = not unlink_quietly(name, self._dir())
        while self._older:
            unlink_quietly(deliveries_name(self._older.pop()), self._dir())
