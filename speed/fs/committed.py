"""What a sender may read of a lane: its files' sizes and the receiver's cursor (L-6)."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from speed.errors import WireError
from speed.fs.open import Owners, names_in, owners_of, read_small
from speed.wire.cursor import MAX_CURSOR_BYTES, Cursor, decode_cursor
from speed.wire.names import cursor_name, parse_cursor, parse_lane_file

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
