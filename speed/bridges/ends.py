"""Backends, and events of the root, as the ends of a bridge (B-9, B-14, B-16)."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic
from typing import Any, cast

from speed import Node
from speed.backends.address import Address
from speed.backends.backend import (
    REFRESH_SECONDS,
    Backend,
    BackendSubscription,
    Checkpoint,
    Delivered,
    Outgoing,
    PlacingBackend,
)
from speed.bridges import Route, hop_of, read_hops, write_hops
from speed.bridges.bridge import (
    BATCH_BYTES,
    CHECK_ANSWER_SECONDS,
    EXPIRED,
    FILTERED,
    MAX_MESSAGES,
    PUBLISH_SECONDS,
    Load,
)
from speed.core.log import logger
from speed.engine.message import Turns, publish_to
from speed.errors import InvalidNameError, JournalExpiredError, JournalReplacedError, StorageError, WireError
from speed.fs.keyfile import KeySource
from speed.fs.open import open_directory, owners_of, read_small, replace_file
from speed.journal import Journal
from speed.journal.files import Record
from speed.journal.reader import LaneInfo
from speed.message.reader import MessageReader
from speed.message.view import MessageView
from speed.message.writing import without_token
from speed.wire.names import bridge_name
from speed.wire.topic import MAX_STATE_BYTES, open_state, seal_state

FIRST_MESSAGES = 64
"""Asked for at once while nobody knows how large they are."""


class BackendSource:
    """Messages that a group consumes."""

    def __init__(
        self, backend: Backend, address: Address, route: Route, group: str, start: str, max_message_bytes: int
    ) -> None:
        self._backend, self._route = backend, route
        self._max_bytes = max_message_bytes
        self._hops = BackendHops(address)
        self._subscription: BackendSubscription = backend.subscribe(route.pattern, group, start, alone=True)
        self._limit, self._bound = FIRST_MESSAGES, backend.max_at_once
        self._reader = MessageReader()
        self._holds = False
        """Whether something is not settled."""

    def receive(self, limit: int, seconds: float) -> list[Load]:
        """As many as make a batch; nothing while that would keep what is held from being acknowledged for good."""
        if self._holds and not self._backend.takes_ahead:
            return []
        delivered = self._subscription.receive(min(limit, self._limit), seconds)
        if delivered:
            average = sum(len(one.envelope) for one in delivered) // len(delivered)
            self._holds = True
            self._limit = min(2 * self._limit, self._bound, max(1, BATCH_BYTES // max(1, average)))
        now_ms = time.time_ns() // 1_000_000
        return [self._load(one, now_ms) for one in delivered]

    def _load(self, one: Delivered, now_ms: int) -> Load:
        sequence = one.sequence + 1 if one.lane else 0
        load = Load(one.lane, sequence, one.topic, one.position, one.envelope, handle=one)
        if len(one.envelope) > self._max_bytes:
            load.code = "TOO_LARGE"
            return load
        try:
            load.view = view = self._reader.read(one.envelope)
            load.topic = one.topic or view.topic
            load.code = self._why_not(view, load.topic, now_ms)
            if not load.code:
                load.hops = (*read_hops(one.hops), self._hops.of(load.topic))
                load.message = self._message(one, view, load)
        except WireError as error:
            load.code = error.reason
        except InvalidNameError:
            load.code = "BAD_NAME"
        return load

    def _why_not(self, view: MessageView, topic: str, now_ms: int) -> str:
        if not self._route.covers(topic):
            return FILTERED  # Kafka shortens names, so others' may come
        return EXPIRED if view.is_expired(now_ms) else ""

    def _message(self, one: Delivered, view: MessageView, load: Load) -> Outgoing:
        return Outgoing(
            self._route.renamed(load.topic),
            one.key,
            one.envelope if view.has_publisher_only else without_token(one.envelope),
            view.message_id,
            view.published_at_ms,
            None,  # no end in the root asks for its trace
            write_hops(load.hops),
        )

    def settle(self, loads: Sequence[Load]) -> None:
        """Acknowledge them."""
        self._subscription.acknowledge([load.handle for load in loads])
        self._holds = False

    def check(self) -> None:
        """Asks the backend."""
        self._backend.ping(CHECK_ANSWER_SECONDS)

    def lag(self) -> int | None:
        """The backend's own tools tell."""
        return None

    def close(self) -> None:
        """Leave the group."""
        self._subscription.close()
        self._backend.close()


class BackendSink:
    """Messages that are published."""

    def __init__(self, backend: Backend, address: Address, bridge: str) -> None:
        self._backend, self._bridge = backend, bridge
        self._placing = cast(PlacingBackend, backend) if hasattr(backend, "publish_at") else None
        self._hops = BackendHops(address)
        self._there: dict[str, int] = {}
        """What the places say, as far as that is known."""
        self._kept: dict[str, int] = {}
        """Up to where an attempt without an answer turned out to be kept, until what it held has gone by."""
        self.limit = backend.max_at_once

    def is_loop(self, load: Load) -> bool:
        """Channels have no room for hops: nothing comes there that came over a bridge."""
        assert load.message is not None
        if not self._backend.has_groups:
            return len(load.hops) > 1
        return self._hops.of(load.message.topic) in load.hops

    def unfit(self, load: Load) -> str:
        """As the backend says."""
        assert load.message is not None
        return self._backend.unfit(load.message)

    def publish(self, loads: Sequence[Load]) -> int:
        """With the places behind them, where they can be kept; what those show to be there is left out, and counted."""
        if self._placing is None:
            self._backend.publish(_messages(loads), PUBLISH_SECONDS)
            return 0
        left = self._not_kept(loads)
        while left:
            placed = left if self._placing.keeps_places else ()
            places = {load.lane: self._place(load) for load in placed if load.lane}
            there = self._placing.publish_at(_messages(left), list(places.values()), PUBLISH_SECONDS)
            self._remember(there or {lane: place.next for lane, place in places.items()})
            if not there:
                break
            self._kept.update(there)
            left = self._not_kept(left)
        for load in loads:
            if load.sequence >= self._kept.get(load.lane, load.sequence + 1):
                del self._kept[load.lane]
        return len(loads) - len(left)

    def check(self) -> None:
        """Asks the backend."""
        self._backend.ping(CHECK_ANSWER_SECONDS)

    def _not_kept(self, loads: Sequence[Load]) -> Sequence[Load]:
        return [load for load in loads if load.sequence > self._kept.get(load.lane, -1)] if self._kept else loads

    def _place(self, load: Load) -> Checkpoint:
        assert load.message is not None
        return Checkpoint(self._bridge, load.lane, load.message.topic, load.sequence, self._there.get(load.lane, 0))

    def next_of(self, lane: str, topic: str) -> int:
        """How far the messages of a lane of the source are in ``topic`` there; 0 if that is not known."""
        if self._placing is None or not self._placing.keeps_places:
            return 0
        there = self._placing.next_of(Checkpoint(self._bridge, lane, topic, 0), PUBLISH_SECONDS)
        self._remember({lane: there})
        return there

    def _remember(self, there: Mapping[str, int]) -> None:
        """What is forgotten is told by the next attempt."""
        if len(self._there) >= _MAX_KNOWN:
            self._there.clear()
        self._there.update(there)

    def close(self) -> None:
        """End the connection."""
        self._backend.close()


def _messages(loads: Sequence[Load]) -> list[Outgoing]:
    return [load.message for load in loads if load.message is not None]


class BackendHops:
    """The hops of the topics in a backend."""

    def __init__(self, address: Address) -> None:
        self._place = str(address), address.place, str(address.options.get("table", ""))
        self._known: dict[str, str] = {}

    def of(self, topic: str) -> str:
        """That of one topic."""
        hop = self._known.get(topic)
        if hop is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            hop = self._known[topic] = hop_of(*self._place, topic)
        return hop


_MAX_KNOWN = 4096


log = logger("speed.bridges")

NextOf = Callable[[str, str], int]
LOOK_SECONDS = 0.1
"""How soon what was recorded is seen."""


def event_hop(root: str, topic: str) -> str:
    """The hop of the events of a topic in a root of this host."""
    return hop_of("events", socket.gethostname(), os.path.realpath(root), topic)


class Positions:
    """The file that says where a bridge stands in the lanes of the journal."""

    def __init__(self, directory: str, key: str, bridge: str, *, durable: bool) -> None:
        """Raises OSError."""
        self._name, self._durable = bridge_name(bridge), durable
        self._id = sha256(self._name.encode()).digest()[:16]
        self._keys = KeySource(key)
        self._keyring = self._keys.keyring
        self._fd = open_directory(directory)

    def read(self) -> dict[str, tuple[int, str]] | None:
        """Of each lane the next offset and its mark; None if the bridge is new. StorageError."""
        try:
            data = read_small(self._name, self._fd, owners_of(self._fd), MAX_STATE_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{self._name} in the journal cannot be read: {error.strerror}") from None
        try:
            lanes = open_state(data, self._id, self._name, self._keyring)["lanes"]
            return {lane: (int(offset), str(mark)) for lane, offset, mark in lanes}
        except (WireError, KeyError, TypeError, ValueError):
            text = f"{self._name} in the journal is damaged: remove it, and the bridge begins anew where it is told"
            raise StorageError(text) from None

    def write(self, lanes: dict[str, tuple[int, str]]) -> None:
        """StorageError; then what was there is there. It is sealed with the first key that there is now."""
        self._keys.look_soon()
        value = {"lanes": [[lane, *place] for lane, place in lanes.items()]}
        try:
            data = seal_state(value, self._id, self._name, self._keyring)
            os.close(replace_file(self._name, data, self._fd, private=True, durable=self._durable))
        except OSError as error:
            raise StorageError(f"{self._name} in the journal cannot be written: {error.strerror}; make room") from None

    def close(self) -> None:
        """Release the directory."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@dataclass
class _JournalLane:
    """One lane of the journal, and where the bridge stands in it."""

    info: LaneInfo
    target: str
    hops: tuple[str, ...]
    next: int


class EventSource:
    """Events of the topics of a route, as the journal recorded them."""

    def __init__(
        self,
        journal: Journal,
        positions: Positions,
        route: Route,
        *,
        root: str,
        own: str,
        start: str,
        next_of: NextOf,
    ) -> None:
        """``own`` is the node that publishes for bridges: what comes from it goes on over none."""
        self._journal, self._positions, self._route = journal, positions, route
        self._root, self._own, self._next_of = root, own, next_of
        self._start = start
        self._known: dict[str, tuple[int, str]] | None = None
        """What the file says; None before it was read."""
        self._lanes: dict[str, _JournalLane] = {}
        self._look_again = 0.0
        self._first = 0
        """Which lane is looked at first: each in turn."""
        self._pausing = threading.Event()

    def receive(self, limit: int, seconds: float) -> list[Load]:
        """Of one lane after the other."""
        ends = monotonic() + seconds
        while True:
            if monotonic() >= self._look_again:
                self._look()
            loads = self._some(limit)
            left = ends - monotonic()
            if loads or left <= 0 or self._pausing.wait(min(left, LOOK_SECONDS)):
                return loads

    def _look(self) -> None:
        """Find lanes. A bridge that is new begins where it is told, and notes that; later ones are read whole."""
        if self._known is None:
            self._known = self._begun(self._positions.read())
        gone = self._journal.removed()
        self._known = {lane: place for lane, place in self._known.items() if lane not in gone}
        for info in self._found():
            if info.id not in self._lanes:
                self._lanes[info.id] = self._opened(info, self._known)
        self._look_again = monotonic() + REFRESH_SECONDS / 5

    def _found(self) -> list[LaneInfo]:
        lanes = self._journal.lanes(skip_damaged=True)
        return [one for one in lanes if one.kind == "topic" and one.source != self._own and self._covers(one.subject)]

    def _covers(self, topic: str) -> bool:
        return self._route.covers(topic)

    def _begun(self, known: dict[str, tuple[int, str]] | None) -> dict[str, tuple[int, str]]:
        if known is not None:
            self._positions.write(known)  # its key may be of before
            return known
        begun: dict[str, tuple[int, str]] = {}
        if self._start == "latest":
            begun = {one.id: self._place(one.id, self._journal.end(one.id, skip_damaged=True)) for one in self._found()}
        self._positions.write(begun)
        return begun

    def _place(self, lane: str, offset: int) -> tuple[int, str]:
        return offset, self._journal.mark(lane, offset)

    def _opened(self, info: LaneInfo, known: dict[str, tuple[int, str]]) -> _JournalLane:
        offset, mark = known.get(info.id, (0, ""))
        try:
            self._journal.check(info.id, offset, mark)
        except JournalReplacedError as error:
            log.warning("%s", error)
            offset = self._journal.first(info.id)
        try:
            target = self._route.renamed(info.subject)
        except InvalidNameError:
            target = ""
        there = self._next_of(info.id, target) if target else 0
        return _JournalLane(info, target, (event_hop(self._root, info.subject),), max(offset, there))

    def _some(self, limit: int) -> list[Load]:
        lanes = list(self._lanes.values())
        for number in range(len(lanes)):
            lane = lanes[(self._first + number) % len(lanes)]
            loads = self._read(lane, limit)
            if loads:
                self._first += number + 1
                return loads
        return []

    def _read(self, lane: _JournalLane, limit: int) -> list[Load]:
        """What retention removed before it was carried is gone."""
        try:
            end = self._journal.end(lane.info.id, skip_damaged=True)
            if lane.next >= end:
                return []
            records = self._journal.read(lane.info.id, lane.next, end, skip_damaged=True)
            loads = self._bounded(lane, records, limit)
        except JournalExpiredError as error:
            if lane.info.id in self._journal.removed():
                del self._lanes[lane.info.id]
                return []
            lane.next = error.first
            return self._read(lane, limit)
        lane.next = loads[-1].sequence if loads else end
        return loads

    def _bounded(self, lane: _JournalLane, records: Any, limit: int) -> list[Load]:
        loads: list[Load] = []
        size = 0
        now_ms = time.time_ns() // 1_000_000
        for record in records:
            loads.append(_load(lane, record, now_ms))
            size += len(record.message)
            if len(loads) >= limit or size >= BATCH_BYTES:
                break
        return loads

    def settle(self, loads: Sequence[Load]) -> None:
        """Write where it stands."""
        assert self._known is not None
        ends = {load.lane: load.sequence for load in loads}
        known = {**self._known, **{lane: self._place(lane, offset) for lane, offset in ends.items()}}
        self._positions.write(known)
        self._known = known

    def check(self) -> None:
        """The journal is this process's own."""

    def lag(self) -> int | None:
        """What is recorded and not settled."""
        if self._known is None:
            return None
        reader, known = Journal(self._journal.directory, self._journal.key), self._known  # one for this thread
        return sum(reader.end(lane, skip_damaged=True) - known.get(lane, (0, ""))[0] for lane in [*self._lanes])

    def close(self) -> None:
        """Nothing is held."""
        self._pausing.set()
        self._positions.close()


def _load(lane: _JournalLane, record: Record, now_ms: int) -> Load:
    load = Load(lane.info.id, record.offset + 1, lane.info.subject, str(record.offset), record.message, hops=lane.hops)
    if not lane.target:
        load.code = "BAD_NAME"
        return load
    try:
        view = record.view.validate()
        if view.is_expired(now_ms):
            load.code = EXPIRED
        trace = view.traceparent
        load.message = Outgoing(
            lane.target,
            None,
            without_token(record.message),
            view.message_id,
            view.published_at_ms,
            trace.split("-")[1] if trace else None,
            write_hops(lane.hops),
        )
    except WireError as error:
        load.code = error.reason
    return load


class EventSink:
    """Events that are published to who subscribes in the root."""

    limit = MAX_MESSAGES

    def __init__(self, node: Node) -> None:
        self._node = node
        self._turns = Turns()

    def is_loop(self, load: Load) -> bool:
        """The hop of its topic tells."""
        return event_hop(self._node.root, _topic(load)) in load.hops

    def unfit(self, load: Load) -> str:
        """Every message can be one."""
        return ""

    def publish(self, loads: Sequence[Load]) -> int:
        """Many of one topic in one write. Who has no room gets none of them, as of every event."""
        topics: dict[str, list[bytes]] = {}
        for load in loads:
            assert load.message is not None
            topics.setdefault(_topic(load), []).append(load.message.envelope)
        for topic, messages in topics.items():
            self._publish(topic, messages)
        return 0

    def _publish(self, topic: str, messages: Sequence[bytes]) -> None:
        def send(name: str, until: float) -> None:
            self._node.forward(name, messages, event=True, timeout=max(0.0, until - monotonic()))

        publish_to(self._node.nodes(), topic, self._node.name, send, PUBLISH_SECONDS, self._turns, waits=True)

    def check(self) -> None:
        """The root is this process's own."""

    def close(self) -> None:
        """The node is the daemon's to close."""


def _topic(load: Load) -> str:
    """Receivers look at what the message says, wherever it lay."""
    assert load.message is not None
    return MessageView(load.message.envelope).topic
