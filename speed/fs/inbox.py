"""The inbox of a node: one lane directory per sender, everything else put aside (L-1, L-20, L-21)."""

from __future__ import annotations

import os
import stat

from speed.errors import RootError
from speed.fs.lane_reader import LaneReader
from speed.fs.quarantine import Quarantine
from speed.wire import names
from speed.wire.limits import MAX_LANES
from speed.wire.seal import Keyring


class Inbox:
    """The directories of the node ``name``; used by the thread that holds the protocol role."""

    def __init__(self, root: str, name: str, generation: int, keyring: Keyring) -> None:
        self._root = root
        self._name = name
        self._generation = generation
        self._keyring = keyring
        self._dir = names.inbox_dir(root, name)
        self.quarantine_store = Quarantine(root, name)
        self.junk = 0

    def prepare(self) -> None:
        """Make the node's directories; RootError if something else is in their place."""
        for path in (
            names.node_dir(self._root, self._name),
            self._dir,
            names.quarantine_dir(self._root, self._name),
        ):
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:
                pass
            except OSError as error:
                raise RootError(f"cannot make {path}: {error.strerror}") from None
            status = os.lstat(path)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                raise RootError(f"{path} is no directory of this user: remove it and start again")

    def scan(self) -> list[str]:
        """Names of all senders with a lane here; foreign things are moved to quarantine, a few a scan."""
        senders: list[str] = []
        foreign: list[str] = []
        with os.scandir(self._dir) as entries:
            for entry in entries:
                if names.is_node_name(entry.name) and entry.is_dir(follow_symlinks=False):
                    senders.append(entry.name)
                else:
                    foreign.append(entry.name)
                if len(senders) >= MAX_LANES or len(foreign) >= 1000:
                    break
        for filename in foreign:
            self.junk += 1
            self.quarantine_store.move(names.child_path(self._dir, filename), "no lane of a node")
        return senders

    def quarantine(self, sender: str, reason: str) -> None:
        """Put a whole lane aside."""
        self.quarantine_store.move(names.lane_dir(self._root, self._name, sender), reason)

    def lane(self, sender: str) -> LaneReader:
        """Open the lane of ``sender`` for reading."""
        return LaneReader(self._root, sender, self._name, self._generation, self._keyring, self.quarantine_store.keep)
