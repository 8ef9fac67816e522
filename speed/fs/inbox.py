"""The inbox of a node: one lane directory per sender, everything else put aside (L-1, L-20, L-21)."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from speed.errors import SpeedError
from speed.fs.dead_letters import Quarantine
from speed.fs.identity import is_settled
from speed.fs.lane_reader import LaneReader
from speed.fs.open import ensure_directory, names_in, open_directory
from speed.fs.registration import hold
from speed.wire import names
from speed.wire.identities import NodeIdentity
from speed.wire.limits import MAX_JUNK_A_SCAN, MAX_LANES
from speed.wire.seal import Keyring

if TYPE_CHECKING:
    from speed.fs.registry import Registry

_MAX_ENTRIES = 2 * MAX_LANES


class Inbox:
    """The directories of the node ``name``; used by the thread that holds the protocol role.

    ``junk`` counts foreign things that were put aside.
    """

    def __init__(
        self,
        root: str,
        name: str,
        generation: int,
        keyring: Keyring,
        *,
        ephemeral: bool = False,
        is_remote: bool = False,
        late_seconds: float = 0.0,
        identity: Callable[[], NodeIdentity] | None = None,
    ) -> None:
        """``late_seconds``: how old a listing may be that the filesystem gives (R-21); ``identity``: that of now."""
        self._is_remote = is_remote
        self._late_seconds = late_seconds
        self._root = root
        self._name = name
        self._generation = generation
        self._keyring = keyring
        self._ephemeral = ephemeral
        self._identity = identity
        self._path = names.inbox_dir(root, name)
        self._listed_at = -1
        self._change = (-1, 0.0)
        """The change that was seen last, and since when, in monotonic seconds."""
        self._senders: set[str] = set()
        """What was listed last."""
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

    def scan(self, first: Callable[[str], bool] = lambda _: False) -> set[str] | None:
        """Names of the senders with a lane here, at most ``max_lanes``; None if none came or went since the last scan.

        If there are more, these are the ones that are ``first``, and then those that changed last: such a listing is
        made again each time. Foreign things are moved to quarantine, a few a scan.
        """
        directory = open_directory(self._path)
        try:
            changed_at = os.fstat(directory).st_mtime_ns
            if changed_at == self._listed_at:
                return None
            senders, junk = _sorted_out(directory, self._senders)
            for filename in junk[:MAX_JUNK_A_SCAN]:
                self.junk += 1
                self.quarantine_store.take(directory, filename, "NO_LANE")
            is_whole = len(junk) <= MAX_JUNK_A_SCAN and len(senders) <= MAX_LANES
            self._listed_at = changed_at if is_whole and self._shows(changed_at) else -1
            self._senders = senders
            return _cut(senders, first, directory)
        finally:
            os.close(directory)

    def _shows(self, changed_at: int) -> bool:
        """Whether a listing that was just made shows what changed then; a network filesystem may give an older one."""
        now = monotonic()
        if changed_at != self._change[0]:
            self._change = (changed_at, now)
        return is_settled(changed_at) and now - self._change[1] >= self._late_seconds

    def changed_at(self, sender: str) -> int:
        """When a lane last gained or lost a file, in ns; -1 if so recent that the next change may not show."""
        try:
            modified = os.stat(names.lane_dir(self._root, self._name, sender), follow_symlinks=False).st_mtime_ns
        except OSError:
            return -1
        return modified if is_settled(modified) else -1

    def remove_lane(self, sender: str, changed_at: int, registry: Registry) -> bool:
        """Remove the lane of a sender that will not come back, unless files came to it or went since ``changed_at``.

        Its reader read it to the end after the sender was gone. Nobody starts under the sender's name meanwhile (L-27).
        """
        try:
            with hold(registry, sender) as held:
                if not held.claimant.ephemeral or changed_at < 0 or self.changed_at(sender) != changed_at:
                    return False
                path = names.lane_dir(self._root, self._name, sender)
                for filename in sorted(os.listdir(path), key=_is_cursor):
                    os.unlink(names.child_path(path, filename))
                os.rmdir(path)
                return True
        except (OSError, SpeedError):
            return False  # it is tried again in its next turn

    def lane(self, sender: str, is_live: Callable[[int], bool] = lambda _: False) -> LaneReader:
        """Open the lane of ``sender`` for reading; OSError if it is gone, LeaseLostError if replaced.

        ``is_live(generation)`` says whether the sender still lives in a generation.
        """
        return LaneReader(
            self._root,
            sender,
            self._name,
            self._generation,
            self._keyring,
            self.quarantine_store,
            ephemeral=self._ephemeral,
            is_remote=self._is_remote,
            is_live=is_live,
            identity=self._identity,
        )

    def close(self) -> None:
        """Let go of the quarantine, if it was needed."""
        if self._quarantine is not None:
            self._quarantine.close()


def _is_cursor(filename: str) -> bool:
    """The cursor is removed last: without it, what else lies there would be dispatched again."""
    return names.parse_cursor(filename) is not None


def _sorted_out(directory: int, known: set[str]) -> tuple[set[str], list[str]]:
    """Lane names and foreign names of an inbox directory; ``known`` names are not parsed again."""
    senders: set[str] = set()
    junk: list[str] = []
    for entry in names_in(directory, _MAX_ENTRIES):
        if (entry.name in known or names.is_node_name(entry.name)) and entry.is_dir(follow_symlinks=False):
            senders.add(entry.name)
        elif not entry.name.startswith(names.TEMPORARY_PREFIX):
            junk.append(entry.name)
    return senders, junk


def _cut(senders: set[str], first: Callable[[str], bool], directory: int) -> set[str]:
    """At most so many: those in ``first``, then those whose lane changed last."""
    if len(senders) <= MAX_LANES:
        return senders
    return set(heapq.nlargest(MAX_LANES, senders, key=lambda name: (first(name), _changed_at(name, directory))))


def _changed_at(name: str, directory: int) -> int:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime_ns
    except OSError:  # it is just being removed
        return -1
