"""Which node of a family is asked next: the one with the fewest calls of this partition under way."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping

import speed
from speed.errors import AccessDeniedError, NodeLeftError, ServiceNotFoundError, UnknownNodeError
from speed.spark.settings import CallSettings
from speed.wire.entry import Entry
from speed.wire.names import matches

MAX_AGE_SECONDS = 1.0
"""Joins and leaves are told at once; a grant that is published or withdrawn is seen after this."""
_LOOK_SECONDS = 0.25


class LiveNodes:
    """The live nodes as one node sees them, read again when one joined or left. There is one for the life of a node."""

    def __init__(self, node: speed.Node) -> None:
        self.node = node
        self._entries: list[Entry] = []
        self._read_at = float("-inf")
        self._changed = threading.Event()
        node.on_join(self._note)
        node.on_leave(self._note)

    def entries(self) -> list[Entry]:
        """The same list as long as nothing is known to have changed."""
        if self._changed.is_set() or time.monotonic() - self._read_at > MAX_AGE_SECONDS:
            self.read()
        return self._entries

    def read(self) -> None:
        """Look at the registry itself."""
        self._changed.clear()  # before: what changes while it is read is read again
        self._entries = self.node.nodes()
        self._read_at = time.monotonic()

    def wait(self, seconds: float) -> None:
        """Until a node joins or leaves, or for a while."""
        self._changed.wait(min(_LOOK_SECONDS, seconds))
        self.read()

    def _note(self, _: Entry) -> None:
        self._changed.set()


def check_service(live: LiveNodes, call: CallSettings) -> None:
    """The node is there, allows this one, and has the service.

    Waits for the node. Raises UnknownNodeError, AccessDeniedError and ServiceNotFoundError.
    """
    targets = Targets(live, call)
    while True:
        target = targets.take({})
        try:
            known = live.node.services(target.name)
            break
        except (NodeLeftError, UnknownNodeError):
            targets.left(target)  # it died a moment ago: another one, or the same started anew
    if call.service not in known:
        there = ", ".join(known) or "none"
        raise ServiceNotFoundError(f"{target.name} has no service {call.service!r}; it has {there}")


class Targets:
    """The nodes that a name or family stands for, or its fall-back while none of them is there. One thread uses it."""

    def __init__(self, live: LiveNodes, settings: CallSettings) -> None:
        self._live = live
        self._patterns = [settings.node, *([settings.fallback] if settings.fallback else [])]
        self._wait_seconds = settings.wait_seconds
        self._left: set[tuple[str, int]] = set()
        self._seen: list[Entry] | None = None
        self._fitting: list[list[Entry]] = []

    def take(self, under_way: Mapping[str, int]) -> Entry:
        """The node to ask now: one with the fewest calls ``under_way``. Waits for one to join.

        Raises AccessDeniedError when those that are there do not allow this node, UnknownNodeError when there is none.
        """
        deadline = time.monotonic() + self._wait_seconds
        while True:
            allowing = [entry for entry in self._candidates() if self._is_allowed(entry)]
            if allowing:
                return min(allowing, key=lambda entry: (under_way.get(entry.name, 0), random.random()))
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise self._nobody()
            self._live.wait(remaining)

    def left(self, target: Entry) -> None:
        """``target`` was found gone: it is not asked again, whatever its entry says, until it started anew."""
        self._left.add((target.name, target.generation))
        self._live.read()

    def denies(self, target: Entry) -> bool:
        """Whether the registry says now that ``target`` does not allow this node."""
        self._live.read()
        return not any(entry.name == target.name and self._is_allowed(entry) for entry in self._live.entries())

    def _candidates(self) -> list[Entry]:
        entries = self._live.entries()
        if entries is not self._seen:
            self._seen = entries
            self._fitting = [[one for one in entries if matches(pattern, one.name)] for pattern in self._patterns]
        there = ([one for one in fitting if (one.name, one.generation) not in self._left] for fitting in self._fitting)
        return next(filter(None, there), [])

    def _is_allowed(self, entry: Entry) -> bool:
        return any(matches(grant, self._live.node.name) for grant in entry.allow)

    def _nobody(self) -> AccessDeniedError | UnknownNodeError:
        waited = f"after {self._wait_seconds:g} s"
        name = self._live.node.name
        there = self._candidates()
        if there:
            family = name.split(".", 1)[0] + ".*"
            return AccessDeniedError(f"{there[0].name} does not allow {name} ({waited}): node.allow('{family}') there")
        patterns = " or ".join(map(repr, self._patterns))
        return UnknownNodeError(f"no node {patterns} is there ({waited}): start it, or see `speed nodes`")
