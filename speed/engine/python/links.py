"""All outgoing links of a node: made on first use (A-3, R-11); answers on their way out: one write, one ring (L-15).

No thread waits for room in the inbox of a caller that does not read: such an answer is kept, and tried again by the
thread that reads, until its time is up. Only what goes in segments is written by its worker, which gives its place up.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from speed.core import counters, texts
from speed.core.access import granted, observed
from speed.core.lane import Awake, Token
from speed.core.log import logger
from speed.engine import threads
from speed.engine.python.context import Context
from speed.engine.python.lanes import Lane
from speed.engine.python.outgoing import OutgoingLink
from speed.engine.workers import place_given_up
from speed.errors import (
    AccessDeniedError,
    IdentityError,
    InboxFullError,
    NodeClosedError,
    NodeLeftError,
    NodeStartingError,
    PayloadTooLargeError,
    SpeedError,
    UnknownNodeError,
)
from speed.wire import names
from speed.wire.entry import Entry
from speed.wire.envelope import FLAG_REPLY, EnvelopeType
from speed.wire.limits import MAX_CALL_BYTES, MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from speed.segment.parity import Splitter


# All outgoing links of a node: made on first use, to nodes whose grant was just looked at.

LOOK_SECONDS = 0.02
"""Pause between two looks at a node that is starting."""
FRESH_SECONDS = 0.001
"""How long a grant that was seen counts as one that is (R-11): a burst of sends looks once."""


class Links:
    """All outgoing links of a node, made on first use. Thread-safe."""

    def __init__(self, context: Context) -> None:
        self.lock = threads.lock("links")
        self._context = context
        self._links: dict[str, OutgoingLink] = {}
        self._fresh: dict[str, tuple[float, OutgoingLink]] = {}
        """Links with a grant that was just looked at, and until when that may be believed (R-11)."""
        self._awake: Awake[str] = Awake(context.max_open_links)
        """Links that hold files open; guarded by ``lock``."""
        self._opened: Callable[[OutgoingLink], None] = lambda _: None
        self._splitters: dict[str, Splitter] = {}
        self._is_closed = False

    def on_open(self, opened: Callable[[OutgoingLink], None]) -> None:
        self._opened = opened

    def granted(
        self, target: str, until: float = 0.0, *, starting: bool = False, looking: bool = False
    ) -> OutgoingLink:
        """The link to a live node that allows this one (A-3); nothing is written before this returns.

        One that is starting and does not allow it yet is waited for ``until`` (monotonic seconds). With ``starting``
        the link to one that is starting is returned at once: ``link.entry`` says so. With ``looking`` it is for what an
        observer may write too (A-7).
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
            raise NodeLeftError(texts.leaving(target))
        by_grant = not (looking and observed(entry, self._context.name))
        if entry.status == "starting" and by_grant and not starting and not self._is_granted(entry):
            entry = self._started(entry, until)
        is_starting = starting and entry.status == "starting"
        if by_grant and not is_starting:
            self._check_grant(entry)
        link = self.open(target, entry.generation)
        link.features, link.entry = entry.features, entry
        self._bind(link, entry)
        if entry.status == "online" and by_grant:
            self._fresh[target] = (now + FRESH_SECONDS, link)
        return link

    def _started(self, entry: Entry, until: float) -> Entry:
        """The entry of a node once it serves, or allows this one."""
        name = entry.name
        with place_given_up():
            while entry.status == "starting" and not self._is_granted(entry):
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

    def _is_granted(self, entry: Entry) -> bool:
        return granted(entry, self._context.name, self._context.fingerprint)

    def _bind(self, link: OutgoingLink, entry: Entry | None, *, is_answer: bool = False) -> None:
        """Have what is sent from now on open for that identity alone (I-4); IdentityError."""
        if self._context.peers is not None:
            bond = self._context.peers.bond(link.target, entry, is_answer=is_answer)
            if bond != link.bond:
                link.bond = bond
                link.renew()

    def _look_at_card(self, link: OutgoingLink, entry: Entry) -> None:
        """For links that only answer: nobody looks at the entry of their target before."""
        if entry.generation == link.generation:
            with suppress(IdentityError):  # who may not have it is refused elsewhere
                self._bind(link, entry, is_answer=True)

    def _check_grant(self, entry: Entry) -> None:
        if not self._is_granted(entry):
            self._context.stats.count(counters.SENDS_DENIED)
            self._context.stats.refused_by(entry.name)
            raise AccessDeniedError(texts.not_allowed(entry.name, self._context.name))

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
                link = OutgoingLink(self._context, target, self._woken, self._make_space)
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
        self._bind(link, entry, is_answer=True)
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

    def max_bytes(self, target: str) -> int:
        """The largest response that can go to ``target`` (G-18)."""
        entry = self._context.registry.live(target)
        takes_segments = entry is not None and "segments" in entry.features
        limit = MAX_CALL_BYTES if takes_segments else MAX_PAYLOAD_BYTES
        splitter = self._splitters.get(target)
        return limit if splitter is None else min(limit, splitter.most_bytes)

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

    def close_gone_links(self) -> None:
        """Heed cards that were renewed, and close the files of links to nodes that are gone.

        A link that was only ever for one life of an ephemeral target is forgotten, once the cursors of that life are
        gone with its directory: should the name come back, another key begins with it, and a sequence that begins anew.
        """
        for link in self.opened():
            entry = self._context.registry.live(link.target)
            if entry is not None:
                self._look_at_card(link, entry)
                continue
            with self.lock:
                self._awake.rest(link.target)
                if link.target_life and link.lives == 1 and self._left_nothing(link.target):
                    self._forget(link.target)
            link.rest()

    def release_slots(self) -> None:
        """Remove slots that no link used since the last call."""
        for link in self.opened():
            link.release_slots(idle=True)

    def _make_space(self, full: OutgoingLink) -> bool:
        """Remove the free slots of the other links: whether there were any. The caller holds the lock of ``full``."""
        others = [link for link in list(self._links.values()) if link is not full]
        freed = [link.release_slots(idle=False) for link in others]
        return any(freed)

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


log = logger("speed.spc")

REPLY_WAIT_SECONDS = 5.0
"""How long an answer waits for room in the caller's full inbox before it is dropped and counted."""
AGAIN_SECONDS = 0.005
SMALL_BYTES = 64 << 10
"""Up to this size an answer on a link with a segment size goes at once or not at all."""
_MAX_KEPT_BYTES = 64 << 20
"""Of answers that wait for room; what comes beyond is dropped and counted."""


class PendingAnswer(NamedTuple):
    """Send ``payloads`` to ``source`` in one write, then ``finish``; until ``deadline`` (monotonic seconds)."""

    source: str
    generation: int
    payloads: tuple[bytes, ...]
    finish: Callable[[], None]
    deadline: float


class Answers:
    """Sends and commits; thread-safe."""

    def __init__(self, context: Context, links: Links) -> None:
        self._context = context
        self._links = links
        self._waiting: deque[PendingAnswer] = deque()
        self._bytes = 0
        self._next = math.inf
        self._lock = threads.lock("answers")

    def check_size(self, source: str, size: int) -> None:
        """PayloadTooLargeError for what cannot be sent to a caller (G-18)."""
        if size > MAX_PAYLOAD_BYTES or self._links.is_cut(source):
            limit = self._links.max_bytes(source)
            if size > limit:
                raise PayloadTooLargeError(f"{size} bytes; the limit is {limit}")

    def send(self, lane: Lane, generation: int, payload: bytes, token: Token) -> None:
        """Send an answer now, or keep it while there is no room; those of one caller keep their order."""
        finish = partial(lane.finish, (token,))
        if len(payload) > MAX_PAYLOAD_BYTES or (self._links.is_cut(lane.source) and len(payload) > SMALL_BYTES):
            self._send_cut(lane.source, generation, payload)
            finish()
        else:
            self._send(lane.source, generation, (payload,), finish)

    def send_urgently(self, source: str, generation: int, *payloads: bytes) -> None:
        """The same for small answers that commit nothing; also from the thread that reads."""
        self._send(source, generation, payloads, _nothing)

    def _send(self, source: str, generation: int, payloads: tuple[bytes, ...], finish: Callable[[], None]) -> None:
        answer = PendingAnswer(source, generation, payloads, finish, monotonic() + REPLY_WAIT_SECONDS)
        if any(other.source == source for other in tuple(self._waiting)) or not self._sent(answer):
            self._keep(answer)

    def _keep(self, answer: PendingAnswer) -> None:
        with self._lock:
            size = sum(map(len, answer.payloads))
            kept = self._bytes + size <= _MAX_KEPT_BYTES
            if kept:
                self._waiting.append(answer)
                self._bytes += size
                self._next = min(self._next, monotonic() + AGAIN_SECONDS)
        if kept:
            self._context.waker.wake_by(self._next)
        else:
            self._undelivered(answer, "too many others wait for room already")

    def _send_cut(self, source: str, generation: int, payload: bytes) -> None:
        try:
            with place_given_up():
                link = self._links.open(source, generation)
                link.send_cut(EnvelopeType.SPC_RESPONSE, FLAG_REPLY, payload, REPLY_WAIT_SECONDS)
        except (SpeedError, OSError) as error:
            self._undelivered(PendingAnswer(source, generation, (payload,), _nothing, 0.0), str(error))

    def try_again(self) -> None:
        """Send what there is room for by now, drop what waited too long."""
        now = monotonic()
        if now < self._next:
            return
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
            self._bytes, self._next = 0, math.inf
        full: set[str] = set()
        for answer in waiting:
            if answer.source not in full and self._sent(answer):
                continue
            full.add(answer.source)
            if answer.deadline > now:
                self._keep(answer)
            else:
                self._undelivered(answer, "its inbox is full")

    def next_time(self) -> float:
        """Monotonic seconds of the next ``try_again``; infinity when nothing waits."""
        return self._next

    def _sent(self, answer: PendingAnswer) -> bool:
        """Send and commit; False if there is no room."""
        try:
            link = self._links.open(answer.source, answer.generation)
            link.send_all(EnvelopeType.SPC_RESPONSE, FLAG_REPLY, answer.payloads, 0.0, urgent=True)
        except InboxFullError:
            return False
        except (SpeedError, OSError) as error:
            self._undelivered(answer, str(error))
        else:
            answer.finish()
        return True

    def _undelivered(self, answer: PendingAnswer, why: str) -> None:
        self._context.stats.count(counters.ANSWERS_UNDELIVERED, len(answer.payloads))
        self._context.limiter.warn(log, "undelivered", "an answer to %s was not delivered: %s", answer.source, why)
        answer.finish()


def _nothing() -> None:
    """The request was committed already, or never will be."""


# Waiting for another node.


def wait_for(context: Context, target: str, timeout_seconds: float) -> Entry:
    """Wait until ``target`` is live and allows this node. UnknownNodeError in the end; StorageError without a root."""
    with place_given_up():
        return _wait_for(context, target, timeout_seconds)


def _wait_for(context: Context, target: str, timeout_seconds: float) -> Entry:
    deadline = monotonic() + timeout_seconds
    while True:
        entry = context.registry.live(target, sure=True)
        if entry is not None and entry.status == "online" and granted(entry, context.name, context.fingerprint):
            return entry
        if monotonic() >= deadline or context.stopping.wait(0.01):
            break
    context.registry.check_readable(target)
    why = _why_not(context, entry)
    raise UnknownNodeError(f"{target!r} {why} after {timeout_seconds} s")


def _why_not(context: Context, entry: Entry | None) -> str:
    if entry is None:
        return "is not live"
    if entry.status == "starting":
        return "is still starting"
    return "is leaving" if entry.status == "leaving" else f"does not allow {context.name!r}"
