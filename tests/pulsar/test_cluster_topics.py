"""The topics of a cluster as their host sees them, without a speedd: bounds, what goes wrong, what is given back."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pulsar
import pytest

from speed.errors import StorageError
from speed.topics.backend import ProducerIdentity
from speed.topics.cluster import catalogue as catalogue_module
from speed.topics.cluster import feed as feed_module
from speed.topics.cluster import publisher as publisher_module
from speed.topics.cluster import publisher as reading_module
from speed.topics.cluster import topic as topic_module
from speed.topics.cluster.broker import Cluster
from speed.topics.cluster.catalogue import ClusterTopics
from speed.topics.cluster.feed import Feed
from speed.topics.cluster.publisher import REPEATED
from speed.topics.cluster.topic import ClusterTopic
from speed.topics.subscription import SubscriptionError, Terms
from speed.wire.topic import RecordHead, decode, encode
from speed.wire.value import pack
from tests.pulsar.standalone import Server
from tests.system.topics import until

pytestmark = [pytest.mark.system, pytest.mark.java, pytest.mark.timeout(400)]
SHARED = Terms("shared")


@pytest.fixture
def topics(server: Server) -> Iterator[ClusterTopics]:
    made = ClusterTopics(Cluster(server.addresses["broker"], server.addresses["admin"]))
    yield made
    made.close()


@pytest.fixture
def name() -> str:
    return "inside." + uuid.uuid4().hex


@pytest.fixture
def topic(topics: ClusterTopics, name: str) -> Iterator[ClusterTopic]:
    yield topics.make(name)
    topics.remove(name)


def one(value: object = 1, sequence: int = 0) -> tuple[int, bytes]:
    return sequence, encode(RecordHead(sequence=sequence), {"publisher": "shop", "producer": "till"}, pack(value))


TILL = ProducerIdentity("shop", "till")


def publish(topic: ClusterTopic, *values: object) -> list[int]:
    return [place.offset for place in topic.publish(None, [one(value) for value in values])]


def received(topic: ClusterTopic, count: int, subscription: str = "s", consumer: str = "c") -> list[tuple[int, int]]:
    """Offset and attempts of so many messages, which the consumer has."""
    found: list[tuple[int, int]] = []
    group = topic.group(subscription)
    number = group.answers.get(consumer, (0, []))[0]

    def has_all() -> bool:
        nonlocal number
        number, messages = topic.receive(group, consumer, count - len(found), number)
        found.extend((offset, attempts) for offset, attempts, *_ in messages)
        return len(found) >= count

    until(has_all)
    return found


def code(call: Callable[[], object]) -> str:
    with pytest.raises(SubscriptionError) as refused:
        call()
    return refused.value.code


# --- topics ---


def test_a_topic_whose_making_was_broken_off_gets_its_policies_when_it_is_used(
    server: Server, topics: ClusterTopics, name: str
) -> None:
    """D-20."""
    place = f"persistent/public/default/{name}"
    server.admin("PUT", place, {"speed.lane": "0" * 32})
    found = topics.find(name)
    assert found.lane == "0" * 32
    assert server.admin("GET", f"{place}/properties")["speed.made"] == "true"
    assert found.publish(TILL, [one(1, 7), one(2, 7)]) != [REPEATED, REPEATED]
    topics.remove(name)
    assert code(lambda: topics.find(name)) == "UNKNOWN_TOPIC"
    assert code(lambda: topics.remove(name)) == "UNKNOWN_TOPIC"


def test_a_topic_that_does_not_follow_its_policies_is_not_served(
    topics: ClusterTopics, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-20."""
    monkeypatch.setattr(catalogue_module, "SETTLED_SECONDS", -1.0)
    monkeypatch.setattr(catalogue_module, "POLICIES", {"deduplicationEnabled": False})
    assert code(lambda: topics.make(name)) == "NOT_WRITTEN"
    monkeypatch.undo()
    topics.remove(name)


def test_what_is_gone_is_forgotten_and_what_rests_is_closed(
    server: Server, topics: ClusterTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-20, D-23."""
    gone, stays = topics.make("gone." + uuid.uuid4().hex), topics.make("stays." + uuid.uuid4().hex)
    publish(stays, 1)
    stays.read(stays.place("earliest"), 1)
    for rest in (publisher_module, reading_module):
        monkeypatch.setattr(rest, "IDLE_SECONDS", 0.0)
    server.admin("DELETE", f"persistent/public/default/{gone.name}?force=true")
    topics._look()
    assert gone not in topics.used()
    assert stays in topics.used()
    monkeypatch.setattr(topics._broker.admin, "topics", list)
    topics._look()
    assert stays in topics.used(), "it is there, though it was not listed"
    topics.remove(stays.name)


def test_an_answer_that_nobody_understands_does_not_end_who_looks_after_topics(
    topics: ClusterTopics, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(catalogue_module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(topics._broker.admin, "topics", lambda: None)
    topics.begin([name])
    monkeypatch.undo()
    until(lambda: topics.known(name) is not None)
    topics.remove(name)


# --- publishing ---


def test_messages_with_and_without_a_sequence_are_published_in_their_order(topic: ClusterTopic) -> None:
    """D-23."""
    batch = [one("a", 1), one("b"), one("c", 2), one("d", 2)]
    recorded = topic.publish(TILL, batch)
    assert recorded[3] == REPEATED
    offsets = [place.offset for place in recorded]
    assert sorted(offsets[:3]) == offsets[:3]
    kept = [decode(stored.data).payload for stored in topic.read(topic.place("earliest"), 9)[1]]
    assert kept == [pack("a"), pack("b"), pack("c")]


def test_the_sequences_of_one_owner_say_nothing_of_another_ones(topic: ClusterTopic) -> None:
    """D-6, D-23."""
    topic.publish(ProducerIdentity("stranger", "till"), [one(1, 2**62)])
    assert topic.publish(TILL, [one(2, 1)]) != [REPEATED]


def test_a_topic_has_so_many_producers_at_once(topic: ClusterTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    """D-6."""
    monkeypatch.setattr(publisher_module, "MAX_TOPIC_PRODUCERS", 1)
    topic.publish(TILL, [one(1, 1)])
    assert code(lambda: topic.publish(ProducerIdentity("shop", "other"), [one(1, 1)])) == "FULL"
    topic._publisher.rest(0.0)
    topic.publish(ProducerIdentity("shop", "other"), [one(1, 1)])


def test_a_message_that_the_cluster_does_not_take_is_refused_and_the_next_one_is_not(topic: ClusterTopic) -> None:
    """D-23."""
    large = one(bytes(5_300_000), 1)
    assert code(lambda: topic.publish(TILL, [large])) == "INVALID_ARGUMENTS"
    assert topic.publish(TILL, [one("small", 2)]) != [REPEATED]


def test_what_is_told_too_late_or_wrongly_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """D-24."""
    monkeypatch.setattr(publisher_module, "OPERATION_SECONDS", 0.01)
    sending = publisher_module._PublishBatch()
    sending._left = 1
    assert sending.failure() == "Timeout"
    sending._completed(0, object(), None)
    assert sending.failure() == "AttributeError"


# --- reading ---


def test_an_answer_has_no_more_than_it_may(topic: ClusterTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    """D-14."""
    monkeypatch.setattr(reading_module, "MAX_TOPIC_ANSWER_BYTES", 100)
    offsets = publish(topic, bytes(80), bytes(80), bytes(80))
    place = topic.place("earliest")
    for offset in offsets:
        place, found = topic.read(place, 9)
        assert [stored.offset for stored in found] == [offset]
    assert topic.read(place, 9) == (place, [])


def test_so_many_readers_are_kept_and_one_that_fails_is_not(
    topic: ClusterTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_module, "MAX_KEPT", 1)
    publish(topic, 1, 2, 3)
    place = topic.place("earliest")
    first, _ = topic.read(place, 1)
    second, _ = topic.read(place, 2)
    assert not topic._readings.is_at(first)
    assert topic._readings.is_at(second)
    topic._readings._kept[0].native.close()
    assert code(lambda: topic.read(second, 1)) == "NOT_WRITTEN"
    assert not topic._readings.is_at(second)


def test_a_time_at_which_nothing_came_is_the_end(topic: ClusterTopic) -> None:
    """D-8."""
    publish(topic, 1)
    assert topic.place({"at_ms": int(time.time() * 1000) + 100_000}) == topic.place("latest")


# --- subscriptions ---


def test_a_topic_has_so_many_subscriptions(topic: ClusterTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    """D-8."""
    monkeypatch.setattr(topic_module, "MAX_SUBSCRIPTIONS", 1)
    topic.subscribe("s", "c", SHARED, "earliest")
    assert code(lambda: topic.subscribe("t", "c", SHARED, "earliest")) == "FULL"


def test_what_is_not_there_is_named(topic: ClusterTopic) -> None:
    for call in (lambda: topic.group("s"), lambda: topic.seek("s", "latest"), lambda: topic.unsubscribe("s")):
        assert code(call) == "UNKNOWN_SUBSCRIPTION"
    topic.subscribe("s", "c", SHARED, "earliest")
    assert code(lambda: topic.acknowledge(topic.group("s"), "f" * 32, [1], None)) == "INVALID_ARGUMENTS"


def test_a_topic_that_is_gone_meanwhile_is_named(server: Server, topics: ClusterTopics, name: str) -> None:
    topic = topics.make(name)
    server.admin("DELETE", f"persistent/public/default/{name}?force=true")
    assert code(lambda: topic.place("latest")) == "UNKNOWN_TOPIC"


def test_attempts_go_on_when_the_last_consumer_comes_back(topic: ClusterTopic) -> None:
    """D-23."""
    (offset,) = publish(topic, 1)
    for attempts in (1, 2):
        group = topic.subscribe("s", "n/c", SHARED, "earliest")
        assert received(topic, 1, consumer="n/c") == [(offset, attempts)]
        topic.left("other")
        assert topic.group("s") is group
        topic.left("n")


def test_an_acknowledgement_without_a_consumer_counts_and_leaves_nothing_open(
    topic: ClusterTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-12, D-23."""
    monkeypatch.setattr(feed_module, "LINGER_SECONDS", 0.0)
    first, second = publish(topic, 1, 2)
    topic.subscribe("s", "c", SHARED, "earliest")
    received(topic, 2)
    topic.leave(topic.group("s"), "c")
    assert topic.acknowledge(topic.group("s"), topic.lane, [first], None) == 1
    topic.rest()
    assert topic._feeds == {}
    topic.subscribe("s", "c", SHARED, "earliest")
    assert [offset for offset, _ in received(topic, 1)] == [second]


def test_what_is_large_waits_in_the_cluster(topic: ClusterTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    """D-23."""
    monkeypatch.setattr(feed_module, "HELD_BYTES", 1000)
    monkeypatch.setattr(feed_module, "QUEUE", 1)
    offsets = publish(topic, *(bytes(600) for _ in range(6)))
    topic.subscribe("s", "c", SHARED, "earliest")
    assert [offset for offset, _ in received(topic, 2)] == offsets[:2]
    assert topic.receive(topic.group("s"), "c", 9, 99)[1][2:] == []
    topic.acknowledge(topic.group("s"), topic.lane, offsets[:2], None)
    assert [offset for offset, _ in received(topic, 2)] == offsets[2:4]


def test_what_pulsar_sends_again_is_dealt_out_once_and_acknowledged_again(topic: ClusterTopic) -> None:
    """D-23: as after a connection that broke."""
    first, second = publish(topic, 1, 2)
    feed = topic.subscribe("s", "c", SHARED, "earliest")
    assert isinstance(feed, Feed)
    received(topic, 2)
    feed.machine.acknowledge([first])  # which Pulsar was not told of
    feed._forget([first])
    feed._native.redeliver_unacknowledged_messages()
    until(lambda: topic.described()["subscriptions"][0]["backlog"] == 1)
    assert topic.receive(feed, "c", 9, feed.answers["c"][0])[1] == []
    assert list(feed._held) == [second]


def test_without_a_connection_nothing_is_acknowledged(topic: ClusterTopic) -> None:
    """D-24."""
    (offset,) = publish(topic, 1)
    feed = topic.subscribe("s", "c", Terms(), "earliest")
    assert isinstance(feed, Feed)
    received(topic, 1)
    feed._native.close()
    for until_offset in (None, offset):
        with pytest.raises(StorageError, match="try again"):
            topic.acknowledge(feed, topic.lane, [offset], until_offset)


def test_one_of_a_batch_that_is_not_held_is_left_to_come_again(server: Server, topic: ClusterTopic) -> None:
    """D-23: Pulsar would take it for the whole batch."""
    client = pulsar.Client(server.addresses["broker"])
    producer = client.create_producer(
        f"persistent://public/default/{topic.name}", batching_enabled=True, batching_max_publish_delay_ms=1000
    )
    for _ in range(2):
        producer.send_async(b"x", lambda *_: None)
    producer.flush()
    client.close()
    topic.subscribe("s", "c", SHARED, "earliest")
    (_, _), (second, _) = received(topic, 2)
    topic.leave(topic.group("s"), "c")
    topic.acknowledge(topic.group("s"), topic.lane, [second], None)
    topic._end("s")
    topic.subscribe("s", "c", SHARED, "earliest")
    assert second in [offset for offset, _ in received(topic, 2)]


def test_a_message_that_makes_no_sense_stops_its_subscription_and_no_thread(
    topic: ClusterTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-22."""

    def fail(message: object) -> None:
        raise ValueError("no sense")

    monkeypatch.setattr(feed_module, "received", fail)
    publish(topic, 1, 2)
    feed = topic.subscribe("s", "c", SHARED, "earliest")
    assert isinstance(feed, Feed)
    until(lambda: feed.trouble is not None)
    with pytest.raises(SubscriptionError, match="a message cannot be read: no sense"):
        topic.receive(feed, "c", 9, 0)
    assert feed._thread.is_alive()


@pytest.mark.parametrize("asks", ["receive", "subscribe"])
def test_a_subscription_that_pulsar_took_away_is_opened_again(topic: ClusterTopic, asks: str) -> None:
    """D-23."""
    (offset,) = publish(topic, 1)
    feed = topic.subscribe("s", "c", SHARED, "earliest")
    assert isinstance(feed, Feed)
    feed._native.close()
    until(lambda: feed.is_dead)
    if asks == "receive":
        assert code(lambda: topic.receive(topic.group("s"), "c", 1, 0)) == "NOT_JOINED"
    topic.subscribe("s", "c", SHARED, "earliest")
    assert topic.group("s") is not feed
    assert [found for found, _ in received(topic, 1)] == [offset]
