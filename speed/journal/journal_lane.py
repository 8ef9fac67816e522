"""A journal's files: each lane's description, end and volumes, and the removed lanes, opened as L-10 says (J-1)."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from speed.errors import WireError
from speed.fs.open import names_in, open_directory, open_for_writing, open_regular, owners_of, read_small
from speed.wire import names
from speed.wire.journal import (
    END_BYTES,
    MAX_DESCRIPTION_BYTES,
    MAX_REMOVED_BYTES,
    Description,
    open_description,
    open_end,
    open_removed,
)
from speed.wire.seal import Keyring

MAX_FILES = 1 << 20
"""Entries of one directory that are looked at."""
END_LOOKS = 20
"""So often an end is read that is not whole: it may just be written over."""


class JournalLane:
    """A lane directory, held open; close it when done."""

    def __init__(self, directory: str, lane_id: str) -> None:
        """OSError if there is no such directory, or a link in its place."""
        self.id = lane_id
        self.raw_id = bytes.fromhex(lane_id)
        self.fd = open_directory(names.child_path(directory, lane_id))
        self._owners = owners_of(self.fd)

    def description(self, keyring: Keyring) -> Description:
        """What the lane says of itself; OSError or WireError if that cannot be read."""
        data = read_small(names.JOURNAL_DESCRIPTION, self.fd, self._owners, MAX_DESCRIPTION_BYTES + 1)
        return open_description(data, self.raw_id, keyring)

    def end(self, keyring: Keyring) -> int:
        """The offset that comes next, as its writer noted it; WireError if that cannot be read."""
        for _ in range(END_LOOKS - 1):
            with suppress(WireError):
                return self._end(keyring)
        return self._end(keyring)

    def _end(self, keyring: Keyring) -> int:
        try:
            data = read_small(names.JOURNAL_END, self.fd, self._owners, END_BYTES + 1)
        except OSError as error:
            raise WireError("BAD_JOURNAL", f"its end cannot be read: {error.strerror}") from None
        return open_end(data, self.raw_id, keyring)

    def open_end(self) -> int:
        """A descriptor for writing over the end; OSError for anything that is no file of ours."""
        return open_for_writing(names.JOURNAL_END, self.fd, self._owners)

    def volumes(self) -> list[int]:
        """First offsets of the volumes, in order; what is no regular file is left out."""
        found = []
        for entry in names_in(self.fd, MAX_FILES):
            first = names.parse_volume(entry.name)
            if first is not None and entry.is_file(follow_symlinks=False):
                found.append(first)
        return sorted(found)

    def unfinished(self) -> list[str]:
        """Names of rewritten volumes that are not in place."""
        return [entry.name for entry in names_in(self.fd, MAX_FILES) if names.is_rewritten_name(entry.name)]

    def has(self, name: str) -> bool:
        """Whether anything has this name; OSError if that cannot be found out."""
        try:
            os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def size(self, first: int) -> int:
        """Bytes of a volume, 0 if there is none."""
        try:
            status = os.stat(names.volume_name(first), dir_fd=self.fd, follow_symlinks=False)
        except OSError:
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else 0

    def open(self, first: int) -> int:
        """A descriptor for reading one volume; OSError for anything that is no file of ours."""
        return open_regular(names.volume_name(first), self.fd, self._owners)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> JournalLane:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def lanes_in(directory: str, limit: int) -> list[str]:
    """Ids of the lane directories in a journal, sorted, at most ``limit``; foreign files are ignored (J-1)."""
    fd = open_directory(directory)
    try:
        found = [
            entry.name
            for entry in names_in(fd, MAX_FILES)
            if names.is_journal_lane(entry.name) and entry.is_dir(follow_symlinks=False)
        ]
    finally:
        os.close(fd)
    return sorted(found)[:limit]


def removed_lanes(directory: str, keyring: Keyring) -> dict[bytes, int]:
    """Ids of lanes that retention removed, and the offset that came next in each; none are known if that is damaged."""
    fd = open_directory(directory)
    try:
        data = read_small(names.JOURNAL_REMOVED, fd, owners_of(fd), MAX_REMOVED_BYTES + 1)
    except FileNotFoundError:
        return {}
    finally:
        os.close(fd)
    try:
        return open_removed(data, keyring)
    except WireError:
        return {}
