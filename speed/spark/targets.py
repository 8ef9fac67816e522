"""Which node of a family is asked next: the one with the fewest calls of this worker under way."""

from __future__ import annotations

import threading
import time
from collections import Counter

import speed
from speed.errors import AccessDeniedError, UnknownNodeError
from speed.spark.settings import CallSettings
from speed.wire.entry import Entry
from speed.wire.names import matches


class Targets:
    """The nodes that a name or family stands for. One thread uses it."""

    def __init__(self, node: speed.Node, settings: CallSettings) -> None:
        self._node = node
        self._pattern = settings.node
        self._wait_seconds = settings.wait_seconds
        self._outstanding: Counter[str] = Counter()
        self._changed: threading.Event | None = None

    def take(self) -> str:
        """The node to ask now; ``done`` gives it back. Waits for one to join.

        Raises AccessDeniedError when those that are there do not allow this node, UnknownNodeError when there is none.
        """
        deadline = time.monotonic() + self._wait_seconds
        while True:
            live = [entry for entry in self._node.nodes() if matches(self._pattern, entry.name)]
            allowing = [entry.name for entry in live if self._is_allowed(entry)]
            if allowing:
                chosen = min(allowing, key=lambda name: (self._outstanding[name], name))
                self._outstanding[chosen] += 1
                return chosen
            if not self._wait(deadline):
                raise self._nobody(live)

    def done(self, name: str) -> None:
        """A call to ``name`` ended."""
        self._outstanding[name] -= 1

    def _is_allowed(self, entry: Entry) -> bool:
        return any(matches(grant, self._node.name) for grant in entry.allow)

    def _wait(self, deadline: float) -> bool:
        """Until a node joins, or for a while: a grant that is published makes no node join."""
        if self._changed is None:
            self._changed = changed = threading.Event()
            self._node.on_join(lambda _: changed.set())
        remaining = deadline - time.monotonic()
        self._changed.wait(min(0.5, max(0.0, remaining)))
        self._changed.clear()
        return remaining > 0

    def _nobody(self, live: list[Entry]) -> AccessDeniedError | UnknownNodeError:
        waited = f"after {self._wait_seconds:g} s"
        if live:
            return AccessDeniedError(
                f"{live[0].name} does not allow {self._node.name} ({waited}): node.allow('{self._family()}') there"
            )
        return UnknownNodeError(f"no node {self._pattern!r} is there ({waited}): start it, or see `speed nodes`")

    def _family(self) -> str:
        return self._node.name.split(".", 1)[0] + ".*"
