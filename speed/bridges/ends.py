"""A backend as one end of a bridge (B-9, B-14, B-16)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import cast

from speed.bridges.address import Address
from speed.bridges.backend import Backend, BackendSubscription, Delivered, Outgoing, Place, PlacingBackend
from speed.bridges.bridge import BATCH_BYTES, EXPIRED, FILTERED, PUBLISH_SECONDS, Load
from speed.bridges.route import Route, hop_of, read_hops, write_hops
from speed.errors import InvalidNameError, WireError
from speed.wire.message import MessageView
from speed.wire.message.reader import MessageReader
from speed.wire.message.splice import without_token

FIRST_MESSAGES = 64
"""Asked for at once while nobody knows how large they are."""


class BackendSource:
    """Messages that a group consumes."""

    def __init__(
        self, backend: Backend, address: Address, route: Route, group: str, start: str, max_message_bytes: int
    ) -> None:
        self._backend, self._route = backend, route
        self._most_bytes = max_message_bytes
        self._hops = BackendHops(address)
        self._subscription: BackendSubscription = backend.subscribe(route.pattern, group, start, alone=True)
        self._most, self._bound = FIRST_MESSAGES, backend.most_at_once
        self._reader = MessageReader()
        self._holds = False
        """Whether something is not settled."""

    def receive(self, most: int, seconds: float) -> list[Load]:
        """As many as make a batch; nothing while that would keep what is held from being acknowledged for good."""
        if self._holds and not self._backend.takes_ahead:
            return []
        delivered = self._subscription.receive(min(most, self._most), seconds)
        if delivered:
            average = sum(len(one.envelope) for one in delivered) // len(delivered)
            self._holds = True
            self._most = min(2 * self._most, self._bound, max(1, BATCH_BYTES // max(1, average)))
        now_ms = time.time_ns() // 1_000_000
        return [self._load(one, now_ms) for one in delivered]

    def _load(self, one: Delivered, now_ms: int) -> Load:
        sequence = one.sequence + 1 if one.lane else 0
        load = Load(one.lane, sequence, one.topic, one.position, one.envelope, handle=one)
        if len(one.envelope) > self._most_bytes:
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
            one.envelope if view.says_only_publisher else without_token(one.envelope),
            view.message_id,
            view.published_at_ms,
            None,  # no end in the root asks for its trace
            write_hops(load.hops),
        )

    def settle(self, loads: Sequence[Load]) -> None:
        """Acknowledge them."""
        self._subscription.acknowledge([load.handle for load in loads])
        self._holds = False

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
        self.most = backend.most_at_once

    def is_behind(self, load: Load) -> bool:
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

    def _not_kept(self, loads: Sequence[Load]) -> Sequence[Load]:
        return [load for load in loads if load.sequence > self._kept.get(load.lane, -1)] if self._kept else loads

    def _place(self, load: Load) -> Place:
        assert load.message is not None
        return Place(self._bridge, load.lane, load.message.topic, load.sequence, self._there.get(load.lane, 0))

    def next_of(self, lane: str, topic: str) -> int:
        """How far the messages of a lane of the source are in ``topic`` there; 0 if that is not known."""
        if self._placing is None or not self._placing.keeps_places:
            return 0
        there = self._placing.next_of(Place(self._bridge, lane, topic, 0), PUBLISH_SECONDS)
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

__all__ = ["BackendSink", "BackendSource"]
