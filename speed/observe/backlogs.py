"""What waits: in subscriptions of durable topics, as their host tells, and in the lanes of nodes, from their files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

from speed import Node
from speed.errors import ApplicationError, SpeedError
from speed.fs.identity import is_settled
from speed.fs.lane_backlog import WaitingInLane, stamp_of
from speed.fs.open import names_in, open_beneath
from speed.fs.registry import listed
from speed.observe import Finding, seconds_text
from speed.observe.traffic import OTHERS
from speed.wire import names
from speed.wire.limits import MAX_LANES
from speed.wire.seal import Keyring

TOPICS = "speedd.topics"
BEHIND_SECONDS = 60.0
"""A subscription whose oldest message waits for longer is behind."""
MAX_AT_ONCE = 8
MAX_WATCHED = 64
"""So many topics are looked at again and again."""
BROKEN, UNCONSUMED, FULL, BEHIND, WELL, UNUSED = range(6)


class Backlog(NamedTuple):
    """One subscription; of a topic without one, and of one that cannot be used, ``subscription`` is empty.

    ``rank`` is how bad it is, 0 the worst; ``state`` says why, in a word or two.
    """

    rank: int
    topic: str
    subscription: str
    state: str
    backlog: int = 0
    oldest_seconds: float | None = None
    in_flight: int = 0
    consumers: int = 0
    dead: int = 0

    def described(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {name: value for name, value in self._asdict().items() if name != "rank"}


def backlogs(node: Node, topics: Sequence[str] = (), host: str = TOPICS, timeout: float = 30.0) -> list[Backlog]:
    """Of ``topics``, or of all that ``node`` may use; ``timeout`` in seconds is for each question.

    Of topics that are named an error says what is wrong: what ``Topic.describe`` raises. Of all, those that are gone
    meanwhile are left out. Raises what ``Node.call`` does.
    """
    broken: list[Backlog] = []
    chosen: Sequence[str] = topics
    if not topics:
        listed = node.call(host, "topics.list", timeout=timeout)
        broken = [Backlog(BROKEN, one["topic"], "", f"broken: {one['broken']}") for one in listed if "broken" in one]
        chosen = [one["topic"] for one in listed if "broken" not in one]

    def describe(name: str) -> dict[str, Any]:
        try:
            return node.topic(name, host=host).describe(timeout=timeout)
        except ApplicationError:
            if topics:
                raise
            return {}

    with ThreadPoolExecutor(MAX_AT_ONCE, "speed-topics") as asking:
        described = list(asking.map(describe, chosen))
    rows = [row for name, one in zip(chosen, described, strict=True) if one for row in _rows_of(name, one)]
    return sorted([*broken, *rows], key=lambda one: (one.rank, -one.backlog, one.topic, one.subscription))


def waiting(node: Node, timeout: float, host: str = TOPICS) -> list[Backlog]:
    """The subscriptions in which something waits; none where no host is there, or it tells ``node`` nothing."""
    try:
        listed = node.call(host, "topics.list", timeout=timeout)
        used = [one["topic"] for one in listed if one.get("subscriptions")][:MAX_WATCHED]
        return [one for one in backlogs(node, used, host, timeout) if one.backlog] if used else []
    except (SpeedError, AttributeError, LookupError, TypeError, ValueError):
        return []  # `speed topic overview` tells what is wrong


def _rows_of(topic: str, described: dict[str, Any]) -> Iterator[Backlog]:
    if described["damaged"]:
        yield Backlog(BROKEN, topic, "", f"damaged: see `speed topic subscriptions {topic}`")
    for one in described["subscriptions"]:
        backlog, consumers = one["backlog"], len(one["consumers"])
        oldest = max(0.0, time.time() - one["oldest_ms"] / 1000) if backlog and one.get("oldest_ms") else None
        rank, state = _state(one, oldest)
        yield Backlog(
            rank, topic, one["subscription"], state, backlog, oldest, one["in_flight"], consumers, one["dead"]
        )
    if not described["subscriptions"]:
        yield Backlog(UNUSED, topic, "", "no subscription")


def _state(one: dict[str, Any], oldest_seconds: float | None) -> tuple[int, str]:
    if one["backlog"] and not one["consumers"]:
        return UNCONSUMED, "nobody consumes"
    if one["full"]:
        return FULL, "too much unacknowledged"
    if oldest_seconds is not None and oldest_seconds > BEHIND_SECONDS:
        return BEHIND, "behind"
    return WELL, ""


# All lanes of a root.

MAX_PEERS = 64
"""Of one node so many senders are told one by one, the others together."""
MAX_LANES_A_LOOK = 4096
LOOK_SECONDS = 2.0
"""What one look has no time for keeps what was seen before, and comes first in the next one."""


class LaneBacklog(NamedTuple):
    """What one node has sent another that is not handled yet: messages, events and calls, as envelopes are counted.

    ``size`` is in bytes, without payloads in slots; ``oldest_seconds`` by the clock of who sent it.
    """

    messages: int
    size: int
    oldest_seconds: float

    def described(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {"messages": self.messages, "bytes": self.size, "oldestSeconds": self.oldest_seconds}


LaneBacklogs = dict[str, dict[str, LaneBacklog]]
"""By node that has not handled it, and sender; only where something waits."""


def together(rows: Iterable[LaneBacklog]) -> LaneBacklog:
    """The sum of what waits, and the age of the oldest."""
    messages, sizes, ages = zip(*rows, strict=True)
    return LaneBacklog(sum(messages), sum(sizes), max(ages))


class LaneWatch:
    """Looks at the inboxes of all nodes again and again, from the files alone: no node has to answer. Not thread-safe.

    Args:
        root: whose nodes.
        keyring: of that root.
        but: a name whose lanes are left out: who looks writes and reads lanes for that.
    """

    def __init__(self, root: str, keyring: Keyring, but: str = "") -> None:
        self._root, self._keyring, self._but = root, keyring, but
        self._inboxes: dict[str, _Inbox] = {}

    def look(self) -> LaneBacklogs:
        """What waits for nodes that have an entry, also one that expired. OSError if the registry cannot be read."""
        self._keyring.look()
        present = sorted(name for name in listed(self._root) if name != self._but)
        self._inboxes = {name: self._inboxes.get(name) or _Inbox(self._root, name, self._but) for name in present}
        left, ends = MAX_LANES_A_LOOK, time.monotonic() + LOOK_SECONDS
        for inbox in sorted(self._inboxes.values(), key=lambda one: one.looked):
            if left <= 0 or time.monotonic() > ends:
                break
            left -= inbox.look(self._keyring, left)
        return {name: _most(inbox.found) for name, inbox in self._inboxes.items() if inbox.found}


class _Inbox:
    """The lanes into one node."""

    def __init__(self, root: str, node: str, but: str) -> None:
        self._root, self._node, self._but = root, node, but
        self._stamp: tuple[int, ...] = ()
        self._lanes: dict[str, WaitingInLane] = {}
        self.looked = 0.0
        self.found: dict[str, LaneBacklog] = {}

    def look(self, keyring: Keyring, most: int) -> int:
        """Look at no more than so many lanes; returns a number for what it cost."""
        self.looked = time.monotonic()
        self._list(keyring)
        now, found = time.time() * 1000, {}
        for sender, lane in islice(self._lanes.items(), most):
            try:
                waits = lane.look()
            except OSError:
                continue  # it was removed meanwhile, or `speed root doctor` tells why
            if waits is not None:
                age = max(0.0, now - waits.oldest_ms) / 1000
                found[sender] = LaneBacklog(waits.envelopes, waits.size, age)
        self.found = found
        return 1 + len(self._lanes)

    def _list(self, keyring: Keyring) -> None:
        """Which lanes there are, unless none came or went since they were listed."""
        try:
            if self._stamp and self._stamp == stamp_of(os.stat(names.inbox_dir(self._root, self._node))):
                return
            fd = open_beneath(names.node_dir(self._root, self._node), "inbox")
        except OSError:
            self._stamp, self._lanes = (), {}
            return
        try:
            status = os.fstat(fd)
            self._stamp = stamp_of(status) if is_settled(status.st_mtime_ns) else ()
            senders = sorted(one.name for one in names_in(fd, MAX_LANES) if names.is_node_name(one.name))
        finally:
            os.close(fd)
        self._lanes = {
            sender: self._lanes.get(sender) or WaitingInLane(self._root, self._node, sender, keyring)
            for sender in senders
            if sender != self._but
        }


def _most(found: dict[str, LaneBacklog]) -> dict[str, LaneBacklog]:
    """The senders of whom most waits, the others as one."""
    if len(found) <= MAX_PEERS:
        return found
    ordered = sorted(found, key=lambda sender: (-found[sender].messages, sender))
    return {sender: found[sender] for sender in ordered[:MAX_PEERS]} | {
        OTHERS: together(found[sender] for sender in ordered[MAX_PEERS:])
    }


def lane_troubles(found: LaneBacklogs, patience_seconds: float = BEHIND_SECONDS) -> Iterator[Finding]:
    """Nodes for which something waits that long."""
    for node, rows in sorted(found.items()):
        everything = together(rows.values())
        if everything.oldest_seconds > patience_seconds:
            text = f"{waiting_text(node, everything)}; from {_senders(rows)}"
            yield Finding("lanes", "warning", text, _TODO.format(node))


_TODO = "its process is gone, stopped or hangs, or its handlers are slow: see `speed stats {}`, then restart it"
_SENDERS_SHOWN = 3


def waiting_text(node: str, one: LaneBacklog) -> str:
    """What waits for a node, as half a sentence."""
    messages = "1 message waits" if one.messages == 1 else f"{one.messages} messages wait"
    return f"{messages} in the lanes of {node}, the oldest for {seconds_text(one.oldest_seconds)}"


def _senders(rows: Mapping[str, LaneBacklog]) -> str:
    """Those of whom the oldest waits longest."""
    ordered = sorted(rows, key=lambda sender: -rows[sender].oldest_seconds)
    others = len(ordered) - _SENDERS_SHOWN
    return ", ".join(ordered[:_SENDERS_SHOWN]) + (f" and {others} more" if others > 0 else "")
