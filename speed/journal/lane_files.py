"""One lane's directory in a journal: its description and its segments, opened as L-10 says (J-1)."""

from __future__ import annotations

import os
import stat

from speed.errors import WireError
from speed.fs.open import names_in, open_directory, open_regular, owners_of, read_small
from speed.wire import names
from speed.wire.journal import MAX_DESCRIPTION_BYTES, Subject, open_description
from speed.wire.seal import Keyring

MAX_FILES = 1 << 20
"""Entries of one directory that are looked at."""


class LaneFiles:
    """A lane directory, held open; close it when done."""

    def __init__(self, directory: str, lane_id: str) -> None:
        """OSError if there is no such directory, or a link in its place."""
        self.id = lane_id
        self.raw_id = bytes.fromhex(lane_id)
        self.fd = open_directory(names.child_path(directory, lane_id))
        self._owners = owners_of(self.fd)

    def subject(self, keyring: Keyring) -> Subject:
        """What the lane records; OSError or WireError if that cannot be read."""
        data = read_small(names.JOURNAL_DESCRIPTION, self.fd, self._owners, MAX_DESCRIPTION_BYTES + 1)
        return open_description(data, self.raw_id, keyring)

    def segments(self) -> list[int]:
        """First offsets of the segments, in order; what is no regular file is left out."""
        found = []
        for entry in names_in(self.fd, MAX_FILES):
            first = names.parse_journal_segment(entry.name)
            if first is not None and entry.is_file(follow_symlinks=False):
                found.append(first)
        return sorted(found)

    def size(self, first: int) -> int:
        """Bytes of a segment, 0 if there is none."""
        try:
            status = os.stat(names.journal_segment_name(first), dir_fd=self.fd, follow_symlinks=False)
        except OSError:
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else 0

    def open(self, first: int) -> int:
        """A descriptor for reading one segment; OSError for anything that is no file of ours."""
        return open_regular(names.journal_segment_name(first), self.fd, self._owners)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> LaneFiles:
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


def try_subject(directory: str, lane_id: str, keyring: Keyring) -> Subject | None:
    """What a lane records; None for a directory that is not, or not yet, a lane of this key."""
    try:
        with LaneFiles(directory, lane_id) as files:
            return files.subject(keyring)
    except (OSError, WireError):
        return None
