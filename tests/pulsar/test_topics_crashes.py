"""speedd and the broker killed under load, topics in Pulsar: nothing is lost, nothing is kept twice (D-23, D-24)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import speed
from tests.pulsar.standalone import Server
from tests.pulsar.test_topics import configuration
from tests.system.topics import CONSUMER, PRODUCER, TopicSite, until

pytestmark = [pytest.mark.system, pytest.mark.java, pytest.mark.timeout(400)]


@pytest.fixture
def site(server: Server, tmp_path: Path) -> Iterator[TopicSite]:
    site = TopicSite(tmp_path, configuration(server))
    site.start()
    yield site
    site.close()


@pytest.fixture
def orders(site: TopicSite) -> Iterator[speed.Topic]:
    """An empty topic, of a node that outlives its host."""
    with site.node() as node:
        topic = node.topic("orders")
        topic.delete()
        topic.create()
        yield topic


def backlog(topic: speed.Topic) -> int:
    """What the one subscription has still to acknowledge; -1 while nobody knows."""
    try:
        (subscription,) = topic.describe()["subscriptions"] or [{"backlog": -1}]
    except (speed.CallError, speed.DeliveryError):
        return -1
    return int(subscription["backlog"])


def kept(topic: speed.Topic, count: int) -> list[object]:
    reader = topic.reader("earliest", prefetch=1000)
    found = [reader.receive(timeout=20) for _ in range(count)]
    assert reader.receive(timeout=0.5) is None
    return [message and message.payload for message in found]


def published_while(
    site: TopicSite, orders: speed.Topic, count: int, disturb: Callable[[], None]
) -> list[list[object]]:
    """What a consumer said of the numbers up to ``count``, while something went wrong every now and then."""
    consumer = site.run(CONSUMER, "consumer.1")
    until(lambda: backlog(orders) == 0)
    producer = site.run(PRODUCER, 1, count)
    assert producer.stdout is not None
    assert consumer.stdout is not None
    for line in producer.stdout:
        if int(line) == count // 3:
            disturb()
    assert producer.wait(timeout=120) == 0
    until(lambda: backlog(orders) == 0)
    assert kept(orders, count) == list(range(1, count + 1)), "in order, each once"
    consumer.kill()
    lines = [json.loads(line) for line in consumer.stdout if line.endswith("\n")]
    consumer.wait()
    consumer.stdout.close()
    producer.stdout.close()
    return lines


def test_a_kill_of_speedd_loses_nothing_and_keeps_nothing_twice(site: TopicSite, orders: speed.Topic) -> None:
    def kill() -> None:
        site.kill()
        site.start()

    lines = published_while(site, orders, 300, kill)
    assert {line[2] for line in lines if line[0] == "got"} == set(range(1, 301))


def test_a_restart_delivers_what_was_not_acknowledged(site: TopicSite, orders: speed.Topic) -> None:
    """D-23: an acknowledgement from before the restart counts."""
    orders.publish_batch("abc")
    with orders.consumer("billing", type="shared", start="earliest", prefetch=2) as consumer:
        first, second = consumer.receive(timeout=20), consumer.receive(timeout=20)
        assert first is not None
        assert second is not None
        consumer.acknowledge(first)
        until(lambda: backlog(orders) == 2)
        site.kill()
        site.start()
        orders.node.wait_for("speedd.topics", timeout=30)
        assert consumer.acknowledge(second) == 1
        again = consumer.receive(timeout=30)
        assert again is not None
        assert again.payload == "c"


def test_a_repetition_is_known_after_a_restart(site: TopicSite, orders: speed.Topic) -> None:
    """D-6, D-23."""
    assert not orders.publish("a", producer="shop", sequence=9).duplicate
    site.kill()
    site.start()
    orders.node.wait_for("speedd.topics", timeout=30)
    assert orders.publish("a", producer="shop", sequence=9).duplicate


def test_a_kill_of_the_broker_loses_nothing_and_its_absence_is_told(
    server: Server, site: TopicSite, orders: speed.Topic
) -> None:
    """D-24."""
    answers: list[str] = []

    def kill() -> None:
        server.kill()
        for _ in range(3):
            with pytest.raises(speed.ApplicationError) as refused:
                orders.publish("x")
            answers.append(refused.value.code)
        server.start()

    lines = published_while(site, orders, 300, kill)
    assert set(answers) == {"NOT_WRITTEN"}
    assert {line[2] for line in lines if line[0] == "got"} == set(range(1, 301))
