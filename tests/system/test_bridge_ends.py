"""Durable topics and events of a root as ends of a bridge, whose other end is in memory (B-12 to B-17)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.backends.backend import BackendAwayError, BackendFullError, BackendRefusedError, Outgoing
from speed.bridges import Filter, Route, hop_of_lane
from speed.bridges.bridge import Bridge, Load
from speed.bridges.ends import EventSink, EventSource, Positions, event_hop
from speed.bridges.topic_ends import CUT_BYTES, DeadLetterTopic, TopicSink, TopicSource
from speed.errors import StorageError, WireError
from speed.journal import Journal
from speed.journal.recording import Recorder, RecordingRule
from speed.journal.writer import JournalWriter
from speed.message.view import MessageView
from speed.message.writing import encode_message, with_security
from speed.topics.catalogue import Catalogue
from speed.topics.host import Access, Grants, Host, RecordEncoder
from speed.topics.subscription import Terms
from speed.topics.topic import Keeping
from speed.wire.topic import decode
from speed.wire.value import pack, unpack
from tests.system.topics import until

pytestmark = pytest.mark.system

HOST = "speedd.topics"
NOW_MS = 1_718_000_000_000


class World:
    """Topics in files, their host, and what is opened on them."""

    def __init__(self, node: speed.Node, root: str) -> None:
        self.root = root
        self.catalogue = Catalogue(f"{root}/topics", f"{root}/speed.key", HOST, keeping=Keeping(max_bytes=1 << 20))
        self.host = Host(node, self.catalogue, Access(Grants((), (), ()), {}))
        self.opened: list[TopicSource] = []
        self.there: dict[str, int] = {}
        """How far each lane is at the other end."""
        self.make("orders.made")

    def make(self, *topics: str) -> None:
        with self.catalogue.lock:
            for topic in topics:
                self.catalogue.make(topic)

    def publish(self, topic: str, *values: Any, **said: Any) -> None:
        encoded = [{"payload": pack(value), **said} for value in values]
        self.record(topic, encoded)

    def record(self, topic: str, messages: Sequence[dict[str, Any]], node: str = "shop") -> None:
        with self.catalogue.lock:
            self.catalogue.find(topic).publish(None, [RecordEncoder(node, "").record(one) for one in messages])

    def lane(self, topic: str) -> str:
        return self.catalogue.find(topic).lane

    def source(self, pattern: str = "orders.*", rename: str = "", start: str = "earliest", **how: Any) -> TopicSource:
        one = TopicSource(
            self.host,
            self.catalogue,
            Route(pattern, rename),
            "b",
            node=HOST,
            namespace="default",
            start=start,
            next_of=how.get("next_of", lambda lane, _: self.there.get(lane, 0)),
            is_left_out=lambda topic: topic in how.get("left_out", ()),
        )
        self.opened.append(one)
        return one

    def sink(self, **how: Any) -> TopicSink:
        return TopicSink(self.catalogue, "b", **{"node": HOST, "keep": "payload", "makes": False, **how})

    def cursor(self, topic: str = "orders.made") -> int:
        return self.catalogue.find(topic).group("bridge.b").machine.cursor

    def values(self, topic: str) -> list[Any]:
        with self.catalogue.lock:
            _, kept = self.catalogue.find(topic).read(0, 4096)
        return [unpack(payload) for payload in (decode(one.data).payload for one in kept) if payload]

    def close(self) -> None:
        for one in self.opened:
            one.close()
        self.host.close()
        self.catalogue.close()


@pytest.fixture
def world(node: Callable[..., speed.Node], root: str) -> Iterator[World]:
    with closing(World(node(HOST), root)) as one:
        yield one


def taken(source: TopicSource | EventSource, most: int = 100) -> list[Any]:
    """The values of what it gives, which is settled."""
    loads = source.receive(most, 0.0)
    source.settle(loads)
    return [payload_of(one) for one in loads]


def payload_of(load: Load) -> Any:
    assert load.message is not None, load.code
    return MessageView(load.message.envelope).validate().payload


# --- from topics ---


def test_records_come_in_their_order_under_the_name_of_the_other_end(world: World) -> None:
    """B-12, B-13."""
    world.publish("orders.made", 1, "two", key="k")
    loads = world.source(rename="eu.*").receive(100, 0.0)
    assert [payload_of(one) for one in loads] == [1, "two"]
    assert [one.sequence for one in loads] == [1, 2]
    message = loads[0].message
    assert message is not None
    assert (message.topic, message.key) == ("eu.made", "k")
    assert loads[0].lane == world.lane("orders.made")
    assert loads[0].hops == (hop_of_lane(loads[0].lane),)
    assert message.hops == ",".join(loads[0].hops)


def test_what_is_settled_does_not_come_to_the_heir(world: World) -> None:
    """B-14."""
    world.publish("orders.made", *range(5))
    first = world.source()
    loads = first.receive(3, 0.0)
    first.settle(loads)
    assert [payload_of(one) for one in first.receive(1, 0.0)] == [3]
    assert (world.cursor(), first.lag()) == (3, 2)
    first.close()
    world.opened.clear()
    assert taken(world.source()) == [3, 4]
    assert world.cursor() == 5


def test_what_the_target_has_is_passed_over(world: World) -> None:
    """B-14."""
    world.publish("orders.made", *range(5))
    world.there[world.lane("orders.made")] = 3
    assert taken(world.source()) == [3, 4]


def test_a_place_beyond_the_end_is_of_another_copy(world: World) -> None:
    """B-14."""
    world.publish("orders.made", 1)
    world.there[world.lane("orders.made")] = 30
    assert taken(world.source()) == [1]


def test_a_target_that_cannot_tell_is_asked_again(world: World) -> None:
    """B-14."""
    world.publish("orders.made", 1)
    failing = deque([BackendAwayError("gone")])

    def next_of(lane: str, topic: str) -> int:
        if failing:
            raise failing.popleft()
        return 0

    source = world.source(next_of=next_of)
    with pytest.raises(BackendAwayError):
        source.receive(100, 0.0)
    assert taken(source) == [1]


def test_a_new_bridge_begins_at_the_end_and_reads_later_topics_whole(world: World) -> None:
    """B-14."""
    world.publish("orders.made", "before")
    source = world.source(start="latest")
    assert taken(source) == []
    world.publish("orders.made", "after")
    world.make("orders.paid")
    world.publish("orders.paid", "first")
    assert sorted(taken(source) + taken(source)) == ["after", "first"]


def test_a_bridge_that_is_not_new_reads_topics_whole_that_came_while_it_was_away(world: World) -> None:
    """B-14."""
    first = world.source(start="latest")
    assert taken(first) == []
    first.close()
    world.opened.clear()
    world.make("orders.paid")
    world.publish("orders.paid", "first")
    assert taken(world.source(start="latest")) == ["first"]


def test_who_waits_is_woken_by_what_is_published(world: World) -> None:
    """B-11."""
    source = world.source()
    assert source.receive(100, 0.0) == []
    found: list[Load] = []
    waiting = threading.Thread(target=lambda: found.extend(source.receive(100, 30.0)))
    waiting.start()
    world.publish("orders.made", 1)
    waiting.join(20)
    assert [payload_of(one) for one in found] == [1]


def test_topics_of_dead_letters_and_of_other_patterns_are_left_out(world: World) -> None:
    """B-17."""
    world.make("orders.lost", "stock")
    for topic in ("orders.lost", "stock", "orders.made"):
        world.publish(topic, topic)
    source = world.source(left_out=["orders.lost"])
    assert taken(source) + taken(source) == ["orders.made"]


def test_people_may_move_the_cursor_of_a_bridge(world: World) -> None:
    """B-14."""
    world.publish("orders.made", *range(4))
    source = world.source()
    assert taken(source) == [0, 1, 2, 3]
    with world.catalogue.lock:
        world.catalogue.find("orders.made").seek("bridge.b", 1)
    loads = source.receive(1, 0.0)
    assert [payload_of(one) for one in loads] == [1]
    with world.catalogue.lock:
        world.catalogue.find("orders.made").seek("bridge.b", 0)
    source.settle(loads)
    assert world.cursor() == 0  # what was moved back stays there
    assert taken(source) == [0, 1, 2, 3]
    with world.catalogue.lock:
        world.catalogue.find("orders.made").seek("bridge.b", 2)
    assert taken(source, 1) == [2]
    loads = source.receive(1, 0.0)
    with world.catalogue.lock:
        world.catalogue.find("orders.made").seek("bridge.b", "latest")
    source.settle(loads)
    assert world.cursor() == 4
    assert taken(source) == []


def test_a_topic_that_is_removed_and_made_anew_is_read_from_its_beginning(world: World) -> None:
    """B-14."""
    world.publish("orders.made", "old")
    source = world.source()
    loads = source.receive(100, 0.0)
    with world.catalogue.lock:
        world.catalogue.remove("orders.made")
    source.settle(loads)
    assert source.receive(100, 0.0) == []
    assert source.lag() == 0
    world.make("orders.made")
    world.publish("orders.made", "new")
    assert taken(source) == ["new"]


def test_another_consumer_of_the_subscription_is_in_the_way(world: World) -> None:
    """B-14."""
    world.publish("orders.made", 1)
    with world.catalogue.lock:
        topic = world.catalogue.find("orders.made")
        group = topic.subscribe("bridge.b", "shop/other", Terms("exclusive"), "earliest")
    source = world.source()
    with pytest.raises(BackendRefusedError, match="TAKEN"):
        source.receive(100, 0.0)
    with world.catalogue.lock:
        topic.leave(group, "shop/other")
    assert taken(source) == [1]


def test_a_subscription_that_is_removed_is_begun_anew(world: World) -> None:
    """B-14."""
    world.publish("orders.made", 1)
    source = world.source()
    assert taken(source) == [1]
    with world.catalogue.lock:
        topic = world.catalogue.find("orders.made")
        topic.leave(topic.group("bridge.b"), f"{HOST}/bridge.b")
        topic.unsubscribe("bridge.b")
    world.publish("orders.made", 2)
    with pytest.raises(BackendRefusedError, match="UNKNOWN_SUBSCRIPTION"):
        source.receive(100, 0.0)
    assert taken(source) == [1, 2]


def test_a_topic_whose_new_name_would_be_too_long_has_dead_letters(world: World) -> None:
    """B-17."""
    world.publish("orders.made", 1)
    (load,) = world.source(rename=f"{'a.' * 126}*").receive(100, 0.0)
    assert (load.code, load.message) == ("BAD_NAME", None)


def test_a_record_that_holds_no_message_is_a_dead_letter(world: World) -> None:
    """B-17."""
    one = {"payload": pack(b"garbage"), "properties": {"bridge.message": "1"}}
    world.record("orders.made", [one], HOST)
    (load,) = world.source().receive(100, 0.0)
    assert load.code == "BAD_MESSAGE"


# --- into topics ---


def message(value: Any, number: int, **metadata: Any) -> Load:
    head = {"topic": "orders.made", "namespace": "n", "message_id": f"m{number}", "published_at_ms": NOW_MS}
    data = encode_message(value, **{**head, **metadata})
    outgoing = Outgoing("orders.made", f"k{number % 2}", data, f"m{number}", NOW_MS, None, "0123456789abcdef")
    hops = ("0123456789abcdef",)
    return Load("orders/0", number, "orders.made", f"0:{number}", data, outgoing, MessageView(data), hops=hops)


def test_messages_are_recorded_with_what_is_said_of_them(world: World) -> None:
    """B-13."""
    assert world.sink().publish([message({"n": 1}, 1, labels={"region": "eu"}, publisher_id="till")]) == 0
    with world.catalogue.lock:
        _, (one,) = world.catalogue.find("orders.made").read(0, 10)
    kept = decode(one.data)
    assert unpack(kept.payload) == {"n": 1}
    assert kept.about["key"] == "k1"
    assert kept.about["publisher"] == HOST
    assert kept.about["properties"] == {
        "region": "eu",
        "bridge.id": "m1",
        "bridge.publisher": "till",
        "bridge.hops": "0123456789abcdef",
    }


def test_what_comes_again_from_a_lane_is_recorded_once(world: World) -> None:
    """B-14."""
    sink = world.sink()
    loads = [message(number, number) for number in range(1, 4)]
    assert sink.publish(loads[:2]) == 0
    assert world.sink().publish(loads) == 2
    assert world.values("orders.made") == [1, 2, 3]


def test_what_is_in_no_lane_is_recorded_again(world: World) -> None:
    """B-14."""
    one = message(1, 1)
    one.lane, one.sequence = "", 0
    world.sink().publish([one])
    world.sink().publish([one])
    assert world.values("orders.made") == [1, 1]


def test_a_topic_that_is_not_there_is_waited_for_or_made(world: World) -> None:
    """B-12."""
    one = message(1, 1)
    one.message = Outgoing("orders.new", None, one.data, "m1", NOW_MS, None)
    with pytest.raises(BackendRefusedError, match="UNKNOWN_TOPIC"):
        world.sink().publish([one])
    assert not world.sink(makes=True).is_loop(one)
    world.sink(makes=True).publish([one])
    assert world.values("orders.new") == [1]


def test_a_topic_knows_what_was_there(world: World) -> None:
    """B-16."""
    one = message(1, 1)
    assert not world.sink().is_loop(one)
    one.hops = ("0123456789abcdef", hop_of_lane(world.lane("orders.made")))
    assert world.sink().is_loop(one)


def test_a_topic_that_is_full_is_waited_for(node: Callable[..., speed.Node], root: str) -> None:
    """B-18."""
    keeping = Keeping(max_bytes=1 << 16, backlog="refuse")
    catalogue = Catalogue(f"{root}/full", f"{root}/speed.key", HOST, keeping=keeping)
    with closing(catalogue):
        with catalogue.lock:
            topic = catalogue.make("orders.made")
            topic.subscribe("slow", "c/d", Terms("shared"), "earliest")
        sink = TopicSink(catalogue, "b", node=HOST, keep="payload", makes=False)
        sink.publish([message("x" * 70_000, 1)])
        with pytest.raises(BackendFullError):
            sink.publish([message("x" * 70_000, 2)])


def test_what_no_topic_takes_is_told_as_broken(world: World) -> None:
    """B-17."""
    with pytest.raises(WireError, match="BAD_PAYLOAD"):
        world.sink().publish([message(1, 1, labels={f"l{number}": "x" for number in range(100)})])


def test_whole_messages_are_recorded_if_they_are_asked_for(world: World) -> None:
    """B-13."""
    one = message(1, 1)
    world.sink(keep="message").publish([one])
    assert world.values("orders.made") == [one.data]
    source = world.source()
    (load,) = source.receive(10, 0.0)
    assert load.message is not None
    assert load.message.envelope == one.data
    assert load.message.message_id == "m1"
    assert load.hops[0] == "0123456789abcdef"
    assert len(load.hops) == 2


def test_a_whole_message_may_expire_on_its_way(world: World) -> None:
    """B-17."""
    world.sink(keep="message").publish([message(1, 1, ttl_seconds=1)])
    (load,) = world.source().receive(10, 0.0)
    assert load.code == "expired"


def test_dead_letters_say_what_they_were(world: World) -> None:
    """B-17."""
    letters = DeadLetterTopic(world.catalogue, "lost", "b", HOST)
    for _ in range(2):
        letters.bury(Load("orders/0", 7, "orders.made", "0:6", b"garbage"), "BAD_MESSAGE")
    letters.bury(Load("", 0, "orders.made", "x", b"y" * (CUT_BYTES + 1)), "TOO_LARGE")
    with world.catalogue.lock:
        _, kept = world.catalogue.find("lost").read(0, 10)
    first, second = (decode(one.data) for one in kept)
    assert unpack(first.payload) == b"garbage"
    said = {"bridge": "b", "code": "BAD_MESSAGE", "topic": "orders.made", "position": "0:6"}
    assert first.about["properties"] == said
    assert len(unpack(second.payload)) == CUT_BYTES
    assert second.about["properties"]["cut"] == str(CUT_BYTES + 1)


def test_a_dead_letter_has_no_token(world: World) -> None:
    """B-1."""
    data = with_security(message("x", 1).data, b"\x1a\x0bhidden-word")
    DeadLetterTopic(world.catalogue, "lost", "b", HOST).bury(Load("", 0, "orders.made", "x", data), "TOO_LARGE")
    (kept,) = world.values("lost")
    assert kept == message("x", 1).data


def test_a_dead_letter_that_has_no_topic_is_told(world: World) -> None:
    """B-17."""
    world.catalogue.broken["lost"] = "it is cut"
    with pytest.raises(BackendRefusedError, match="DAMAGED"):
        DeadLetterTopic(world.catalogue, "lost", "b", HOST).bury(Load("", 0, "t", "x", b""), "TOO_LARGE")


def test_two_topics_that_are_bridged_both_ways_have_each_message_once(world: World) -> None:
    """B-16."""
    world.make("left", "right")
    there, back = (
        Bridge(
            name,
            world.source(source, target),
            world.sink(),
            wanted=Filter({}),
            max_message_bytes=1 << 20,
        )
        for name, source, target in (("there", "left", "right"), ("back", "right", "left"))
    )
    world.publish("left", 1)
    world.publish("right", 2)
    for _ in range(3):
        there.turn(0.0)
        back.turn(0.0)
    assert (world.values("left"), world.values("right")) == ([1, 2], [2, 1])
    assert [one.row()["looped"] for one in (there, back)] == [1, 1]
    there._sinking.shutdown()
    back._sinking.shutdown()


# --- events ---


class EventWorld:
    """A journal, and nodes whose events it records."""

    def __init__(self, node: Callable[..., speed.Node], root: str) -> None:
        self.root, self.key = root, f"{root}/speed.key"
        self.directory = f"{root}/journal"
        self.writer = JournalWriter(self.directory, self.key, volume_bytes=1 << 16, max_bytes=1 << 20)
        recorded = RecordingRule(("orders.*",), (), ("shop", "speedd.bridges"))
        self.recorder = Recorder(self.writer, recorded, "speedd.journal", root=root, key=self.key)
        self.shop = node("shop")
        self.bridges = node("speedd.bridges")
        self.shop.wait_for("speedd.journal")
        self.there: dict[str, int] = {}
        self.opened: list[EventSource] = []

    def publish(self, topic: str, *values: Any, by: speed.Node | None = None) -> None:
        """Each is recorded when this returns."""
        for value in values:
            (by or self.shop).publish(topic, value)
        until(lambda: self.count(topic) >= len(values))

    def count(self, topic: str) -> int:
        journal = Journal(self.directory, self.key)
        return sum(journal.end(lane.id) for lane in journal.lanes() if lane.subject == topic)

    def source(self, pattern: str = "orders.*", rename: str = "", start: str = "earliest") -> EventSource:
        one = EventSource(
            Journal(self.directory, self.key),
            Positions(self.directory, self.key, "b", durable=False),
            Route(pattern, rename),
            root=self.root,
            own="speedd.bridges",
            start=start,
            next_of=lambda lane, topic: self.there.get(lane, 0),
        )
        self.opened.append(one)
        return one

    def heir(self) -> None:
        for one in self.opened:
            one.close()

    def close(self) -> None:
        self.heir()
        self.recorder.close()
        self.writer.close()


@pytest.fixture
def events(node: Callable[..., speed.Node], root: str) -> Iterator[EventWorld]:
    with closing(EventWorld(node, root)) as one:
        yield one


def test_recorded_events_come_byte_for_byte(events: EventWorld) -> None:
    """B-13, B-14."""
    events.publish("orders.made", 1, 2)
    loads = events.source(rename="eu.*").receive(10, 0.0)
    assert [payload_of(one) for one in loads] == [1, 2]
    assert [one.data == one.message.envelope for one in loads if one.message] == [True, True]
    assert [one.message.topic for one in loads if one.message] == ["eu.made", "eu.made"]
    assert loads[0].hops == (event_hop(events.root, "orders.made"),)


def test_events_that_are_settled_do_not_come_to_the_heir(events: EventWorld) -> None:
    """B-14."""
    events.publish("orders.made", 1, 2, 3)
    first = events.source()
    assert first.lag() is None
    first.settle(first.receive(2, 0.0))
    assert first.lag() == 1
    events.heir()
    assert taken(events.source()) == [3]


def test_a_new_bridge_of_events_begins_at_the_end_and_notes_it(events: EventWorld) -> None:
    """B-14."""
    events.publish("orders.made", "before")
    assert taken(events.source(start="latest")) == []
    events.heir()
    events.publish("orders.made", "after")
    events.publish("orders.paid", "first")
    heir = events.source(start="latest")
    assert sorted(taken(heir) + taken(heir)) == ["after", "first"]


def test_what_the_target_has_of_events_is_passed_over(events: EventWorld) -> None:
    """B-14."""
    events.publish("orders.made", 1, 2, 3)
    (lane,) = Journal(events.directory, events.key).lanes()
    events.there[lane.id] = 2
    assert taken(events.source()) == [3]


def test_what_a_daemon_published_for_a_bridge_goes_on_over_none(events: EventWorld) -> None:
    """B-16."""
    events.publish("orders.made", "ours")
    events.publish("orders.paid", "brought", by=events.bridges)
    source = events.source()
    assert taken(source) + taken(source) == ["ours"]


def test_a_damaged_file_of_positions_is_told(events: EventWorld) -> None:
    """B-14."""
    events.publish("orders.made", 1)
    assert taken(events.source()) == [1]
    events.heir()
    place = Path(events.directory) / "bridge.b"
    place.write_bytes(place.read_bytes()[:-1] + b"x")
    with pytest.raises(StorageError, match="is damaged"):
        events.source().receive(10, 0.0)


def test_a_journal_that_was_made_anew_is_read_from_its_beginning(events: EventWorld) -> None:
    """B-14: a position of another copy fits nothing."""
    events.publish("orders.made", 1)
    source = events.source()
    assert taken(source) == [1]
    events.heir()
    positions = Positions(events.directory, events.key, "b", durable=True)
    known = positions.read()
    assert known is not None
    positions.write(dict.fromkeys(known, (9, "00" * 12)))
    positions.close()
    assert taken(events.source()) == [1]


def test_a_name_that_would_be_too_long_makes_dead_letters_of_events(events: EventWorld) -> None:
    """B-17."""
    events.publish("orders.made", 1)
    (load,) = events.source(rename=f"{'a.' * 126}*").receive(10, 0.0)
    assert load.code == "BAD_NAME"


def test_messages_become_events_of_who_subscribes(events: EventWorld, node: Callable[..., speed.Node]) -> None:
    """B-14."""
    came: list[Any] = []
    billing = node("billing", allow=["speedd.bridges"])
    billing.subscribe("orders.*", lambda one: came.append((one.topic, one.payload, one.source)))
    events.bridges.wait_for("billing")
    sink = EventSink(events.bridges)
    loads = [message(number, number, namespace="default") for number in range(3)]
    assert sink.publish(loads) == 0
    until(lambda: len(came) == 3)
    assert came == [("orders.made", number, "speedd.bridges") for number in range(3)]
    sink.close()


def test_events_do_not_come_back_to_their_root(events: EventWorld) -> None:
    """B-16."""
    sink = EventSink(events.bridges)
    one = message(1, 1)
    assert not sink.is_loop(one)
    one.hops = (event_hop(events.root, "orders.made"),)
    assert sink.is_loop(one)
