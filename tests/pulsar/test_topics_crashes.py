"""speedd and the broker killed under load, topics in Pulsar: nothing is lost, nothing is kept twice (D-23, D-24)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import speed
from tests.pulsar.conftest import Server
from tests.pulsar.test_topics import configuration
from tests.system.topics import CONSUMER, PRODUCER, TopicSite, until

pytestmark = [pytest.mark.system, pytest.mark.java, pytest.mark.timeout(400)]


@pytest.fixture
def site(server: Server, tmp_path: Path) -> Iterator[TopicSite]:
    site = TopicSite(tmp_path, configuration(server))
    site.start()
    with site.node() as node:
        orders = node.topic("orders")
        orders.delete()
        orders.create()
        yield site
    site.close()


def backlog(site: TopicSite) -> int:
    """What the one subscription has still to acknowledge; -1 while nobody knows."""
    with site.node() as node:
        try:
            (subscription,) = node.topic("orders").describe()["subscriptions"] or [{"backlog": -1}]
        except speed.CallError:
            return -1
        return int(subscription["backlog"])


def kept(site: TopicSite, count: int) -> list[object]:
    with site.node() as node:
        reader = node.topic("orders").reader("earliest", prefetch=1000)
        found = [reader.receive(timeout=20) for _ in range(count)]
        assert reader.receive(timeout=0.5) is None
        return [message and message.payload for message in found]


def published_while(site: TopicSite, count: int, disturb: Callable[[], None]) -> list[list[object]]:
    """What a consumer said of the numbers up to ``count``, while something went wrong every now and then."""
    consumer = site.run(CONSUMER, "consumer.1")
    until(lambda: backlog(site) == 0)
    producer = site.run(PRODUCER, 1, count)
    assert producer.stdout is not None
    assert consumer.stdout is not None
    for line in producer.stdout:
        if int(line) == count // 3:
            disturb()
    assert producer.wait(timeout=120) == 0
    until(lambda: backlog(site) == 0)
    assert kept(site, count) == list(range(1, count + 1)), "in order, each once"
    consumer.kill()
    lines = [json.loads(line) for line in consumer.stdout if line.endswith("\n")]
    consumer.wait()
    consumer.stdout.close()
    producer.stdout.close()
    return lines


def test_a_kill_of_speedd_loses_nothing_and_keeps_nothing_twice(site: TopicSite) -> None:
    def kill() -> None:
        site.kill()
        site.start()

    lines = published_while(site, 300, kill)
    assert {line[2] for line in lines if line[0] == "got"} == set(range(1, 301))


def test_a_restart_delivers_what_was_not_acknowledged(site: TopicSite) -> None:
    with site.node() as node:
        topic = node.topic("orders")
        topic.publish_batch("abc")
        with topic.consumer("billing", type="shared", start="earliest", prefetch=2) as consumer:
            first, second = consumer.receive(timeout=20), consumer.receive(timeout=20)
            assert first is not None
            assert second is not None
            consumer.acknowledge(first)
            until(lambda: backlog(site) == 2)
            site.kill()
            site.start()
            assert consumer.acknowledge(second) == 1, "an acknowledgement from before the restart counts"
            again = consumer.receive(timeout=30)
            assert again is not None
            assert again.payload == "c"
    with site.node() as node:
        assert node.topic("orders").publish("a", producer="shop", sequence=9) is not None
        site.kill()
        site.start()
        node.wait_for("speedd.topics", timeout=30)
        assert node.topic("orders").publish("a", producer="shop", sequence=9) is None


def test_a_kill_of_the_broker_loses_nothing_and_its_absence_is_told(server: Server, site: TopicSite) -> None:
    """The last test of the session that needs it quick: it takes as long to start as before."""
    answers: list[str] = []

    def kill() -> None:
        server.kill()
        with site.node("cli.1") as node:
            for _ in range(3):
                with pytest.raises(speed.ApplicationError) as refused:
                    node.topic("orders").publish("x", timeout=20)
                answers.append(refused.value.code)
        starting = threading.Thread(target=server.start)
        starting.start()
        starting.join()

    lines = published_while(site, 300, kill)
    assert set(answers) == {"NOT_WRITTEN"}
    assert {line[2] for line in lines if line[0] == "got"} == set(range(1, 301))
