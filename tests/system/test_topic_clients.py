"""What clients of durable topics are told: repetitions, seeks, closing, refusals (D-5 to D-13, D-17, D-19)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

import speed
from speed.node.consumer import GRACE_SECONDS
from tests.system.topics import TopicSite, started, until

pytestmark = pytest.mark.system

CONFIG = """
[node]
root = "root"
key = "speed.key"
lease_seconds = 4.0
heartbeat_seconds = 1.0
[topics]
publish = ["test", "shop.*", "stranger"]
consume = ["test", "reader"]
manage = ["test"]
[[topic]]
name = "orders"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicSite]:
    yield from started(tmp_path_factory.mktemp("topics"), CONFIG)


@pytest.fixture(scope="module")
def node(site: TopicSite) -> Iterator[speed.Node]:
    with site.node() as node:
        yield node


@pytest.fixture
def topic(node: speed.Node, request: pytest.FixtureRequest) -> Iterator[speed.Topic]:
    topic = node.topic("t." + str(abs(hash(request.node.name))))
    topic.create()
    yield topic
    topic.delete()


def taken(consumer: speed.Consumer, count: int = 1) -> list[speed.TopicMessage]:
    found = [consumer.receive(timeout=20) for _ in range(count)]
    assert None not in found
    return found  # type: ignore[return-value]


# --- producers ---


def test_a_repetition_is_told_with_the_offset_of_what_is_kept(topic: speed.Topic) -> None:
    first = topic.publish("a", producer="shop", sequence=5)
    again = topic.publish("a", producer="shop", sequence=5)
    assert (first, first.duplicate, again, again.duplicate) == (0, False, 0, True)
    batch = topic.publish_batch("abc", producer="shop", sequence=5)
    assert [(one, one.duplicate) for one in batch] == [(0, True), (1, False), (2, False)]


def test_nobody_spoils_the_sequences_of_another_node(site: TopicSite, topic: speed.Topic) -> None:
    with site.node("stranger") as stranger:
        stranger.topic(topic.name).publish("spoilt", producer="shop", sequence=2**63 - 1)
    assert not topic.publish("kept", producer="shop", sequence=1).duplicate


def test_nodes_of_a_family_share_a_producer_and_no_other_node_does(site: TopicSite, topic: speed.Topic) -> None:
    with site.node("shop.1") as one, site.node("shop.2") as two, site.node("stranger") as stranger:
        how = {"producer": "till", "sequence": 7}
        assert not one.topic(topic.name).publish("a", owner="shop", **how).duplicate  # type: ignore[arg-type]
        assert two.topic(topic.name).publish("a", owner="shop", **how).duplicate  # type: ignore[arg-type]
        assert not two.topic(topic.name).publish("a", **how).duplicate  # type: ignore[arg-type]
        with pytest.raises(speed.InvalidArgumentsError, match="owner"):
            stranger.topic(topic.name).publish("a", owner="shop", **how)  # type: ignore[arg-type]


def test_who_manages_a_topic_has_a_producer_begin_anew(topic: speed.Topic, site: TopicSite) -> None:
    topic.publish("far too high", producer="shop", sequence=2**63 - 1)
    assert topic.publish("lost", producer="shop", sequence=1).duplicate
    assert [one["producer"] for one in topic.describe()["producers"]] == ["shop"]
    with site.node("stranger") as stranger, pytest.raises(speed.ApplicationError) as refused:
        stranger.topic(topic.name).forget_producer("shop")
    assert refused.value.code == "DENIED"
    assert topic.forget_producer("shop", owner="test") == 1
    assert not topic.publish("kept", producer="shop", sequence=1).duplicate


@pytest.mark.parametrize("keys", [["one"], ["a", "b", "c", "d"], iter(["one"])], ids=["fewer", "more", "lazily fewer"])
def test_another_number_of_keys_than_messages_is_refused(topic: speed.Topic, keys: object) -> None:
    with pytest.raises(speed.ConfigurationError, match="keys"):
        topic.publish_batch([1, 2, 3], keys=keys)  # type: ignore[arg-type]
    assert topic.describe()["end"] == 0


@pytest.mark.parametrize("due_ms", [2**50, 1125899906842624 - 1])
def test_a_message_is_not_delayed_for_ever(topic: speed.Topic, due_ms: int) -> None:
    with pytest.raises(speed.InvalidArgumentsError, match="days"):
        topic.publish("x", deliver_at_ms=due_ms)


# --- seeks, and topics that are made anew ---


@pytest.mark.parametrize("kind", ["exclusive", "failover", "shared", "key-shared"])
def test_what_was_fetched_before_a_seek_is_not_handed_out(topic: speed.Topic, kind: str) -> None:
    topic.publish_batch(range(9))
    with topic.consumer("billing", type=kind, start="earliest") as consumer:
        before = taken(consumer, 3)
        topic.seek("billing", 7)
        assert [one.offset for one in taken(consumer, 2)] == [7, 8]
        assert consumer.acknowledge(*before) == 0, "they are of before"
        topic.seek("billing", "earliest")
        again = taken(consumer, 9)
        assert [(one.offset, one.attempts) for one in again] == [(number, 1) for number in range(9)]
        assert consumer.acknowledge(before[0], *again) == 9, "what is of before is passed over"


def test_what_was_fetched_of_a_topic_that_was_made_anew_since_is_not_handed_out(
    node: speed.Node, topic: speed.Topic
) -> None:
    topic.publish_batch(range(9))
    with topic.consumer("billing", start="earliest") as consumer:
        (before,) = taken(consumer)
        topic.delete()
        topic.create()
        topic.publish("new")
        assert consumer.acknowledge(before) == 0
        with pytest.raises(speed.ApplicationError) as told:
            consumer.receive(timeout=20)
        assert told.value.code == "UNKNOWN_SUBSCRIPTION"
    with topic.consumer("billing", start="earliest") as consumer:
        assert [one.payload for one in taken(consumer)] == ["new"]


def test_a_callback_goes_on_after_a_seek(topic: speed.Topic) -> None:
    topic.publish_batch(range(5))
    handled: list[int] = []

    def handle(message: speed.TopicMessage) -> None:
        handled.append(message.offset)
        if len(handled) == 2:
            topic.seek("billing", "earliest")

    with topic.consumer("billing", start="earliest", on_message=handle):
        until(lambda: topic.describe()["subscriptions"][0]["backlog"] == 0 and len(handled) >= 7)
    assert handled[-5:] == [0, 1, 2, 3, 4]


# --- what counts as delivered ---


def test_what_a_consumer_that_died_had_fetched_and_not_handed_out_was_not_delivered(
    site: TopicSite, topic: speed.Topic
) -> None:
    topic.publish_batch(range(30))
    node = site.node("reader")
    reader = node.topic(topic.name).consumer("billing", type="shared", start="earliest", prefetch=30)
    seen = [one.offset for one in taken(reader, 3)]
    node.close()  # without closing its consumer, as a process that dies
    with topic.consumer("billing", type="shared") as consumer:
        attempts = {one.offset: one.attempts for one in taken(consumer, 30)}
    assert all(attempts[offset] == 2 for offset in seen)
    assert sum(count > 1 for count in attempts.values()) <= 7, "others were never handed out"


def test_what_is_not_acknowledged_in_time_goes_to_another_one_and_counts_only_if_it_was_handed_out(
    topic: speed.Topic,
) -> None:
    topic.publish_batch(range(2))
    late = {"type": "shared", "start": "earliest", "ack_timeout": 0.3}
    with topic.consumer("billing", **late) as slow, topic.consumer("billing", **late) as other:  # type: ignore[arg-type]
        assert [one.offset for one in taken(slow)] == [0]
        assert sorted((one.offset, one.attempts) for one in taken(other, 2)) == [(0, 2), (1, 1)]
        assert slow.receive(timeout=0) is None, "what it had fetched is not handed out twice"


# --- closing ---


def test_awaiting_ends_at_once_when_its_consumer_is_closed(node: speed.Node, topic: speed.Topic) -> None:
    async def closed_meanwhile() -> tuple[list[object], object]:
        consumer = await node.aio.topic(topic.name).consumer("billing")

        async def iterate() -> list[object]:
            return [message async for message in consumer]

        iterating = asyncio.create_task(iterate())
        await asyncio.sleep(0)
        await asyncio.wait_for(consumer.close(), 20)
        return await asyncio.wait_for(iterating, 20), await asyncio.wait_for(consumer.receive(), 20)

    assert asyncio.run(closed_meanwhile()) == ([], None)
    assert topic.describe()["subscriptions"][0]["consumers"] == [], "and it does not join again"


def test_a_loop_receives_all_in_order_and_acknowledges(node: speed.Node, topic: speed.Topic) -> None:
    topic.publish_batch(range(10))

    async def all_of_them() -> list[object]:
        found: list[object] = []
        async with await node.aio.topic(topic.name).consumer("billing", start="earliest") as consumer:
            async for message in consumer:
                found.append(message.payload)
                await consumer.acknowledge(message)
                if len(found) == 10:
                    await consumer.close()
        return found

    assert asyncio.run(all_of_them()) == list(range(10))
    assert topic.describe()["subscriptions"][0]["backlog"] == 0


# --- grants ---


def test_who_has_no_grant_is_refused_at_once(site: TopicSite, topic: speed.Topic) -> None:
    with speed.Node("nobody", root=site.root, key=site.key) as nobody:
        began = time.monotonic()
        for ask in (lambda: nobody.topic(topic.name).publish(1), lambda: nobody.topic(topic.name).consumer("b")):
            with pytest.raises(speed.AccessDeniedError):
                ask()
        assert time.monotonic() - began < GRACE_SECONDS, "it did not wait for a host that has only just begun"


def test_a_consumer_makes_no_topic_of_dead_letters_without_the_right(site: TopicSite, topic: speed.Topic) -> None:
    with site.node("reader") as reader:
        mine = reader.topic(topic.name)
        for aside in ("any", True, "orders"):
            with pytest.raises(speed.ApplicationError) as refused:
                mine.consumer("billing", max_deliveries=2, dead_letter=aside)  # type: ignore[arg-type]
            assert refused.value.code == "DENIED"
        aside_topic = topic._node.topic(f"{topic.name}-billing-DLQ")
        aside_topic.create(dead_letters_of=topic.name)
        mine.consumer("billing", max_deliveries=2, dead_letter=True).close()
        aside_topic.delete()
