"""Topics that keep the latest message of each key, compacted by a running speedd: beside readers, and killed."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import speed
from speed.journal import Journal
from tests.representative import fewer
from tests.system.topics import CONFIG, TopicSite, until

pytestmark = pytest.mark.system

LATEST = CONFIG.replace('name = "orders"\n', 'name = "orders"\nkeep = "latest"\ntombstone_seconds = 1\n')
KEYS = 20


@pytest.fixture
def site(tmp_path: Path) -> Iterator[TopicSite]:
    site = TopicSite(tmp_path, LATEST)
    site.start()
    yield site
    site.close()


def offsets(site: TopicSite) -> list[int]:
    """Of what lies on the disk, read beside speedd."""
    journal = Journal(site.root / "topics", site.key)
    (lane,) = (one.id for one in journal.lanes() if one.subject == "orders")
    return [record.offset for record in journal.read(lane, 0, journal.end(lane))]


def latest(topic: speed.Topic) -> dict[object, object]:
    """What a reader of present values gets."""
    reader = topic.reader("earliest", compacted=True)
    found = {}
    while (message := reader.receive(timeout=0)) is not None:
        found[message.key] = message.payload
    return found


def test_a_reader_of_present_values_gets_the_same_and_finds_less_before_it(site: TopicSite) -> None:
    with site.node() as node:
        topic = node.topic("orders")
        topic.publish_batch(range(1000), keys=(f"key {number % KEYS}" for number in range(1000)))
        topic.delete_key("key 7")
        topic.publish("last", key="key 8")
        expected = latest(topic)
        assert len(expected) == KEYS - 1
        assert topic.compact() == 1002
        until(lambda: bool(topic.compact()) and len(offsets(site)) == KEYS - 1)  # once the tombstone is old enough
        assert latest(topic) == expected
        assert topic.describe()["first"] == 0
        assert topic.publish("more") == 1002


def test_a_consumer_gets_all_that_it_has_not_acknowledged(site: TopicSite) -> None:
    with site.node() as node:
        topic = node.topic("orders")
        with topic.consumer("billing", type="shared", start="earliest") as consumer:
            topic.publish_batch(range(100), keys=["one key"] * 100)
            for number in range(100):
                assert topic.compact() <= number
                message = consumer.receive(timeout=30)
                assert message is not None
                assert (message.offset, message.payload) == (number, number)
                consumer.acknowledge(message)
        assert topic.compact() == 100
        until(lambda: offsets(site) == [99])


def test_the_command_says_how_far_a_topic_is_compacted(site: TopicSite) -> None:
    with site.node() as node:
        node.topic("orders").publish_batch(range(3), keys=["a", "b", "a"])
    command = [sys.executable, "-m", "speed.cli", "topic", "compact", "orders", "--root", str(site.root)]
    command += ["--key", str(site.key), "--as", "cli.upkeep"]
    assert subprocess.check_output(command, text=True) == "orders is being compacted up to offset 3.\n"
    assert json.loads(subprocess.check_output([*command, "--json"], text=True)) == {"until": 3}
    until(lambda: offsets(site) == [1, 2])


def test_a_topic_that_keeps_all_is_not_compacted_for_the_asking(site: TopicSite) -> None:
    with site.node() as node:
        node.topic("other").create()
        with pytest.raises(speed.InvalidArgumentsError, match="keep = 'latest'"):
            node.topic("other").compact()
        with pytest.raises(speed.ApplicationError, match="there is no topic"):
            node.topic("none").compact()


def test_a_topic_with_damage_is_left_as_it_is_and_the_log_says_so(site: TopicSite) -> None:
    with site.node() as node:
        topic = node.topic("orders")
        topic.publish_batch(range(10), keys=["a"] * 10)
        (lane,) = (one for one in (site.root / "topics").iterdir() if (one / "000000000000.segment").exists())
        segment = lane / "000000000000.segment"
        data = bytearray(segment.read_bytes())
        data[100] ^= 1
        segment.write_bytes(data)
        topic.compact()
        line = read_until(site, "topics_not_written")
        assert "'orders' is not compacted: lane" in line
        assert segment.read_bytes() == data
        assert topic.publish("goes on", key="a") == 10


def read_until(site: TopicSite, event: str) -> str:
    """The log of speedd from here to an event."""
    lines: list[str] = []
    log = site.started[-1].stderr
    assert log is not None
    for line in log:
        lines.append(line)
        if json.loads(line)["event"] == event:
            break
    return "".join(lines)


PUBLISHER = """
import sys, speed
root, key, last, keys = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with speed.Node("producer.1", root=root, key=key) as node:
    node.wait_for("speedd.topics", timeout=30)
    topic, number = node.topic("orders"), 1
    while number <= last:
        try:
            topic.publish(number, key=str(number % keys), producer="shop", sequence=number, timeout=5)
        except (speed.DeliveryError, speed.CallError):
            node.wait_for("speedd.topics", timeout=30)  # again under the same sequence
        else:
            print(number, flush=True)
            number += 1
"""


def keep_compacting(site: TopicSite, ended: threading.Event) -> None:
    """Whenever speedd is there, as fast as it answers."""
    with site.node("cli.upkeep") as node:
        while not ended.is_set():
            try:
                node.topic("orders").compact(timeout=5)
            except (speed.DeliveryError, speed.CallError):
                ended.wait(0.02)


@pytest.mark.slow
def test_kills_while_it_compacts_lose_no_present_value_and_nothing_unacknowledged(site: TopicSite) -> None:
    """SIGKILL at any moment of a rewriting; a subscription follows meanwhile."""
    count, ended = fewer(600, 240), threading.Event()
    with site.node() as node:
        consumer = node.topic("orders").consumer("audit", type="exclusive", start="earliest")
    upkeep = threading.Thread(target=keep_compacting, args=(site, ended))
    upkeep.start()
    publisher = site.run(PUBLISHER, count, KEYS)
    assert publisher.stdout is not None
    for line in publisher.stdout:
        if int(line) % 60 == 30:
            site.kill()
            site.start()
    assert publisher.wait(timeout=60) == 0
    publisher.stdout.close()
    consumer.close()
    with site.node() as node:
        topic = node.topic("orders")
        with topic.consumer("audit", type="exclusive", start="earliest", timeout=30) as consumer:
            for number in range(1, count + 1):
                message = consumer.receive(timeout=30)
                assert message is not None
                assert message.payload == number, "in order, each once, none removed"
            consumer.acknowledge_until(message)
        until(lambda: offsets(site) == list(range(count - KEYS, count)))
        ended.set()
        upkeep.join()
        expected = {str(number % KEYS): number for number in range(1, count + 1)}
        assert latest(topic) == expected
    assert not list((site.root / "topics").glob("*/.tmp-*.rewritten")), "what a kill left was removed"


@pytest.mark.slow
def test_kills_of_a_topic_that_nobody_consumes_lose_no_present_value(site: TopicSite) -> None:
    """Here most is removed while it is killed."""
    count, ended = fewer(600, 240), threading.Event()
    upkeep = threading.Thread(target=keep_compacting, args=(site, ended))
    upkeep.start()
    publisher = site.run(PUBLISHER, count, KEYS)
    assert publisher.stdout is not None
    for line in publisher.stdout:
        if int(line) % 60 == 30:
            site.kill()
            site.start()
            found = offsets(site)
            assert found == sorted(set(found))
    assert publisher.wait(timeout=60) == 0
    publisher.stdout.close()
    until(lambda: offsets(site) == list(range(count - KEYS, count)))
    ended.set()
    upkeep.join()
    with site.node() as node:
        expected = {str(number % KEYS): number for number in range(1, count + 1)}
        assert latest(node.topic("orders")) == expected
