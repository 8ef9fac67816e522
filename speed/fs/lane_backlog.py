"""What waits in a lane, as anybody with the key sees it from its files, also while the receiver hangs (L-32)."""

from __future__ import annotations

import bisect
import contextlib
import os
import stat
import time
from collections.abc import Mapping
from typing import NamedTuple

from speed.errors import WireError
from speed.fs.committed import MAX_LANE_FILES, read_cursor
from speed.fs.identity import is_settled
from speed.fs.open import names_in, open_beneath, open_regular, owners_of
from speed.wire import names
from speed.wire.cursor import Cursor
from speed.wire.envelope import ENVELOPE_OVERHEAD, EnvelopeType, Header, generation_of, parse_header
from speed.wire.limits import AAD_BYTES
from speed.wire.seal import Keyring

_LATE_TYPES = frozenset(EnvelopeType) - {EnvelopeType.MESSAGE, EnvelopeType.EVENT, EnvelopeType.SPC_REQUEST}
_LATE_SECONDS = 2.0
_HEAD_BYTES = 4096
_TAIL_BYTES = (65_536, 1 << 20)
"""How far behind is looked for a lane's last envelope; behind a larger one its number is not known."""
_IDS_OFFSET = 32
_CANDIDATES = 16
_GENERATIONS = 8
"""Bounds of the work that a hostile lane can cause: what lies beyond is not counted."""
LaneFile = tuple[int, int]


class Waiting(NamedTuple):
    """Envelopes that a receiver has not finished, their bytes, and when the oldest was sealed (Unix ms)."""

    envelopes: int
    size: int
    oldest_ms: int


class WaitingInLane:
    """Looks at one lane again and again; not thread-safe. It reads only, and keeps nothing open between two looks."""

    __slots__ = ("_cursors", "_end", "_files", "_ids", "_keys", "_last", "_node_path", "_path", "_sender", "_stamp")

    def __init__(self, root: str, node: str, sender: str, keyring: Keyring) -> None:
        self._node_path, self._sender = names.node_dir(root, node), sender
        self._path = names.lane_dir(root, node, sender)
        source, target = names.node_id(sender), names.node_id(node)
        self._ids, self._keys = source + target, keyring.lane_keys(source, target)
        self._stamp: tuple[int, ...] = ()
        """The directory as it was listed, unless more may have come at that very time."""
        self._files: list[LaneFile] = []
        self._cursors: list[int] = []
        self._last, self._end = "", -1
        """The last file, and how long it was when nothing waited; -1 while something does."""

    def look(self) -> Waiting | None:
        """What waits now, None for nothing. OSError if the lane cannot be read, or is none."""
        if self._end >= 0 and self._is_as_it_was():
            return None
        directory = open_beneath(self._node_path, "inbox", self._sender)
        try:
            self._list(directory)
            cursor = self._newest_cursor(directory)
            sizes = self._sizes(directory, (cursor.sender_generation, cursor.file) if cursor else (0, 0))
            found, is_late = _Unread(directory, self._ids, sizes).beyond(cursor)
            is_settled_now = bool(self._stamp) and not found and not is_late
            self._end = (sizes[max(sizes)] if sizes else 0) if is_settled_now else -1
            return found
        finally:
            os.close(directory)

    def _is_as_it_was(self) -> bool:
        """Whether no file came or went, and the last one did not grow."""
        try:
            if stamp_of(os.stat(self._path, follow_symlinks=False)) != self._stamp:
                return False
            return not self._last or os.stat(self._last, follow_symlinks=False).st_size == self._end
        except OSError:
            return False

    def _list(self, directory: int) -> None:
        status = os.fstat(directory)
        if self._stamp and self._stamp == stamp_of(status):
            return
        self._stamp = stamp_of(status) if is_settled(status.st_mtime_ns) else ()
        listed = [entry.name for entry in names_in(directory, MAX_LANE_FILES)]
        self._files = sorted(filter(None, map(names.parse_lane_file, listed)))
        self._cursors = sorted(filter(None, map(names.parse_cursor, listed)), reverse=True)
        last = names.lane_file_name(*self._files[-1]) if self._files else ""
        self._last = last and names.child_path(self._path, last)

    def _newest_cursor(self, directory: int) -> Cursor | None:
        owners = owners_of(directory)
        found = (read_cursor(directory, names.cursor_name(one), self._keys, owners) for one in self._cursors)
        return next(filter(None, found), None)

    def _sizes(self, directory: int, start: LaneFile) -> dict[LaneFile, int]:
        """Of the files from a position on; links and the like are left out."""
        sizes = {}
        for file in self._files[bisect.bisect_left(self._files, start) :]:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(names.lane_file_name(*file), dir_fd=directory, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    sizes[file] = status.st_size
        return sizes


class _Unread:
    """Finds envelopes in the files of a lane directory. ``sizes`` are those from the position on."""

    def __init__(self, directory: int, ids: bytes, sizes: Mapping[LaneFile, int]) -> None:
        self._directory, self._ids, self._sizes = directory, ids, sizes
        self._owners = owners_of(directory)

    def beyond(self, cursor: Cursor | None) -> tuple[Waiting | None, bool]:
        """What waits; and whether there is something that was mostly read, though that is not committed."""
        listed = [] if cursor is None else [one for one in cursor.unfinished if not one.begun]
        heads = [head for one in listed if (head := self._at((one.generation, one.file), one.offset))]
        count, size = len(listed), sum(ENVELOPE_OVERHEAD + head.payload_bytes for head in heads)
        behind = self._behind(cursor)
        is_late = behind is not None and _was_read(behind[0])
        if behind is not None and not is_late:
            head, envelopes, left = behind
            heads, count, size = [*heads, head], count + envelopes, size + left
        if not heads:
            return None, is_late
        return Waiting(count, size, min(head.timestamp_ms for head in heads)), is_late

    def _behind(self, cursor: Cursor | None) -> tuple[Header, int, int] | None:
        """The first whole envelope behind the position, how many there are, and bytes; None without one."""
        position = (0, 0) if cursor is None else (cursor.sender_generation, cursor.file)
        begins = {position: 0 if cursor is None else cursor.offset}
        left = {file: size for file, size in sorted(self._sizes.items()) if size > begins.get(file, 0)}
        by_generation: dict[int, list[LaneFile]] = {}
        for file in left:
            by_generation.setdefault(file[0], []).append(file)
        oldest, count = None, 0
        for files in list(by_generation.values())[:_GENERATIONS]:
            first = self._first(files[0], begins.get(files[0], 0))
            last = first and (self._last(files[-1], begins.get(files[-1], 0)) or self._first(files[-1], 0))
            if first is not None:
                oldest = oldest or first
                count += max(1, (last or first).sequence - first.sequence + 1)
        size = sum(left.values()) - sum(begin for file, begin in begins.items() if file in left)
        return None if oldest is None else (oldest, min(count, size // ENVELOPE_OVERHEAD), size)

    def _at(self, file: LaneFile, offset: int) -> Header | None:
        """The header of a listed envelope."""
        head = self._read(file, offset, AAD_BYTES)
        with contextlib.suppress(WireError):
            header = parse_header(head)
            return header if header.source + header.target == self._ids else None
        return None

    def _first(self, file: LaneFile, begin: int) -> Header | None:
        """The first whole envelope from ``begin`` on."""
        data, at = self._read(file, begin, _HEAD_BYTES), -1
        for _ in range(_CANDIDATES):
            at = data.find(self._ids, at + 1)
            if at < 0:
                break
            if found := self._whole(data, at, begin, file):
                return found
        return None

    def _last(self, file: LaneFile, begin: int) -> Header | None:
        """The last whole envelope that begins near the end."""
        for most in _TAIL_BYTES:
            base = max(begin, self._sizes[file] - most)
            data = self._read(file, base, self._sizes[file] - base)
            at = len(data)
            for _ in range(_CANDIDATES):
                at = data.rfind(self._ids, 0, at)
                if at < 0:
                    break
                if found := self._whole(data, at, base, file):
                    return found
                at += len(self._ids) - 1
            if base == begin:
                break
        return None

    def _whole(self, data: bytes, at: int, base: int, file: LaneFile) -> Header | None:
        """The envelope whose ids stand at a place, if it is one of the file's generation, and ends in the file."""
        at -= _IDS_OFFSET
        if at < 0:
            return None
        try:
            header = parse_header(data, at)
        except WireError:
            return None
        end = base + at + ENVELOPE_OVERHEAD + header.payload_bytes
        return header if generation_of(header.sequence) == file[0] and end <= self._sizes[file] else None

    def _read(self, file: LaneFile, offset: int, size: int) -> bytes:
        """Nothing where the file is gone, or is none of a lane."""
        try:
            fd = open_regular(names.lane_file_name(*file), self._directory, self._owners)
        except OSError:
            return b""
        try:
            return os.pread(fd, size, offset)
        finally:
            os.close(fd)


def _was_read(head: Header) -> bool:
    return head.type in _LATE_TYPES and time.time() * 1000 - head.timestamp_ms < _LATE_SECONDS * 1000


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mtime_ns
