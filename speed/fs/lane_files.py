"""Safe opening and listing of the files in one lane directory (L-10): no links, no devices, no waiting."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field

from speed.errors import WireError
from speed.wire import names
from speed.wire.cursor import FENCE_BYTES, MAX_CURSOR_BYTES, Cursor, Fence, decode_cursor, decode_fence, encode_cursor

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class Listing:
    """What lies in a lane directory: segments in order, the newest fence, cursor generations, foreign names."""

    segments: list[tuple[int, int]] = field(default_factory=list)
    fence: int = 0
    cursors: list[int] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


class LaneFiles:
    """One lane directory, held open so that replacing its path changes nothing."""

    def __init__(self, path: str, lane_keys: Sequence[bytes]) -> None:
        self._fd = os.open(path, _DIRECTORY)
        self._owners = {os.geteuid(), os.fstat(self._fd).st_uid}
        self._lane_keys = lane_keys
        self._cursor_fd = -1

    def list(self) -> Listing:
        listing = Listing()
        for filename in os.listdir(self._fd):
            segment = names.parse_segment(filename)
            if segment is not None:
                listing.segments.append(segment)
            elif (generation := names.parse_cursor(filename)) is not None:
                listing.cursors.append(generation)
            elif (generation := names.parse_fence(filename)) is not None:
                listing.fence = max(listing.fence, generation)
            elif not filename.startswith(names.TEMPORARY_PREFIX):
                listing.foreign.append(filename)
        listing.segments.sort()
        listing.cursors.sort(reverse=True)
        return listing

    def open_segment(self, generation: int, segment: int) -> int:
        """A descriptor of a regular file of an expected owner; OSError for anything else."""
        return self._open_regular(names.segment_name(generation, segment))

    def _open_regular(self, filename: str) -> int:
        fd = os.open(filename, _READ, dir_fd=self._fd)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in self._owners or status.st_nlink > 1:
            os.close(fd)
            raise PermissionError(1, "no regular file of an expected owner", filename)
        return fd

    def remove(self, filename: str) -> None:
        try:
            os.unlink(filename, dir_fd=self._fd)
        except IsADirectoryError:
            try:
                os.rmdir(filename, dir_fd=self._fd)
            except OSError:
                pass
        except OSError:
            pass

    def read_fence(self, generation: int) -> Fence | None:
        """The fence of ``generation``; None if it is missing or not authentic."""
        try:
            return decode_fence(self._read_small(names.fence_name(generation), FENCE_BYTES), self._lane_keys)
        except (OSError, WireError):
            return None

    def read_cursor(self, generation: int) -> Cursor | None:
        """The cursor of a receiver's generation; None if it is missing or not authentic."""
        try:
            data = self._read_small(names.cursor_name(generation), MAX_CURSOR_BYTES)
            return decode_cursor(data, self._lane_keys)
        except (OSError, WireError):
            return None

    def _read_small(self, filename: str, limit: int) -> bytes:
        fd = self._open_regular(filename)
        try:
            return os.read(fd, limit)
        finally:
            os.close(fd)

    def create_cursor(self, cursor: Cursor) -> None:
        """Write this generation's cursor beside and move it into place; later commits overwrite it."""
        filename = names.cursor_name(cursor.receiver_generation)
        temporary = names.temporary_name(filename)
        fd = os.open(
            temporary,
            os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
            dir_fd=self._fd,
        )
        os.write(fd, encode_cursor(cursor, self._lane_keys[0]))
        os.rename(temporary, filename, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        self._cursor_fd = fd

    def write_cursor(self, cursor: Cursor) -> None:
        os.pwrite(self._cursor_fd, encode_cursor(cursor, self._lane_keys[0]), 0)

    def close(self) -> None:
        for fd in (self._cursor_fd, self._fd):
            if fd >= 0:
                os.close(fd)
        self._cursor_fd = self._fd = -1
