"""Durable topics as one end of a bridge, and as the place of dead letters (B-13, B-14, B-17)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from time import monotonic
from typing import Any

from speed.backends.backend import REFRESH_SECONDS, BackendAwayError, BackendFullError, BackendRefusedError, Outgoing
from speed.bridges import Route, hop_of_lane, read_hops, write_hops
from speed.bridges.bridge import EXPIRED, MAX_MESSAGES, Load
from speed.errors import InvalidNameError, SpeedError, WireError
from speed.message.errors import NotAvailableError
from speed.message.view import MessageView
from speed.message.writing import encode_head, encode_message, frame_of, without_token
from speed.topics.backend import HostedTopic, ProducerIdentity, StoredMessage, TopicStore
from speed.topics.host import Host, RecordEncoder
from speed.topics.subscription import SubscriptionError, Terms
from speed.wire.limits import MAX_TOPIC_MESSAGE_BYTES, MAX_TOPIC_PROPERTIES
from speed.wire.names import bridge_name
from speed.wire.records import ContentType, varint
from speed.wire.topic import TOMBSTONE, TRACE, KeptMessage, parts, read_about, trace_in
from speed.wire.value import BYTES_TYPE, JSON_TYPE, MSGPACK_TYPE, TEXT_TYPE, Content, pack, unpack

# Records of durable topics as messages, and messages as records (B-13). Pure.

PROPERTY = "bridge."
ID, PUBLISHER, HOPS, MESSAGE = "bridge.id", "bridge.publisher", "bridge.hops", "bridge.message"
TOMBSTONE_EXTENSION = "tombstone"
_NIL = b"\xc0"
_LANE_BITS = 40
_TIME_MASK = (1 << 48) - 1
_FORM_ID = "00000000-0000-0000-0000-000000000000"
_FORM_MS = (1 << 41) - 1
_TIME_BYTES = 6
"""Its varint is no text, so it is found in a head; most times have one of this length."""
_MAX_FORMS = 1024


class Messages:
    """Makes messages of the records of one topic. For one thread.

    Args:
        lane: id of the topic's lane.
        topic: what the messages say.
        host: the node that hosts the topic: what it published itself, a bridge did.
    """

    def __init__(self, lane: str, topic: str, namespace: str, host: str) -> None:
        self._topic, self._namespace, self._host = topic, namespace, host
        self._lane = sha256(bytes.fromhex(lane)).hexdigest()[: _LANE_BITS // 4]
        self._time = -1, ""
        """The time of the last id, and how it begins."""
        self._forms: dict[tuple[str, str], _RecordForm] = {}
        self._read: dict[bytes, dict[str, Any]] = {}
        """What was said of messages before: it is mostly the same again."""

    def kept(self, data: bytes) -> KeptMessage:
        """A record. WireError."""
        head, packed, payload = parts(data)
        about = self._read.get(packed)
        if about is None:
            if len(self._read) >= _MAX_FORMS:
                self._read.clear()
            about = self._read[packed] = read_about(packed)
        return KeptMessage(head, about, payload)

    def message_id(self, offset: int, recorded_ms: int) -> str:
        """The same again for the same record; greater than those of records before it."""
        if recorded_ms != self._time[0]:
            time = f"{recorded_ms & _TIME_MASK:012x}"
            self._time = recorded_ms, f"{time[:8]}-{time[8:]}-7"
        high, low = offset >> 22 & 0xFFF, offset & 0x3FFFFF
        return f"{self._time[1]}{high:03x}-{0x8000 | low >> 8:04x}-{low & 0xFF:02x}{self._lane}"

    def whole(self, kept: KeptMessage) -> bytes | None:
        """The message that a bridge's record holds, if it is a whole one; WireError."""
        if MESSAGE not in kept.about.get("properties", {}):
            return None
        held = unpack(kept.payload)
        if not isinstance(held, bytes):
            raise WireError("BAD_MESSAGE", "the record holds no message")
        return held

    def hops(self, kept: KeptMessage) -> str:
        """What a bridge wrote beside its record."""
        return str(kept.about.get("properties", {}).get(HOPS, ""))

    def is_own(self, kept: KeptMessage) -> bool:
        """Whether a bridge recorded it."""
        return bool(kept.about.get("publisher", "") == self._host)

    def message(self, kept: KeptMessage, offset: int, recorded_ms: int) -> tuple[str, bytes]:
        """Id and bytes of a record's message. WireError."""
        about = kept.about
        custom, payload = _content(kept)
        publisher = str(about.get("publisher", ""))
        properties: Mapping[str, str] = about.get("properties", {})
        if not properties and kept.head.type != TOMBSTONE:  # most have none
            message_id = self.message_id(offset, recorded_ms)
            return message_id, self._form(custom, publisher).message(message_id, recorded_ms, payload)
        own = properties if self.is_own(kept) else {}
        message_id = own.get(ID) or self.message_id(offset, recorded_ms)
        return message_id, encode_message(
            Content(ContentType.CUSTOM, custom, None, payload),
            topic=self._topic,
            namespace=self._namespace,
            message_id=message_id,
            published_at_ms=recorded_ms,
            publisher_id=own.get(PUBLISHER) or publisher or None,
            labels={name: text for name, text in properties.items() if not name.startswith(PROPERTY) and name != TRACE},
            traceparent=trace_in(properties),
            extensions={TOMBSTONE_EXTENSION: b""} if kept.head.type == TOMBSTONE else None,
        )

    def _form(self, custom: str, publisher: str) -> _RecordForm:
        form = self._forms.get((custom, publisher))
        if form is None:
            if len(self._forms) >= _MAX_FORMS:
                self._forms.clear()
            form = self._forms[custom, publisher] = _RecordForm(custom, self._topic, self._namespace, publisher)
        return form


def _content(kept: KeptMessage) -> tuple[str, bytes]:
    """Type and bytes: the payload as it is packed, but for text and bytes, which have types of their own (M-10).

    The host has looked at it, so it is one value.
    """
    payload = kept.payload or _NIL
    first = payload[0]
    if 0xA0 <= first <= 0xBF:
        return TEXT_TYPE, payload[1:]
    typed = _HEADS.get(first)
    return (MSGPACK_TYPE, payload) if typed is None else (typed[0], payload[typed[1] :])


_HEADS = {
    **{0xC4 + place: (BYTES_TYPE, size) for place, size in enumerate((2, 3, 5))},
    **{0xD9 + place: (TEXT_TYPE, size) for place, size in enumerate((2, 3, 5))},
}
"""How values of bytes and text begin, and how long that is."""
_frame = lru_cache(4096)(frame_of)


class _RecordForm:
    """Messages of one topic, type and publisher: only id, time and payload differ."""

    def __init__(self, custom: str, topic: str, namespace: str, publisher: str) -> None:
        self._metadata: dict[str, Any] = {"topic": topic, "namespace": namespace, "publisher_id": publisher or None}
        self._custom = custom
        head = encode_head(
            Content(ContentType.CUSTOM, custom, None, b""),
            message_id=_FORM_ID,
            published_at_ms=_FORM_MS,
            **self._metadata,
        )
        self._begin, _, rest = head.partition(_FORM_ID.encode())
        self._between, _, self._end = rest.partition(varint(_FORM_MS))
        self._ms, self._rest = -1, b""
        """Of the last message: when it was published, and what stands behind its id."""

    def message(self, message_id: str, published_at_ms: int, data: bytes) -> bytes:
        if published_at_ms != self._ms:
            time = varint(published_at_ms)
            if len(time) != _TIME_BYTES:  # of a clock that is decades off
                content = Content(ContentType.CUSTOM, self._custom, None, data)
                return encode_message(content, message_id=message_id, published_at_ms=published_at_ms, **self._metadata)
            self._ms, self._rest = published_at_ms, self._between + time + self._end
        return b"".join((self._begin, message_id.encode(), self._rest, _frame(len(data)), data))


def record_of(view: MessageView, key: str | None, hops: str, *, keep: str) -> dict[str, Any]:
    """A valid message as it is published in a topic (D-5). NotAvailableError, WireError, UnserialisableError."""
    properties, publisher = {ID: view.message_id}, view.publisher_id
    if publisher:
        properties[PUBLISHER] = publisher
    if hops:
        properties[HOPS] = hops
    record: dict[str, Any] = {} if key is None else {"key": key}
    if keep == "message":
        return {**record, "payload": pack(view.to_bytes()), "properties": {**properties, MESSAGE: "1"}}
    labels, trace = view.labels, view.traceparent
    if trace and len(labels) + len(properties) < MAX_TOPIC_PROPERTIES:
        labels = {**labels, TRACE: trace}
    if labels:
        properties = {**{name: text for name, text in labels.items() if not name.startswith(PROPERTY)}, **properties}
    record["properties"] = properties
    if key is not None and TOMBSTONE_EXTENSION in view.extensions:
        return {**record, "payload": b"", "tombstone": True}
    return {**record, "payload": _packed(view)}


def _packed(view: MessageView) -> bytes:
    """The value that a message holds, as topics keep it."""
    if not view.has_publisher_only and (view.is_encrypted or view.security.signature):
        raise NotAvailableError("it is signed or encrypted: set keep = 'message' to record it whole")
    if view.content_encoding != "none":
        raise NotAvailableError("it is compressed: set keep = 'message' to record it whole")
    content_type = view.content_type
    if content_type == MSGPACK_TYPE:
        return bytes(view.payload_bytes)
    return pack(view.payload if content_type in _VALUES else bytes(view.payload_bytes))


_VALUES = (TEXT_TYPE, JSON_TYPE)
"""What else is decoded; all other types are recorded as their bytes."""


NextOf = Callable[[str, str], int]
"""Of a lane, and of the topic where its messages go: how far they are there, as far as that is known."""
CUT_BYTES = MAX_TOPIC_MESSAGE_BYTES - 16_384
"""Of a dead letter; the rest is for what is said of it."""


@dataclass
class _TopicPosition:
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
        topics: TopicStore,
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
        self._places: dict[str, _TopicPosition] = {}
        self._fresh: dict[str, None] = {}
        """Topics in which something may be new; under the lock of the topics."""
        self._changed = threading.Event()
        self._look_again = 0.0
        host.watch(self._note_change)

    def _note_change(self, topic: str) -> None:
        if topic not in self._fresh and self._is_ours(topic):
            self._fresh[topic] = None
            self._changed.set()

    def _is_ours(self, topic: str) -> bool:
        return self._route.covers(topic) and not self._is_left_out(topic)

    def receive(self, limit: int, seconds: float) -> list[Load]:
        """Of one topic after the other."""
        ends = monotonic() + seconds
        while True:
            self._changed.clear()
            if monotonic() >= self._look_again:
                self._look()
            loads = self._some(limit)
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

    def _some(self, limit: int) -> list[Load]:
        while (name := self._taken()) is not None:
            try:
                place = self._place(name)
                stored = [] if place is None else self._read(name, place, limit)
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

    def _place(self, name: str) -> _TopicPosition | None:
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

    def _opened(self, name: str, lane: str) -> _TopicPosition:
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
                raise _bridge_error(error, name) from None
        messages = Messages(lane, target or name, self._namespace, self._node)
        return _TopicPosition(lane, target, messages, (hop_of_lane(lane),), cursor, cursor)

    def _read(self, name: str, place: _TopicPosition, limit: int) -> list[StoredMessage]:
        with self._topics.lock:
            try:
                topic = self._topics.find(name)
                place.follow(topic.group(self._subscription).machine.cursor)
            except SubscriptionError as error:
                del self._places[name]
                raise _bridge_error(error, name) from None
            place.next, stored = topic.read(place.next, limit)
            return stored

    def _load(self, name: str, place: _TopicPosition, stored: StoredMessage) -> Load:
        load = Load(place.lane, stored.offset + 1, name, str(stored.offset), stored.data, hops=place.hops, handle=place)
        if not place.target:
            load.code = "BAD_NAME"
            return load
        try:
            self._open(load, place, stored)
        except WireError as error:
            load.code = error.reason
        return load

    def _open(self, load: Load, place: _TopicPosition, stored: StoredMessage) -> None:
        kept = place.messages.kept(stored.data)
        whole, hops = None, place.hops_text
        if place.messages.is_own(kept):
            load.hops = (*read_hops(place.messages.hops(kept)), *place.hops)
            whole, hops = place.messages.whole(kept), write_hops(load.hops)
        recorded_ms = stored.recorded_ms
        if whole is None:
            message_id, data = place.messages.message(kept, stored.offset, recorded_ms)
            trace = trace_in(kept.about.get("properties", {}))
        else:
            view = MessageView(whole).validate()
            message_id, data, recorded_ms = view.message_id, without_token(whole), view.published_at_ms
            trace = view.traceparent
            if view.is_expired(time.time_ns() // 1_000_000):
                load.code = EXPIRED
        key = kept.about.get("key")
        trace_id = trace.split("-")[1] if trace else None
        load.message = Outgoing(place.target, key, data, message_id, recorded_ms, trace_id, hops)

    def settle(self, loads: Sequence[Load]) -> None:
        """Move the cursor of each topic behind the last of them."""
        ends = {load.topic: load for load in loads}
        with self._topics.lock:
            for name, load in ends.items():
                place: _TopicPosition = load.handle
                topic = self._topics.known(name)
                if topic is not None and self._places.get(name) is place and topic.lane == place.lane:
                    self._move(topic, place, load.sequence)

    def _move(self, topic: HostedTopic, place: _TopicPosition, to: int) -> None:
        """Unless it was moved back, or is further already."""
        try:
            cursor = topic.group(self._subscription).machine.cursor
            if place.settled <= cursor < to:
                place.settled = topic.seek(self._subscription, to)
        except SubscriptionError as error:
            raise _bridge_error(error, topic.name) from None

    def check(self) -> None:
        """The topics are this process's own."""

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
        self._host.unwatch(self._note_change)
        with self._topics.lock:
            for name in self._places:
                topic = self._topics.known(name)
                if topic is not None and self._is_joined(topic):
                    topic.leave(topic.group(self._subscription), self._consumer)


class TopicSink:
    """Messages that are recorded."""

    limit = MAX_MESSAGES

    def __init__(self, topics: TopicStore, bridge: str, *, node: str, keep: str, makes: bool) -> None:
        """``node`` is the host's."""
        self._topics, self._bridge, self._node, self._keep, self._makes = topics, bridge, node, keep, makes

    def is_loop(self, load: Load) -> bool:
        """The lane of its topic tells."""
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
        encoder = RecordEncoder(self._node, producer)
        try:
            records = [encoder.record(self._record_of(load)) for load in loads]
            with self._topics.lock:
                found = self._topics.make(topic) if self._makes else self._topics.find(topic)
                named = ProducerIdentity(self._node, producer) if producer else None
                return sum(one.is_repeated for one in found.publish(named, records))
        except SubscriptionError as error:
            raise _bridge_error(error, topic) from None

    def _record_of(self, load: Load) -> dict[str, object]:
        message = load.message
        assert message is not None
        view = load.view or MessageView(message.envelope)
        record = record_of(view, message.key, message.hops, keep=self._keep)
        return {**record, "sequence": load.sequence} if load.lane else record

    def check(self) -> None:
        """The topics are this process's own."""

    def close(self) -> None:
        """The topics are the host's to close."""


class DeadLetterTopic:
    """The topic in which a bridge records what cannot be carried."""

    def __init__(self, topics: TopicStore, topic: str, bridge: str, node: str) -> None:
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
                named = ProducerIdentity(self._node, producer) if producer else None
                self._topics.make(self._topic).publish(named, [RecordEncoder(self._node, producer).record(record)])
        except SubscriptionError as error:
            raise _bridge_error(error, self._topic) from None


def _without_token(data: bytes) -> bytes:
    """Others may have stored one; it is not recorded here (B-1)."""
    try:
        return without_token(data)
    except WireError:
        return data  # it is no message


def _producer(bridge: str, lane: str) -> str:
    """Under which name what comes from a lane is published; nothing without one."""
    return f"{bridge_name(bridge)}.{sha256(lane.encode()).hexdigest()[:16]}" if lane else ""


def _bridge_error(error: SubscriptionError, topic: str) -> SpeedError:
    """The error of a bridge for an error of a topic."""
    if error.code == "INVALID_ARGUMENTS":
        return WireError("BAD_PAYLOAD", str(error))
    if error.code == "FULL":
        return BackendFullError(str(error))
    if error.code == "NOT_WRITTEN":
        return BackendAwayError(str(error))
    return BackendRefusedError(f"topic {topic!r} of this root ({error.code}): {error}")
