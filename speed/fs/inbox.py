"""The inbox of a node: one lane directory per sender, everything else put aside (L-1, L-20, L-21)."""

from __future__ import annotations

import os

from speed.fs.lane_files import is_settled
from speed.fs.lane_reader import LaneReader
from speed.fs.open import ensure_directory, names_in, open_directory
from speed.fs.quarantine import Quarantine
from speed.wire import names
from speed.wire.limits import MAX_LANES
from speed.wire.seal import Keyring

_MAX_ENTRIES = 2 * MAX_LANES
_MAX_JUNK_PER_SCAN = 256


class Inbox:
    """The directories of the node ``name``; used by the thread that holds the protocol role.

    ``junk`` counts foreign things that were put aside.
    """

    def __init__(self, root: str, name: str, generation: int, keyring: Keyring) -> None:
        self._root = root
        self._name = name
        self._generation = generation
        self._keyring = keyring
        self._path = names.inbox_dir(root, name)
        self._listed_at = -1
        self._quarantine: Quarantine | None = None
        self.junk = 0

    def prepare(self) -> None:
        """Make the node's directories; RootError if something else is in their place."""
        ensure_directory(names.node_dir(self._root, self._name))
        ensure_directory(self._path)
        ensure_directory(names.quarantine_dir(self._root, self._name))

    @property
    def quarantine_store(self) -> Quarantine:
        """Where refused things of this node go; opened at first use, after ``prepare``."""
        if self._quarantine is None:
            self._quarantine = Quarantine(self._root, self._name)
        return self._quarantine

    def scan(self) -> set[str] | None:
        """Names of the senders with a lane here, at most ``max_lanes``; None if none came or went since the last scan.

        Foreign things are moved to quarantine, a few a scan.
        """
        directory = open_directory(self._path)
        try:
            changed_at = os.fstat(directory).st_mtime_ns
            if changed_at == self._listed_at:
                return None
            senders, junk = _sorted_out(directory)
            for filename in junk[:_MAX_JUNK_PER_SCAN]:
                self.junk += 1
                self.quarantine_store.take(directory, filename, "NO_LANE")
            self._listed_at = changed_at if is_settled(changed_at) and len(junk) <= _MAX_JUNK_PER_SCAN else -1
        finally:
            os.close(directory)
        return senders

    def changed_at(self, sender: str) -> int:
        """When files last came to a lane or went, in ns; -1 if that is so recent that the next change may not show."""
        try:
            modified = os.stat(names.lane_dir(self._root, self._name, sender), follow_symlinks=False).st_mtime_ns
        except FileNotFoundError:
            return -1
        return modified if is_settled(modified) else -1

    def lane(self, sender: str) -> LaneReader:
        """Open the lane of ``sender`` for reading; OSError if it is gone, LeaseLostError if replaced."""
        return LaneReader(
            self._root,
            sender,
            self._name,
            self._generation,
            self._keyring,
            self.quarantine_store,
        )

    def close(self) -> None:
        """Let go of the quarantine, if it was needed."""
        if self._quarantine is not None:
            self._quarantine.close()


def _sorted_out(directory: int) -> tuple[set[str], list[str]]:
    """Lane names and foreign names of an inbox directory."""
    senders: set[str] = set()
    junk: list[str] = []
    for entry in names_in(directory, _MAX_ENTRIES):
        if names.is_node_name(entry.name) and entry.is_dir(follow_symlinks=False):
            senders.add(entry.name)
        elif not entry.name.startswith(names.TEMPORARY_PREFIX):
            junk.append(entry.name)
    return senders, junk
