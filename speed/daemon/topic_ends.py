"""Durable topics as one end of a bridge, and as the place of dead letters (B-13, B-14, B-17)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic
from typing import Any

from speed.bridges.backend import REFRESH_SECONDS, Outgoing
from speed.bridges.bridge import EXPIRED, MOST, Load
from speed.bridges.errors import BackendAwayError, BackendFullError, BackendRefusedError
from speed.bridges.records import Messages, record_of
from speed.bridges.route import Route, hop_of_lane, read_hops, write_hops
from speed.errors import InvalidNameError, SpeedError, WireError
from speed.topics.backend import Backend, HostedTopic
from speed.topics.encoder import Encoder
from speed.topics.group import Stored
from speed.topics.host import Host
from speed.topics.producers import Producer
from speed.topics.subscription import SubscriptionError, Terms
from speed.wire.limits import MAX_TOPIC_MESSAGE_BYTES
from speed.wire.message import MessageView
from speed.wire.message.splice import without_token
from speed.wire.names import bridge_name
from speed.wire.value import pack

NextOf = Callable[[str, str], int]
"""Of a lane, and of the topic where its messages go: how far they are there, as far as that is known."""
CUT_BYTES = MAX_TOPIC_MESSAGE_BYTES - 16_384
"""Of a dead letter; the rest is for what is said of it."""


@dataclass
class _Place:
    """Where a bridge stands in one topic."""

    lane: str
    target: str
    """What its topic is called at the other end; empty if it cannot be called anything."""
    messages: Messages
    hops: tuple[str, ...]
    settled: int
    next: int

    @property
    def hops_text(self) -> str:
        """Of records that no bridge brought."""
        return self.hops[0]

    def follow(self, cursor: int) -> None:
        """Others may move the cursor: retention forward, people anywhere."""
        if cursor > self.settled:
            self.next = max(self.next, cursor)
        elif cursor < self.settled:
            self.next = cursor
        self.settled = cursor


class TopicSource:
    """Records of the topics of a route, read behind a cursor."""

    def __init__(
        self,
        host: Host,
        topics: Backend,
        route: Route,
        bridge: str,
        *,
        node: str,
        namespace: str,
        start: str,
        next_of: NextOf,
        is_left_out: Callable[[str], bool],
    ) -> None:
        """``node`` is the host's; ``is_left_out`` says which topics are of dead letters."""
        self._host, self._topics, self._route = host, topics, route
        self._subscription, self._consumer = bridge_name(bridge), f"{node}/{bridge_name(bridge)}"
        self._node, self._namespace, self._next_of, self._is_left_out = node, namespace, next_of, is_left_out
        self._start: str = start
        self._places: dict[str, _Place] = {}
        self._fresh: dict[str, None] = {}
        """Topics in which something may be new; under the lock of the topics."""
        self._changed = threading.Event()
        self._look_again = 0.0
        host.watch(self._told)

    def _told(self, topic: str) -> None:
        if topic not in self._fresh and self._is_ours(topic):
            self._fresh[topic] = None
            self._changed.set()

    def _is_ours(self, topic: str) -> bool:
        return self._route.covers(topic) and not self._is_left_out(topic)

    def receive(self, most: int, seconds: float) -> list[Load]:
        """Of one topic after the other."""
        ends = monotonic() + seconds
        while True:
            self._changed.clear()
            if monotonic() >= self._look_again:
                self._look()
            loads = self._some(most)
            left = ends - monotonic()
            if loads or left <= 0:
                return loads
            self._changed.wait(min(left, REFRESH_SECONDS))

    def _look(self) -> None:
        """A bridge that is new begins where it is told; topics that come later are read from their beginning."""
        with self._topics.lock:
            ours = [topic for topic in self._topics.every() if self._is_ours(topic.name)]
            self._fresh.update((topic.name, None) for topic in ours)
            if any(self._is_joined(topic) for topic in ours):
                self._start = "earliest"
        self._look_again = monotonic() + REFRESH_SECONDS

    def _is_joined(self, topic: HostedTopic) -> bool:
        try:
            topic.group(self._subscription)
        except SubscriptionError as error:
            return error.code == "DAMAGED"
        return True

    def _some(self, most: int) -> list[Load]:
        while (name := self._taken()) is not None:
            try:
                place = self._place(name)
                stored = [] if place is None else self._read(name, place, most)
            except BaseException:
                self._put_back(name)
                raise
            if place is not None and stored:
                self._put_back(name)
                return [self._load(name, place, one) for one in stored]
        self._start = "earliest"
        return []

    def _taken(self) -> str | None:
        with self._topics.lock:
            name = next(iter(self._fresh), None)
            if name is not None:
                del self._fresh[name]
            return name

    def _put_back(self, name: str) -> None:
        with self._topics.lock:
            self._fresh.setdefault(name)

    def _place(self, name: str) -> _Place | None:
        """Where the bridge stands; None for a topic that is not there, or has dead letters by now."""
        with self._topics.lock:
            topic = self._topics.known(name) if self._is_ours(name) else None
            lane = topic.lane if topic else ""
        place = self._places.get(name)
        if not lane:
            self._places.pop(name, None)
            return None
        if place is None or place.lane != lane:
            place = self._places[name] = self._opened(name, lane)
        return place

    def _opened(self, name: str, lane: str) -> _Place:
        """Join; what the target has is passed over."""
        try:
            target = self._route.renamed(name)
        except InvalidNameError:
            target = ""
        there = self._next_of(lane, target) if target else 0
        with self._topics.lock:
            try:
                topic = self._topics.find(name)
                group = topic.subscribe(self._subscription, self._consumer, Terms("exclusive"), self._start)
                cursor = group.machine.cursor
                if cursor < there <= int(topic.described()["end"]):
                    cursor = topic.seek(self._subscription, there)
            except SubscriptionError as error:
                raise _told(error, name) from None
        messages = Messages(lane, target or name, self._namespace, self._node)
        return _Place(lane, target, messages, (hop_of_lane(lane),), cursor, cursor)

    def _read(self, name: str, place: _Place, most: int) -> list[Stored]:
        with self._topics.lock:
            try:
                topic = self._topics.find(name)
                place.follow(topic.group(self._subscription).machine.cursor)
            except SubscriptionError as error:
                del self._places[name]
                raise _told(error, name) from None
            place.next, stored = topic.read(place.next, most)
            return stored

    def _load(self, name: str, place: _Place, stored: Stored) -> Load:
        load = Load(place.lane, stored.offset + 1, name, str(stored.offset), stored.data, hops=place.hops, handle=place)
        if not place.target:
            load.code = "BAD_NAME"
            return load
        try:
            self._open(load, place, stored)
        except WireError as error:
            load.code = error.reason
        return load

    def _open(self, load: Load, place: _Place, stored: Stored) -> None:
        kept = place.messages.kept(stored.data)
        whole, hops = None, place.hops_text
        if place.messages.is_own(kept):
            load.hops = (*read_hops(place.messages.hops(kept)), *place.hops)
            whole, hops = place.messages.whole(kept), write_hops(load.hops)
        recorded_ms = stored.recorded_ms
        if whole is None:
            message_id, data = place.messages.message(kept, stored.offset, recorded_ms)
        else:
            view = MessageView(whole).validate()
            message_id, data, recorded_ms = view.message_id, without_token(whole), view.published_at_ms
            if view.is_expired(time.time_ns() // 1_000_000):
                load.code = EXPIRED
        key = kept.about.get("key")
        load.message = Outgoing(place.target, key, data, message_id, recorded_ms, None, hops)

    def settle(self, loads: Sequence[Load]) -> None:
        """Move the cursor of each topic behind the last of them."""
        ends = {load.topic: load for load in loads}
        with self._topics.lock:
            for name, load in ends.items():
                place: _Place = load.handle
                topic = self._topics.known(name)
                if topic is not None and self._places.get(name) is place and topic.lane == place.lane:
                    self._move(topic, place, load.sequence)

    def _move(self, topic: HostedTopic, place: _Place, to: int) -> None:
        """Unless it was moved back, or is further already."""
        try:
            cursor = topic.group(self._subscription).machine.cursor
            if place.settled <= cursor < to:
                place.settled = topic.seek(self._subscription, to)
        except SubscriptionError as error:
            raise _told(error, topic.name) from None

    def lag(self) -> int | None:
        """What is behind the cursors, and all of topics that are to be read whole."""
        with self._topics.lock:
            ours = [topic.described() for topic in self._topics.every() if self._is_ours(topic.name)]
        return sum(self._lag_of(one) for one in ours)

    def _lag_of(self, topic: Mapping[str, Any]) -> int:
        for one in topic["subscriptions"]:
            if one["subscription"] == self._subscription:
                return int(one["backlog"])
        return int(topic["end"] - topic["first"]) if self._start == "earliest" else 0

    def close(self) -> None:
        """Leave the subscriptions."""
        self._host.unwatch(self._told)
        with self._topics.lock:
            for name in self._places:
                topic = self._topics.known(name)
                if topic is not None and self._is_joined(topic):
                    topic.leave(topic.group(self._subscription), self._consumer)


class TopicSink:
    """Messages that are recorded."""

    most = MOST

    def __init__(self, topics: Backend, bridge: str, *, node: str, keep: str, makes: bool) -> None:
        """``node`` is the host's."""
        self._topics, self._bridge, self._node, self._keep, self._makes = topics, bridge, node, keep, makes

    def is_behind(self, load: Load) -> bool:
        """By the lane of its topic."""
        assert load.message is not None
        with self._topics.lock:
            topic = self._topics.known(load.message.topic)
            return topic is not None and hop_of_lane(topic.lane) in load.hops

    def unfit(self, load: Load) -> str:
        """That is found out when it is recorded."""
        return ""

    def publish(self, loads: Sequence[Load]) -> int:
        """One write for each topic and lane."""
        groups: dict[tuple[str, str], list[Load]] = {}
        for load in loads:
            assert load.message is not None
            groups.setdefault((load.message.topic, load.lane), []).append(load)
        return sum(self._record(topic, lane, group) for (topic, lane), group in groups.items())

    def _record(self, topic: str, lane: str, loads: Sequence[Load]) -> int:
        producer = _producer(self._bridge, lane)
        encoder = Encoder(self._node, producer)
        try:
            records = [encoder.record(self._record_of(load)) for load in loads]
            with self._topics.lock:
                found = self._topics.make(topic) if self._makes else self._topics.find(topic)
                named = Producer(self._node, producer) if producer else None
                return sum(one.is_repeated for one in found.publish(named, records))
        except SubscriptionError as error:
            raise _told(error, topic) from None

    def _record_of(self, load: Load) -> dict[str, object]:
        message = load.message
        assert message is not None
        view = load.view or MessageView(message.envelope)
        record = record_of(view, message.key, message.hops, keep=self._keep)
        return {**record, "sequence": load.sequence} if load.lane else record

    def close(self) -> None:
        """The topics are the host's to close."""


class DeadLetters:
    """The topic in which a bridge records what cannot be carried."""

    def __init__(self, topics: Backend, topic: str, bridge: str, node: str) -> None:
        self._topics, self._topic, self._bridge, self._node = topics, topic, bridge, node

    def bury(self, load: Load, code: str) -> None:
        """Record one; raises SpeedError."""
        properties = {"bridge": self._bridge, "code": code, "topic": load.topic, "position": load.position}
        data = _without_token(load.data)
        if len(data) > CUT_BYTES:
            properties["cut"] = str(len(data))
        producer = _producer(self._bridge, load.lane)
        record: dict[str, object] = {"payload": pack(data[:CUT_BYTES]), "properties": properties}
        if load.lane:
            record["sequence"] = load.sequence
        try:
            with self._topics.lock:
                named = Producer(self._node, producer) if producer else None
                self._topics.make(self._topic).publish(named, [Encoder(self._node, producer).record(record)])
        except SubscriptionError as error:
            raise _told(error, self._topic) from None


def _without_token(data: bytes) -> bytes:
    """Others may have stored one; it is not recorded here (B-1)."""
    try:
        return without_token(data)
    except WireError:
        return data  # it is no message


def _producer(bridge: str, lane: str) -> str:
    """Under which name what comes from a lane is published; nothing without one."""
    return f"{bridge_name(bridge)}.{sha256(lane.encode()).hexdigest()[:16]}" if lane else ""


def _told(error: SubscriptionError, topic: str) -> SpeedError:
    """What it means for a bridge."""
    if error.code == "INVALID_ARGUMENTS":
        return WireError("BAD_PAYLOAD", str(error))
    if error.code == "FULL":
        return BackendFullError(str(error))
    if error.code == "NOT_WRITTEN":
        return BackendAwayError(str(error))
    return BackendRefusedError(f"topic {topic!r} of this root ({error.code}): {error}")


__all__ = ["DeadLetters", "TopicSink", "TopicSource"]
