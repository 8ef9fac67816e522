"""The state files of one topic (D-2), and room on their file systems (D-27)."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from speed.errors import StorageError, WireError
from speed.fs.open import names_in, open_directory, owners_of, read_small, replace_file, sync_directory, unlink_quietly
from speed.journal.files import MAX_FILES
from speed.wire.limits import TOPIC_HEADROOM_BYTES, TOPIC_RESERVE_BYTES
from speed.wire.names import child_path
from speed.wire.seal import Keyring
from speed.wire.topic import COMPACTED, MAX_STATE_BYTES, PRODUCERS, SETTINGS, is_cursor, open_state, seal_state

# Room on the file systems of topics: what is published can still be consumed when they are full (D-27).

RESERVE = "reserve"
SHARE = 8
"""Of a small file system no more than one part in so many is kept free."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class Room(NamedTuple):
    """What is free on a file system, and what publishing leaves there."""

    free: int
    headroom: int

    def check(self, place: str, size: int) -> None:
        """Raises StorageError where ``size`` bytes more would not leave enough."""
        if self.free - size < self.headroom:
            raise StorageError(
                f"{place}: {self.free} bytes are free, and {self.headroom} are left for consumers: make room, consume, "
                "or shorten retention"
            )

    @property
    def answer_bytes(self) -> int:
        """How large an answer may be that has to be written there."""
        return self.free // 2


def room_at(path: str) -> Room:
    """As it is now; all there is where that cannot be found out."""
    if not hasattr(os, "statvfs"):
        return Room(1 << 62, 0)
    try:
        status = os.statvfs(path)
    except OSError:
        return Room(1 << 62, 0)
    total = status.f_blocks * status.f_frsize
    return Room(status.f_bavail * status.f_frsize, min(TOPIC_HEADROOM_BYTES, total // SHARE))


class Reserve:
    """A file whose blocks are given up when a cursor could not be written otherwise. Not thread-safe."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._is_held = False

    def refill(self) -> None:
        """Take the blocks, if there are enough."""
        if self._is_held or room_at(self._directory).free < 2 * TOPIC_RESERVE_BYTES:
            return
        with suppress(OSError):
            self._write()
            self._is_held = True

    def _write(self) -> None:
        """By writing: not every file system knows how to reserve."""
        directory = open_directory(self._directory)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(RESERVE, flags, 0o600, dir_fd=directory)
        finally:
            os.close(directory)
        try:
            if os.fstat(fd).st_size < TOPIC_RESERVE_BYTES:
                os.write(fd, bytes(TOPIC_RESERVE_BYTES))
        finally:
            os.close(fd)

    def release(self) -> bool:
        """Give the blocks up; whether there were any."""
        if not self._is_held:
            return False
        self._is_held = False
        with suppress(OSError):
            os.truncate(os.path.join(self._directory, RESERVE), 0)
        return True


class TopicState:
    """What lies in a topic's lane beside its records. Not thread-safe."""

    def __init__(
        self, directory: str, lane_id: str, keyring: Keyring, *, durable: bool, reserve: Reserve | None = None
    ) -> None:
        """``reserve`` is given up where nothing can be written otherwise."""
        self._path = child_path(directory, lane_id)
        self._lane = bytes.fromhex(lane_id)
        self._keyring = keyring
        self._durable, self._reserve = durable, reserve
        self._fd = open_directory(self._path)

    def put(self, name: str, value: Mapping[str, Any]) -> None:
        """Have a file say ``value``, as durable as asked. Raises StorageError; then what was there is there."""
        data = seal_state(value, self._lane, name, self._keyring)
        try:
            self._replace(name, data)
        except OSError as error:
            raise StorageError(f"the state of a topic cannot be written: {error.strerror}; make room") from error

    def _replace(self, name: str, data: bytes) -> None:
        try:
            os.close(replace_file(name, data, self._fd, private=True, durable=self._durable))
        except OSError as error:
            if error.errno not in FULL or self._reserve is None or not self._reserve.release():
                raise
            os.close(replace_file(name, data, self._fd, private=True, durable=self._durable))

    def get(self, name: str) -> dict[str, Any] | None:
        """What a file says; None if it is not there. Raises WireError, OSError for one that cannot be read."""
        try:
            data = read_small(name, self._fd, owners_of(self._fd), MAX_STATE_BYTES + 1)
        except FileNotFoundError:
            return None
        return open_state(data, self._lane, name, self._keyring)

    def cursors(self) -> dict[str, dict[str, Any] | str]:
        """By the names of their files: what cursors say, or why one cannot be read."""
        found: dict[str, dict[str, Any] | str] = {}
        for entry in names_in(self._fd, MAX_FILES):
            if is_cursor(entry.name):
                try:
                    value = self.get(entry.name)
                except (OSError, WireError) as error:
                    found[entry.name] = str(error)
                else:
                    found.update({} if value is None else {entry.name: value})
        return found

    def remove(self, name: str) -> None:
        """Remove one file. Raises StorageError if it stays."""
        if not unlink_quietly(name, self._fd) and name in os.listdir(self._fd):
            raise StorageError(f"the state of a topic cannot be removed: {self._path}/{name}")
        if self._durable:
            sync_directory(self._path)

    def remove_all(self) -> None:
        """Remove every file of these."""
        for name in (SETTINGS, PRODUCERS, COMPACTED, *self.cursors()):
            unlink_quietly(name, self._fd)
        self.close()

    def close(self) -> None:
        """Release the directory."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
