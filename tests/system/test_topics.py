"""Durable topics with a real speedd: publishing, consuming, refusing (D-5 to D-18)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

import speed
from speed.wire.limits import TOPIC_WAIT_SECONDS
from tests.system.topics import PATIENCE, TopicSite, started_site, until

pytestmark = pytest.mark.system


site = pytest.fixture(started_site, name="site", scope="module")


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


@pytest.fixture
def step() -> int:
    """Between the offsets of two messages."""
    return 1


@pytest.fixture
def offset(topic: speed.Topic, step: int) -> Callable[[int], int]:
    """Of the first, second, … message of a topic that has none yet."""
    first = topic.describe()["first"]
    return lambda number: int(first + number * step)


def payloads(consumer: speed.Consumer, count: int) -> list[object]:
    """Of so many messages, which are acknowledged."""
    found = []
    for _ in range(count):
        message = consumer.receive(timeout=20)
        assert message is not None, found
        found.append(message.payload)
        consumer.acknowledge(message)
    return found


def test_what_was_published_before_somebody_subscribed_is_read_from_the_beginning(
    topic: speed.Topic, offset: Callable[[int], int]
) -> None:
    assert [topic.publish({"number": number}) for number in range(3)] == [offset(0), offset(1), offset(2)]
    with topic.consumer("billing", start="earliest") as consumer:
        assert payloads(consumer, 3) == [{"number": 0}, {"number": 1}, {"number": 2}]
        assert consumer.receive(timeout=0.05) is None


def test_a_message_has_what_was_said_with_it(topic: speed.Topic, offset: Callable[[int], int]) -> None:
    reader = topic.reader("latest")
    topic.publish("x", key="customer 7", properties={"colour": "red"}, producer="shop", sequence=4)
    message = reader.receive(timeout=20)
    assert message is not None
    assert (message.payload, message.key, message.properties) == ("x", "customer 7", {"colour": "red"})
    assert (message.publisher, message.producer, message.sequence) == ("test", "shop", 4)
    assert (message.offset, message.attempts, message.redelivered) == (offset(0), 0, False)


def test_a_batch_keeps_its_order_and_its_keys(topic: speed.Topic, offset: Callable[[int], int]) -> None:
    offsets = topic.publish_batch(range(2500), keys=[f"k{number % 3}" for number in range(2500)])
    assert offsets == [offset(number) for number in range(2500)]
    reader = topic.reader("earliest", prefetch=1000)
    found = [reader.receive(timeout=20) for _ in range(2500)]
    assert [one and (one.payload, one.key) for one in found] == [(n, f"k{n % 3}") for n in range(2500)]


def test_a_compacted_reader_gets_the_last_message_of_each_key_and_then_all_that_comes(
    topic: speed.Topic, offset: Callable[[int], int]
) -> None:
    """D-14."""
    topic.publish_batch([1, 2, 3, 4, 5, 6], keys=["a", None, "b", "a", "gone", None])
    topic.delete_key("gone")
    topic.delete_key("b")
    topic.publish(7, key="b")
    reader = topic.reader("earliest", prefetch=2, compacted=True)
    assert topic.publish(8, key="a") == offset(9)
    topic.delete_key("a")
    found = [reader.receive(timeout=20) for _ in range(6)]
    assert [one and (one.offset, one.key, one.payload) for one in found] == [
        (offset(1), None, 2),
        (offset(3), "a", 4),
        (offset(5), None, 6),
        (offset(8), "b", 7),
        (offset(9), "a", 8),
        (offset(10), "a", None),
    ]
    assert found[-1] is not None
    assert found[-1].is_tombstone


def test_a_compacted_reader_finds_nothing_where_every_key_was_deleted(topic: speed.Topic) -> None:
    """D-14."""
    topic.publish(1, key="a")
    topic.delete_key("a")
    assert topic.reader("earliest", compacted=True).receive(timeout=0) is None


def test_a_message_that_waits_for_nobody_wakes_who_waits_for_it(topic: speed.Topic) -> None:
    with topic.consumer("billing") as consumer:
        timer = threading.Timer(0.2, topic.publish, ["late"])
        timer.start()
        assert payloads(consumer, 1) == ["late"]
        timer.join()


def test_a_repetition_is_not_kept(topic: speed.Topic, offset: Callable[[int], int]) -> None:
    assert not topic.publish("a", producer="shop", sequence=5).duplicate
    assert topic.publish("a", producer="shop", sequence=5).duplicate
    assert topic.publish("b", producer="other", sequence=5) == offset(1)
    repeated, fresh = topic.publish_batch(["a", "c"], producer="shop", sequence=5)
    assert (repeated.duplicate, fresh.duplicate, fresh) == (True, False, offset(2))


def test_a_refused_message_comes_again_marked(topic: speed.Topic, offset: Callable[[int], int]) -> None:
    topic.publish("x")
    with topic.consumer("billing", start="earliest") as consumer:
        first = consumer.receive(timeout=20)
        assert first is not None
        assert not first.redelivered
        assert consumer.reject(first) == 1
        again = consumer.receive(timeout=20)
        assert again is not None
        assert (again.offset, again.attempts, again.redelivered) == (offset(0), 2, True)


def test_what_cannot_be_handled_goes_to_the_topic_of_dead_letters(
    topic: speed.Topic, offset: Callable[[int], int]
) -> None:
    topic.publish("poison", key="k")
    options = {"start": "earliest", "max_deliveries": 2, "dead_letter": True}
    with topic.consumer("billing", type="shared", **options) as consumer:  # type: ignore[arg-type]
        for _ in range(2):
            message = consumer.receive(timeout=20)
            assert message is not None
            consumer.reject(message, delay=0)
        assert consumer.receive(timeout=0.5) is None
    aside = topic._node.topic(f"{topic.name}-billing-DLQ")
    dead = aside.reader("earliest").receive(timeout=20)
    assert dead is not None
    assert (dead.payload, dead.key, dead.failed_attempts) == ("poison", "k", 2)
    assert dead.origin == (topic.name, offset(0), "billing")
    aside.delete()


def dead_letters(topic: speed.Topic, *payloads: object) -> speed.Topic:
    """The topic in which these are, once each was rejected as often as it may be."""
    for payload in payloads:
        topic.publish(payload, key="k", properties={"a": "b"})
    options = {"start": "earliest", "max_deliveries": 1, "dead_letter": True}
    with topic.consumer("billing", type="shared", **options) as consumer:  # type: ignore[arg-type]
        for _ in payloads:
            message = consumer.receive(timeout=20)
            assert message is not None
            consumer.reject(message, delay=0)
        assert consumer.receive(timeout=0.5) is None
    return topic._node.topic(f"{topic.name}-billing-DLQ")


def test_a_dead_letter_is_published_again_as_it_was_and_only_once(topic: speed.Topic) -> None:
    aside = dead_letters(topic, "poison")
    with topic.consumer("billing", type="shared", max_deliveries=1, dead_letter=True) as consumer:
        assert aside.redrive() == 1
        again = consumer.receive(timeout=20)
        assert again is not None
        consumer.acknowledge(again)
    assert (again.payload, again.key, dict(again.properties), again.attempts) == ("poison", "k", {"a": "b"}, 1)
    assert (again.publisher, again.origin, again.failed_attempts) == ("test", None, 0)
    assert aside.redrive() == 0
    assert aside.reader("earliest").receive(timeout=20) is not None  # it stays, as all messages do
    aside.delete()


def test_some_dead_letters_are_published_again_the_oldest_first(topic: speed.Topic) -> None:
    aside = dead_letters(topic, 1, 2, 3)
    reader = topic.reader("latest")
    assert [aside.redrive(2), aside.redrive()] == [2, 1]
    found = [reader.receive(timeout=20) for _ in range(3)]
    assert [one and one.payload for one in found] == [1, 2, 3]
    aside.delete()


def test_what_is_no_dead_letter_is_not_published_again(topic: speed.Topic) -> None:
    aside = dead_letters(topic, "poison")
    aside.publish("news")
    assert aside.redrive() == 1
    aside.delete()


def test_a_dead_letter_of_a_topic_that_is_gone_waits_for_it(node: speed.Node) -> None:
    gone = node.topic("t.gone")
    gone.create()
    aside = dead_letters(gone, "poison")
    gone.delete()
    for _ in range(2):
        with pytest.raises(speed.CallError) as error:
            aside.redrive()
        assert error.value.code == "UNKNOWN_TOPIC"
    gone.create()
    assert aside.redrive() == 1
    aside.delete()
    gone.delete()


def test_two_consumers_share_the_messages(topic: speed.Topic) -> None:
    with (
        topic.consumer("billing", type="shared", prefetch=1) as one,
        topic.consumer("billing", type="shared", prefetch=1) as two,
    ):
        topic.publish_batch(range(10))
        found = [payload for _ in range(5) for consumer in (one, two) for payload in payloads(consumer, 1)]
        assert sorted(found) == list(range(10))  # type: ignore[type-var]


def test_a_message_with_a_time_comes_no_earlier(topic: speed.Topic) -> None:
    with topic.consumer("billing", type="shared") as consumer:
        topic.publish("later", deliver_after=0.4)
        topic.publish("now")
        assert payloads(consumer, 2) == ["now", "later"]


def test_a_consumer_that_leaves_gives_back_what_it_did_not_acknowledge(topic: speed.Topic) -> None:
    topic.publish_batch(range(3))
    with topic.consumer("billing", start="earliest") as consumer:
        assert payloads(consumer, 1) == [0]
        assert (seen := consumer.receive(timeout=20)) is not None
        assert seen.payload == 1
    with topic.consumer("billing") as consumer:
        found = [consumer.receive(timeout=20) for _ in range(2)]
        assert [one and (one.payload, one.attempts) for one in found] == [(1, 2), (2, 1)]


def test_acknowledging_twice_counts_once(topic: speed.Topic) -> None:
    topic.publish("x")
    with topic.consumer("billing", start="earliest") as consumer:
        message = consumer.receive(timeout=20)
        assert message is not None
        assert (consumer.acknowledge(message), consumer.acknowledge(message)) == (1, 0)


def test_all_up_to_a_message_are_acknowledged_at_once(topic: speed.Topic, offset: Callable[[int], int]) -> None:
    topic.publish_batch(range(5))
    with topic.consumer("billing", start="earliest") as consumer:
        third = [consumer.receive(timeout=20) for _ in range(3)][-1]
        assert third is not None
        assert consumer.acknowledge_until(third) == 3
        until(lambda: topic.describe()["subscriptions"][0]["cursor"] == offset(3))


def test_a_message_of_another_topic_cannot_be_acknowledged(
    node: speed.Node, topic: speed.Topic, offset: Callable[[int], int]
) -> None:
    node.topic("orders").publish("x")
    foreign = node.topic("orders").reader("earliest").receive(timeout=20)
    assert foreign is not None
    topic.publish("y")
    with topic.consumer("billing", start="earliest") as consumer:
        assert consumer.receive(timeout=20) is not None
        with pytest.raises(speed.InvalidArgumentsError, match="another topic"):
            consumer.acknowledge(foreign)
        assert topic.describe()["subscriptions"][0]["cursor"] == offset(0)


@pytest.mark.parametrize("to", [7, -1, "yesterday", {"at_ms": -1}, None, 1.5, [1]])
def test_nobody_seeks_to_nowhere_and_the_cursor_stays(
    topic: speed.Topic, offset: Callable[[int], int], to: object
) -> None:
    topic.publish_batch("abc")
    topic.consumer("billing", start=offset(1)).close()
    with pytest.raises(speed.InvalidArgumentsError, match="no place"):
        topic.seek("billing", to)  # type: ignore[arg-type]
    assert topic.describe()["subscriptions"][0]["cursor"] == offset(1)


def test_the_last_messages_are_a_place_to_begin(topic: speed.Topic, offset: Callable[[int], int]) -> None:
    """D-8."""
    topic.publish_batch("abc")
    assert [topic.reader({"last": count}).receive(timeout=0) for count in (0,)] == [None]
    found = [topic.reader({"last": count}).receive(timeout=20) for count in (1, 2, 9)]
    assert [one and one.payload for one in found] == ["c", "b", "a"]


def test_seeking_back_delivers_again(topic: speed.Topic, offset: Callable[[int], int]) -> None:
    topic.publish_batch("abc")
    with topic.consumer("billing", start="earliest") as consumer:
        assert payloads(consumer, 3) == ["a", "b", "c"]
        assert topic.seek("billing", offset(1)) == offset(1)
        assert payloads(consumer, 2) == ["b", "c"]


def test_a_time_is_a_place_to_begin(topic: speed.Topic) -> None:
    topic.publish("old")
    reader = topic.reader("earliest")
    old = reader.receive(timeout=20)
    assert old is not None
    until(lambda: topic.publish("new") is not None and _recorded(topic) > old.recorded_at_ms)
    first = topic.reader({"at_ms": old.recorded_at_ms + 1}).receive(timeout=20)
    assert first is not None
    assert first.payload == "new"


def _recorded(topic: speed.Topic) -> int:
    last = topic.reader({"last": 1}).receive(timeout=20)
    assert last is not None
    return last.recorded_at_ms


def test_purging_says_first_what_it_would_do(topic: speed.Topic) -> None:
    topic.publish_batch("abc")
    topic.consumer("billing", start="earliest").close()
    assert topic.purge(dry_run=True) == 3
    assert topic.describe()["subscriptions"][0]["backlog"] == 3
    assert topic.purge() == 3
    until(lambda: topic.describe()["subscriptions"][0]["backlog"] == 0)


def test_a_subscription_is_removed_when_nobody_reads_it(topic: speed.Topic) -> None:
    with topic.consumer("billing"):
        with pytest.raises(speed.ApplicationError) as refused:
            topic.unsubscribe("billing")
        assert refused.value.code == "TAKEN"
    topic.unsubscribe("billing")
    assert topic.describe()["subscriptions"] == []


def test_a_second_consumer_of_an_exclusive_subscription_is_refused(topic: speed.Topic) -> None:
    with topic.consumer("billing"), pytest.raises(speed.ApplicationError) as refused:
        topic.consumer("billing")
    assert refused.value.code == "TAKEN"


def test_no_topic_is_made_by_surprise(node: speed.Node) -> None:
    with pytest.raises(speed.ApplicationError) as refused:
        node.topic("nowhere").publish("x")
    assert refused.value.code == "UNKNOWN_TOPIC"
    with pytest.raises(speed.ApplicationError) as refused:
        node.topic("nowhere").consumer("billing")
    assert refused.value.code == "UNKNOWN_TOPIC"


@pytest.mark.parametrize("name", ["../x", "a/b", "a b", "", ".", "x" * 300, "a\0b", "ä%2e"])
def test_wrong_names_are_refused(node: speed.Node, name: str) -> None:
    with pytest.raises((speed.InvalidArgumentsError, speed.ConfigurationError)):
        node.topic(name).create()


@pytest.mark.parametrize("name", ["../x", "a/b", "", "x" * 300])
def test_wrong_names_of_subscriptions_are_refused(topic: speed.Topic, name: str) -> None:
    with pytest.raises((speed.InvalidArgumentsError, speed.ConfigurationError)):
        topic.consumer(name)


def test_who_has_no_grant_is_not_told_what_there_is(node: speed.Node) -> None:
    for name in ("secret", "nowhere"):
        with pytest.raises(speed.ApplicationError) as refused:
            node.topic(name).describe() if name == "secret" else node.topic("secret").publish("x")
        assert refused.value.code == "DENIED"
    assert "secret" not in [one["topic"] for one in node.call("speedd.topics", "topics.list")]


def test_who_may_consume_may_not_publish(site: TopicSite) -> None:
    with site.node("consumer.1") as node:
        with pytest.raises(speed.ApplicationError) as refused:
            node.topic("orders").publish("x")
        assert refused.value.code == "DENIED"
        node.topic("orders").reader("latest")


@pytest.mark.parametrize(
    "message",
    [
        7,
        {"payload": "text"},
        {"payload": b"", "surprise": 1},
        {"payload": b"", "key": 5},
        {"payload": b"", "properties": {"a": 1}},
        {"payload": b"", "properties": {str(number): "" for number in range(65)}},
        {"payload": b"", "key": "k" * 1025},
        {"payload": b"", "due_ms": -1},
        {"payload": b"", "sequence": 1 << 63},
        {"payload": b"", "tombstone": True},
        {"payload": bytes(5 << 20)},
    ],
)
def test_messages_out_of_bounds_are_refused_and_nothing_beside_them_is_kept(
    node: speed.Node, topic: speed.Topic, offset: Callable[[int], int], message: object
) -> None:
    with pytest.raises(speed.InvalidArgumentsError):
        node.call("speedd.topics", "topics.publish", {"topic": topic.name, "messages": [{"payload": b""}, message]})
    assert topic.describe()["end"] == offset(0)


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
def test_a_callback_acknowledges_what_it_handled_and_gets_again_what_it_did_not(
    topic: speed.Topic, raised: type[BaseException]
) -> None:
    """S-24: whatever ends it."""
    seen: list[tuple[object, int]] = []

    def handle(message: speed.TopicMessage) -> None:
        seen.append((message.payload, message.attempts))
        if message.attempts == 1 and message.payload == "a":
            raise raised("not yet")

    with topic.consumer("billing", on_message=handle):
        topic.publish_batch("ab")
        until(lambda: topic.describe()["subscriptions"][0]["backlog"] == 0)
    assert sorted(seen, key=str) == [("a", 1), ("a", 2), ("b", 1)]


@pytest.mark.parametrize("payload", [b"\xa5cut", b"\x01\x02", b"\xc1"])
def test_bytes_that_are_no_value_are_refused_before_they_stop_a_consumer(topic: speed.Topic, payload: bytes) -> None:
    """D-5."""
    with topic.consumer("billing", start="earliest") as consumer:
        with pytest.raises(speed.InvalidArgumentsError, match="payload is not one msgpack value"):
            topic.publish_all([{"payload": b"\x01"}, {"payload": payload}])
        topic.publish(2)
        message = consumer.receive(10)
        assert message is not None
        assert message.payload == 2


def failed(error: Exception) -> Future[object]:
    """The answer to a call that came to nothing."""
    future: Future[object] = Future()
    future.set_exception(error)
    return future


def test_what_a_callback_handled_is_acknowledged_though_the_host_did_not_answer_at_first(
    topic: speed.Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would stay with this consumer, and come never again."""
    lost = [speed.CallTimeoutError("too late"), speed.InboxFullError("no room")] * 2
    begin, acknowledge = speed.Consumer._begin_acknowledging, speed.Consumer.acknowledge

    def losing_begin(consumer: speed.Consumer, messages: list[speed.TopicMessage]) -> Future[object]:
        if not lost:
            return begin(consumer, messages)
        if isinstance(error := lost.pop(), speed.InboxFullError):
            raise error
        return failed(error)

    def losing(consumer: speed.Consumer, *messages: speed.TopicMessage) -> int:
        if lost:
            raise lost.pop()
        return acknowledge(consumer, *messages)

    monkeypatch.setattr(speed.Consumer, "_begin_acknowledging", losing_begin)
    monkeypatch.setattr(speed.Consumer, "acknowledge", losing)
    seen: list[object] = []
    with topic.consumer("billing", on_message=lambda message: seen.append(message.payload)):
        topic.publish_batch("abc")
        until(lambda: topic.describe()["subscriptions"][0]["backlog"] == 0)
        topic.publish("d")
        until(lambda: seen == ["a", "b", "c", "d"] and topic.describe()["subscriptions"][0]["backlog"] == 0)
    assert lost == []


def test_what_a_callback_handled_is_acknowledged_while_it_handles_the_next(topic: speed.Topic) -> None:
    """Should the next one end the process, the one before does not come again."""
    may_end = threading.Event()

    def handle(message: speed.TopicMessage) -> None:
        if message.payload == "b":
            may_end.wait(PATIENCE)

    with topic.consumer("billing", on_message=handle):
        topic.publish_batch("ab")
        until(lambda: topic.describe()["subscriptions"][0]["backlog"] == 1)
        may_end.set()
        until(lambda: topic.describe()["subscriptions"][0]["backlog"] == 0)


def test_what_a_callback_handled_meanwhile_is_acknowledged_together(
    topic: speed.Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the host is told of the first, the others gather."""
    told: list[int] = []
    seen: list[object] = []
    begin, acknowledge = speed.Consumer._begin_acknowledging, speed.Consumer.acknowledge

    def noting(consumer: speed.Consumer, messages: list[speed.TopicMessage]) -> Future[object]:
        told.append(len(messages))
        under_way = begin(consumer, messages)
        monkeypatch.setattr(under_way, "done", lambda: len(seen) == 5)
        return under_way

    def noting_all(consumer: speed.Consumer, *messages: speed.TopicMessage) -> int:
        told.append(len(messages))
        return acknowledge(consumer, *messages)

    monkeypatch.setattr(speed.Consumer, "_begin_acknowledging", noting)
    monkeypatch.setattr(speed.Consumer, "acknowledge", noting_all)
    topic.publish_batch("abcde")
    with topic.consumer("billing", start="earliest", on_message=lambda message: seen.append(message.payload)):
        until(lambda: topic.describe()["subscriptions"][0]["backlog"] == 0)
    assert told == [1, 4]


def seconds_to_close(topic: speed.Topic) -> float:
    """A consumer on which a thread waits for messages, as the host does for it."""
    consumer = topic.consumer("billing")
    found: list[object] = ["nothing yet"]
    waiting = threading.Thread(target=lambda: found.append(consumer.receive()))
    waiting.start()
    until(lambda: consumer._lock.locked())
    began = time.monotonic()
    consumer.close()
    waiting.join()
    took = time.monotonic() - began
    assert found[1:] == [None]
    assert topic.describe()["subscriptions"][0]["consumers"] == []
    return took


def test_closing_ends_whoever_waits_at_once(topic: speed.Topic) -> None:
    """The quickest of several: a busy machine may hold up one, but the host's own wait is never shorter."""
    assert min(seconds_to_close(topic) for _ in range(3)) < TOPIC_WAIT_SECONDS / 2


def test_a_program_with_a_loop_awaits_messages(node: speed.Node, topic: speed.Topic) -> None:
    async def consume() -> list[object]:
        events = node.aio.topic(topic.name)
        found = []
        async with await events.consumer("billing") as consumer:
            for number in range(3):
                await events.publish(number)
            async for message in consumer:
                found.append(message.payload)
                assert await consumer.acknowledge(message) == 1
                if len(found) == 3:
                    assert await consumer.receive(timeout=0.05) is None
                    return found
        return found

    assert asyncio.run(consume()) == [0, 1, 2]


def shown(topic: speed.Topic) -> dict[str, dict[str, Any]]:
    """Its subscriptions as they are described, by name."""
    return {one["subscription"]: one for one in topic.describe()["subscriptions"]}


def test_a_slow_consumer_holds_nobody_back_and_its_bound_is_shown(topic: speed.Topic) -> None:
    topic.publish_batch(range(5000))
    with topic.consumer("slow", type="shared", start="earliest", prefetch=4096) as slow:
        assert slow.receive(timeout=20) is not None
        until(lambda: not slow._fetch(0.0) and shown(topic)["slow"]["in_flight"] == 4096)
        with topic.consumer("quick", start="earliest", prefetch=1000) as quick:
            for _ in range(5):
                found = [quick.receive(timeout=20) for _ in range(1000)]
                assert found[-1] is not None
                quick.acknowledge_until(found[-1])
        until(lambda: shown(topic)["quick"]["backlog"] == 0)
        found_full = {name: one["full"] for name, one in shown(topic).items()}
        assert found_full == {"slow": True, "quick": False}


def test_what_a_deleted_topic_had_does_not_come_back(node: speed.Node) -> None:
    topic = node.topic("short.lived")
    topic.create()
    topic.publish("x")
    topic.consumer("billing", start="earliest").close()
    topic.delete()
    topic.create()
    assert topic.describe()["subscriptions"] == []
    assert topic.publish("y") == topic.describe()["first"]
    topic.delete()
