"""The state files of one topic: its settings, its producers, its cursors, how far it is compacted (D-2)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from speed.errors import StorageError, WireError
from speed.fs.open import (
    names_in,
    open_directory,
    owners_of,
    read_small,
    replace_file,
    sync_directory,
    unlink_quietly,
)
from speed.journal.journal_lane import MAX_FILES
from speed.topics.space import FULL, Reserve
from speed.wire.names import child_path
from speed.wire.seal import Keyring
from speed.wire.topic import COMPACTED, MAX_STATE_BYTES, PRODUCERS, SETTINGS, is_cursor, open_state, seal_state


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
