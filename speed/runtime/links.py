"""All outgoing links of a node: made on first use, to nodes whose grant was just looked at (A-3, R-11)."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from speed.core.access import granted
from speed.core.awake import Awake
from speed.errors import AccessDeniedError, NodeClosedError, NodeLeftError, NodeStartingError, UnknownNodeError
from speed.runtime import locks
from speed.runtime.context import Context
from speed.runtime.outgoing import OutgoingLink
from speed.runtime.workers import place_given_up
from speed.wire import names
from speed.wire.entry import Entry
from speed.wire.limits import MAX_CALL_BYTES, MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from speed.segment.splitter import Splitter

LOOK_SECONDS = 0.02
"""Pause between two looks at a node that is starting."""
FRESH_SECONDS = 0.001
"""How long a grant that was seen counts as one that is (R-11): a burst of sends looks once."""


class Links:
    """All outgoing links of a node, made on first use. Thread-safe."""

    def __init__(self, context: Context) -> None:
        self.lock = locks.lock("links")
        self._context = context
        self._links: dict[str, OutgoingLink] = {}
        self._fresh: dict[str, tuple[float, OutgoingLink]] = {}
        """Links with a grant that was just looked at, and until when that may be believed (R-11)."""
        self._awake: Awake[str] = Awake(context.most_links)
        """Links that hold files open; guarded by ``lock``."""
        self._opened: Callable[[OutgoingLink], None] = lambda _: None
        self._splitters: dict[str, Splitter] = {}
        self._is_closed = False

    def on_open(self, opened: Callable[[OutgoingLink], None]) -> None:
        self._opened = opened

    def granted(self, target: str, until: float = 0.0, *, starting: bool = False) -> OutgoingLink:
        """The link to a live node that allows this one (A-3); nothing is written before this returns.

        One that is starting and does not allow it yet is waited for ``until`` (monotonic seconds). With ``starting``
        the link to one that is starting is returned at once: ``link.entry`` says so.
        Raises UnknownNodeError, NodeStartingError or AccessDeniedError.
        """
        now = monotonic()
        fresh = self._fresh.get(target)
        if fresh is not None and now < fresh[0]:
            return fresh[1]
        entry = self._context.registry.live(target)
        if entry is None:
            self.drop(target)
            raise UnknownNodeError(self._context.registry.absence(target))
        if entry.status == "leaving":
            raise NodeLeftError(f"{target!r} is leaving and takes nothing more: nothing was written to it")
        if entry.status == "starting" and not starting and not granted(entry.allow, self._context.name):
            entry = self._started(entry, until)
        is_starting = starting and entry.status == "starting"
        if not is_starting:
            self._check_grant(entry)
        link = self.open(target, entry.generation)
        link.features, link.entry = entry.features, entry
        if entry.status == "online":
            self._fresh[target] = (now + FRESH_SECONDS, link)
        return link

    def _started(self, entry: Entry, until: float) -> Entry:
        """The entry of a node once it serves, or allows this one."""
        name = entry.name
        with place_given_up():
            while entry.status == "starting" and not granted(entry.allow, self._context.name):
                left = until - monotonic()
                if left <= 0:
                    raise NodeStartingError(
                        f"{name!r} is starting and does not allow {self._context.name!r} yet: "
                        "nothing was written to it; raise timeout, or try again"
                    )
                self._context.stopping.wait(min(left, LOOK_SECONDS))
                self._context.check_open()
                found = self._context.registry.live(name)
                if found is None:
                    raise UnknownNodeError(self._context.registry.absence(name))
                entry = found
        return entry

    def _check_grant(self, entry: Entry) -> None:
        if not granted(entry.allow, self._context.name):
            self._context.stats.count("sends_denied")
            raise AccessDeniedError(
                f"{entry.name!r} does not allow {self._context.name!r}; "
                f"its owner must call allow({self._context.name!r})"
            )

    def open(self, target: str, generation: int) -> OutgoingLink:
        """The link to ``target`` whatever it grants: for replies, to which the request gave the right (S-10).

        A new generation of the target gets a new lane file: it may have put the old lane into quarantine. What goes to
        an ephemeral target is sealed for its present life alone.
        """
        with self.lock:
            link = self._links.get(target)
            if target in self._awake:
                self._awake.use(target)
            if link is not None and link.generation == generation:
                return link
            if self._is_closed:
                self._context.check_open()  # says why: its name may be lost
                raise NodeClosedError("the node was closed: nothing was written")
            if link is None:
                link = OutgoingLink(self._context, target, self._woken)
                link.splitter = self._splitters.get(target)
                self._learn(link)
                self._links[target] = link
            elif link.generation < generation:
                self._learn(link)
                link.renew()
                self._opened(link)
            link.generation = max(generation, link.generation)
            return link

    def _woken(self, link: OutgoingLink) -> None:
        """A link at rest is about to open its files: others that were used longer ago rest for it (L-26)."""
        with self.lock:
            if self._links.get(link.target) is not link:
                return  # it was forgotten meanwhile
            resting = [self._links[target] for target in self._awake.use(link.target)]
        for other in resting:
            other.rest()
        self._opened(link)

    def _learn(self, link: OutgoingLink) -> None:
        """What the entry of the target says that concerns its link."""
        entry = self._context.registry.live(link.target)
        link.features = () if entry is None else entry.features
        link.lives += 1
        link.target_life = 0 if entry is None or not entry.ephemeral else entry.generation

    def cut(self, target: str, splitter: Splitter | None) -> None:
        """Cut all that goes to ``target`` from now on, or no longer."""
        with self.lock:
            if splitter is None:
                self._splitters.pop(target, None)
            else:
                self._splitters[target] = splitter
            link = self._links.get(target)
            if link is not None:
                link.splitter = splitter

    def is_cut(self, target: str) -> bool:
        """Whether all that goes to ``target`` goes in segments."""
        return target in self._splitters

    def most_bytes(self, target: str) -> int:
        """The largest response that can go to ``target`` (G-18)."""
        entry = self._context.registry.live(target)
        takes_segments = entry is not None and "segments" in entry.features
        most = MAX_CALL_BYTES if takes_segments else MAX_PAYLOAD_BYTES
        splitter = self._splitters.get(target)
        return most if splitter is None else min(most, splitter.most_bytes)

    def takes(self, target: str, feature: str) -> bool:
        """Whether a node that was written to has a feature, as its entry said last."""
        link = self._links.get(target)
        return link is not None and feature in link.features

    def known(self, name: str) -> bool:
        """Whether this process ever wrote to ``name``, so that answers may come from there."""
        return name in self._links

    def drop(self, target: str) -> None:
        """Forget files of a node that left; the sequence of the link goes on if it returns."""
        self._fresh.pop(target, None)
        link = self._links.get(target)
        if link is not None:
            link.renew()

    def let_go_of_gone(self) -> None:
        """Close the files of links to nodes that are gone.

        A link that was only ever for one life of an ephemeral target is forgotten, once the cursors of that life are
        gone with its directory: should the name come back, another key begins with it, and a sequence that begins anew.
        """
        for link in self.opened():
            if self._context.registry.live(link.target) is not None:
                continue
            with self.lock:
                self._awake.rest(link.target)
                if link.target_life and link.lives == 1 and self._left_nothing(link.target):
                    self._forget(link.target)
            link.rest()

    def release_slots(self) -> None:
        """Remove slots that no link used since the last call."""
        for link in self.opened():
            link.release_slots()

    def _left_nothing(self, target: str) -> bool:
        return not os.path.lexists(names.node_dir(self._context.root, target))

    def _forget(self, target: str) -> None:
        self._links.pop(target, None)
        self._fresh.pop(target, None)

    def opened(self) -> list[OutgoingLink]:
        with self.lock:
            return list(self._links.values())

    def end(self) -> None:
        """Who still writes is refused from now on: the name is about to be given up."""
        with self.lock:
            self._is_closed = True
        for link in self.opened():
            link.end()

    def close(self) -> None:
        """For good."""
        self.end()
        for link in self.opened():
            link.close()

    def abandon(self) -> None:
        """In a forked child: close descriptors; the parent's locks may be held for ever and are not taken."""
        for link in list(self._links.values()):
            link.ringer.abandon()
            link.reopen()
