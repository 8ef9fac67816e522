"""The sender's end of a lane: appended segments, flow control, fences (L-2 to L-7, L-18)."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from speed.errors import StorageError, WireError
from speed.wire import names
from speed.wire.cursor import FENCE_BYTES, MAX_CURSOR_BYTES, Cursor, Fence, decode_cursor, encode_fence
from speed.wire.limits import LANE_WINDOW_BYTES, SEGMENT_BYTES
from speed.wire.seal import Keyring

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
FIXES = {
    errno.ENOSPC: "the filesystem is full: free space, or let the receiver catch up",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the process's file size limit is reached (ulimit -f)",
    errno.EMFILE: "this process has too many open files (ulimit -n)",
    errno.EACCES: "the receiver's inbox belongs to another user without a common group",
}


def storage_error(error: OSError, doing: str) -> StorageError:
    """A StorageError that says what failed and, where known, what to do."""
    fix = FIXES.get(error.errno or 0, "see `speed doctor`")
    return StorageError(f"{doing}: {error.strerror} ({errno.errorcode.get(error.errno or 0, '?')}); {fix}")


class LaneWriter:
    """Appends whole envelopes of one link. Not thread-safe: the link's lock guards it.

    With ``mode="rename"`` each append becomes a segment of its own, complete when it appears.
    With ``durable`` every byte is flushed before its segment is left; ``sync`` flushes the present one.
    """

    def __init__(
        self,
        root: str,
        source: str,
        target: str,
        generation: int,
        lane_keys: Sequence[bytes],
        *,
        window_bytes: int = LANE_WINDOW_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        mode: str = "append",
        durable: bool = False,
    ) -> None:
        self._inbox = names.inbox_dir(root, target)
        self._dir = names.lane_dir(root, target, source)
        self._target = target
        self._generation = generation
        self._lane_keys = lane_keys
        self._window_bytes = window_bytes
        self._segment_bytes = segment_bytes
        self._rename = mode == "rename"
        self._durable = durable
        self._fd = -1
        self._segment = 0
        self._size = 0
        self._starts: dict[int, int] = {}
        self._written = 0
        self._committed = 0
        self._opened = False
        self._created = False

    def append(self, data: bytes) -> None:
        """Write whole envelopes; StorageError if not all could be written, and then none count.

        A torn rest is never cut off (the reader may have seen it): the segment is given up instead.
        """
        try:
            if self._rename:
                self._publish(data)
                return
            if self._fd < 0:
                self._next_segment()
            self._write_all(data)
        except OSError as error:
            raise storage_error(error, f"cannot write into the inbox of {self._target!r}") from None
        if self._size >= self._segment_bytes:
            self._leave_segment()

    def _write_all(self, data: bytes) -> None:
        done = 0
        try:
            done = os.write(self._fd, data)
            while done < len(data):
                done += os.write(self._fd, data[done:])
        except OSError:
            if done:
                self._size += done
                self._written += done
                self._leave_segment()
            raise
        self._size += done
        self._written += done

    def _open_lane(self) -> None:
        """Make the lane directory, find what earlier generations left in it."""
        try:
            os.mkdir(self._dir, 0o700)
            self._created = True
        except FileExistsError:
            pass
        for filename in os.listdir(self._dir):
            found = names.parse_segment(filename)
            if found is None:
                continue
            if found[0] == self._generation:
                self._segment = max(self._segment, found[1])
            if not self._starts:
                self._written += os.stat(names.child_path(self._dir, filename)).st_size
        self._opened = True

    def _next_segment(self) -> None:
        if not self._opened or not os.path.isdir(self._dir):
            self._open_lane()
        path = names.child_path(self._dir, names.segment_name(self._generation, self._segment + 1))
        self._fd = os.open(path, _CREATE, 0o600)
        self._begin_segment()

    def _begin_segment(self) -> None:
        self._segment += 1
        self._starts[self._segment] = self._written
        self._size = 0
        self._created = True

    def _publish(self, data: bytes) -> None:
        """Rename mode: one complete segment, visible as a whole (L-23)."""
        if not self._opened or not os.path.isdir(self._dir):
            self._open_lane()
        name = names.segment_name(self._generation, self._segment + 1)
        temporary = names.child_path(self._dir, names.temporary_name(name))
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            done = 0
            while done < len(data):
                done += os.write(fd, data[done:])
            if self._durable:
                os.fsync(fd)
        except OSError:
            os.unlink(temporary)
            raise
        finally:
            os.close(fd)
        os.rename(temporary, names.child_path(self._dir, name))
        self._begin_segment()
        self._written += len(data)

    def room(self, data_bytes: int) -> bool:
        """Whether ``data_bytes`` more fit into the window; an empty lane takes anything (L-6)."""
        waiting = self._written - self._committed
        if not waiting or waiting + data_bytes <= self._window_bytes:
            return True
        self._committed = max(self._committed, self._read_committed())
        waiting = self._written - self._committed
        return not waiting or waiting + data_bytes <= self._window_bytes

    def _read_committed(self) -> int:
        cursor = self._newest_cursor()
        if cursor is None or cursor.sender_generation != self._generation:
            return 0
        start = self._starts.get(cursor.segment)
        return 0 if start is None else start + cursor.offset

    def _newest_cursor(self) -> Cursor | None:
        try:
            generations = [names.parse_cursor(filename) or 0 for filename in os.listdir(self._dir)]
            path = names.child_path(self._dir, names.cursor_name(max(generations)))
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            return decode_cursor(os.read(fd, MAX_CURSOR_BYTES), self._lane_keys)
        except WireError:
            return None  # torn by a commit under way: the next look sees it whole
        finally:
            os.close(fd)

    def sync(self) -> None:
        """Flush what was written; with it the directories, when something was made in them."""
        try:
            if self._fd >= 0:
                os.fdatasync(self._fd)
            if self._created:
                self._created = False
                sync_directory(self._dir)
                sync_directory(self._inbox)
        except OSError as error:
            raise storage_error(error, f"cannot flush the lane to {self._target!r}") from None

    def _leave_segment(self) -> None:
        if self._durable and self._fd >= 0:
            os.fdatasync(self._fd)
        self.close()

    def close(self) -> None:
        """Release the segment; the next append begins a new one."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def sync_directory(path: str) -> None:
    """Make creations and renames in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def fence_lanes(root: str, source: str, generation: int, keyring: Keyring) -> int:
    """End all lanes that older generations of ``source`` left anywhere (L-18); returns how many.

    A paused and replaced owner may resume and append to segments it still holds open; receivers accept
    nothing that lies beyond the fence. Called by the new owner before its entry appears.
    """
    fenced = 0
    for target in os.listdir(root):
        if not names.is_node_name(target):
            continue
        lane = names.lane_dir(root, target, source)
        try:
            old = [found for found in map(names.parse_segment, os.listdir(lane)) if found]
        except OSError:
            continue
        last = max((found for found in old if found[0] < generation), default=None)
        if last is not None:
            lane_key = keyring.lane_key(names.node_id(source), names.node_id(target))
            _write_fence(lane, generation, last, lane_key)
            fenced += 1
    return fenced


def _write_fence(lane: str, generation: int, last: tuple[int, int], lane_key: bytes) -> None:
    segment = names.child_path(lane, names.segment_name(*last))
    try:
        size = os.stat(segment, follow_symlinks=False).st_size
    except FileNotFoundError:
        return  # read to its end and removed meanwhile
    data = encode_fence(Fence(generation, last[0], last[1], size), lane_key)
    assert len(data) == FENCE_BYTES
    path = names.child_path(lane, names.fence_name(generation))
    temporary = names.child_path(lane, names.temporary_name(names.fence_name(generation)))
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
    os.rename(temporary, path)
