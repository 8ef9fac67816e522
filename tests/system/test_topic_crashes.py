"""speedd, consumers and producers killed under load: nothing acknowledged is lost, repetitions are marked."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import speed
from speed.wire.topic import cursor_name
from tests.representative import fewer
from tests.system.topics import CONFIG, CONSUMER, PRODUCER, TopicSite, until

pytestmark = pytest.mark.system


@pytest.fixture
def site(tmp_path: Path) -> Iterator[TopicSite]:
    site = TopicSite(tmp_path)
    site.start()
    yield site
    site.close()


def finished(site: TopicSite, count: int) -> bool:
    with site.node() as node:
        (subscription,) = node.topic("orders").describe()["subscriptions"] or [{"backlog": -1}]
        return subscription["backlog"] == 0 and node.topic("orders").describe()["end"] == count


def kept(site: TopicSite) -> list[object]:
    with site.node() as node:
        end = node.topic("orders").describe()["end"]
        reader = node.topic("orders").reader("earliest", prefetch=1000)
        messages = [reader.receive(timeout=20) for _ in range(end)]
        return [message and message.payload for message in messages]


@pytest.mark.slow
def test_kills_of_speedd_lose_nothing_and_keep_nothing_twice(site: TopicSite) -> None:
    count, published = fewer(600, 300), []
    consumer = site.run(CONSUMER, "consumer.1")
    with site.node() as node:
        until(lambda: bool(node.topic("orders").describe()["subscriptions"]))
    producer = site.run(PRODUCER, 1, count)
    assert producer.stdout is not None
    assert consumer.stdout is not None
    for line in producer.stdout:
        published.append(int(line))
        if len(published) % 150 == 70:
            site.kill()
            site.start()
    assert producer.wait(timeout=60) == 0
    until(lambda: finished(site, count))
    assert kept(site) == list(range(1, count + 1)), "in order, each once"
    consumer.kill()
    consumer.wait()
    check_ledger([json.loads(line) for line in consumer.stdout if line.endswith("\n")], count)
    consumer.stdout.close()
    producer.stdout.close()


def check_ledger(lines: list[list[object]], count: int) -> None:
    """Of consumers, in the order of time: all came, none again after its acknowledgement, repetitions marked."""
    got: set[object] = set()
    acknowledged: set[object] = set()
    for what, offset, *rest in lines:
        if what == "acknowledged":
            acknowledged.add(offset)
        else:
            assert offset not in acknowledged, f"{offset} came again"
            assert offset not in got or int(str(rest[1])) > 1, f"{offset} came again unmarked"
            got.add(offset)
    assert got == set(range(count))


@pytest.mark.slow
def test_a_killed_consumer_gives_its_messages_to_the_next_one(site: TopicSite) -> None:
    count, at_once, lines = 300, 20, []
    with site.node() as node:
        node.topic("orders").publish_batch(range(count))
    for turn in range(3):
        lines += until_killed(site.run(CONSUMER, f"consumer.{turn}"), acknowledging=50)
    last = site.run(CONSUMER, "consumer.last")
    until(lambda: finished(site, count))
    lines += until_killed(last, acknowledging=0)
    check_ledger(lines, count)
    repeated = [line for line in lines if line[0] == "got" and int(str(line[3])) > 1]
    assert len(repeated) <= 3 * at_once, "only what a consumer had when it died"


def until_killed(consumer: subprocess.Popen[str], acknowledging: int) -> list[list[object]]:
    """What it said until it was killed, once it had acknowledged so many."""
    assert consumer.stdout is not None
    lines: list[list[object]] = []
    while sum(line[0] == "acknowledged" for line in lines) < acknowledging:
        lines.append(json.loads(consumer.stdout.readline()))
    consumer.kill()
    lines += [json.loads(line) for line in consumer.stdout if line.endswith("\n")]
    consumer.wait()
    consumer.stdout.close()
    return lines


@pytest.mark.slow
def test_a_killed_producer_goes_on_from_what_it_knows_and_nothing_is_kept_twice(site: TopicSite) -> None:
    count, said = 200, 0
    for first in range(3):
        said = killed_producer(site, said + 1, said + 40 + first)
        assert len(kept(site)) in (said, said + 1), "at most what was under way is kept besides"
    last = site.run(PRODUCER, said + 1, count)
    assert last.communicate(timeout=60)[0].split()[-1] == str(count)
    assert kept(site) == list(range(1, count + 1)), "in order, each once"


def killed_producer(site: TopicSite, first: int, last: int) -> int:
    """What it said last: it goes on at ``first``, and is killed when it has published ``last``."""
    producer = site.run(PRODUCER, first, 10**9)
    assert producer.stdout is not None
    said = first - 1
    while said < last:
        said = int(producer.stdout.readline())
    producer.kill()
    said = max([said, *(int(line) for line in producer.stdout if line.endswith("\n"))])
    producer.wait()
    producer.stdout.close()
    return said


def test_a_restart_delivers_what_was_not_acknowledged_marked(site: TopicSite) -> None:
    with site.node() as node:
        topic = node.topic("orders")
        topic.publish_batch("abc")
        with topic.consumer("billing", type="shared", start="earliest", prefetch=2) as consumer:
            first, second = consumer.receive(timeout=20), consumer.receive(timeout=20)
            assert first is not None
            assert second is not None
            consumer.acknowledge(first)
            site.kill()
            site.start()
            again = [consumer.receive(timeout=30) for _ in range(2)]
            assert [one and (one.payload, one.attempts) for one in again] == [("b", 2), ("c", 1)]
            assert consumer.acknowledge(second) == 1, "an acknowledgement from before the restart counts"


def test_whoever_comes_while_the_host_begins_anew_waits_for_it(site: TopicSite) -> None:
    with site.node() as node:
        topic = node.topic("orders")
        topic.publish("before")
        site.kill()
        starting = threading.Thread(target=site.start)
        starting.start()
        with topic.consumer("billing", type="shared", start="earliest") as consumer:
            message = consumer.receive(timeout=30)
            assert message is not None
            assert consumer.acknowledge(message) == 1
            assert topic.publish("after") == 1
        starting.join()


def test_who_waits_in_vain_for_a_host_is_told(site: TopicSite) -> None:
    with site.node() as node:
        site.kill()
        with pytest.raises((speed.UnknownNodeError, speed.NodeLeftError)):
            node.topic("orders").consumer("billing", timeout=0.2)


def test_a_repetition_is_known_after_a_restart(site: TopicSite) -> None:
    with site.node() as node:
        node.topic("orders").publish("a", producer="shop", sequence=9)
    site.kill()
    site.start()
    with site.node() as node:
        assert node.topic("orders").publish("a", producer="shop", sequence=9).duplicate


def test_a_damaged_cursor_stops_its_subscription_alone_and_is_made_anew_by_seeking(site: TopicSite) -> None:
    with site.node() as node:
        topic = node.topic("orders")
        topic.publish_batch("ab")
        for name in ("billing", "audit"):
            topic.consumer(name, type="shared", start="earliest").close()
    site.kill()
    (file,) = (site.root / "topics").glob(f"*/{cursor_name('billing')}")
    data = bytearray(file.read_bytes())
    data[20] ^= 1
    file.write_bytes(data)
    site.start()
    with site.node() as node:
        topic = node.topic("orders")
        with pytest.raises(speed.ApplicationError) as refused:
            topic.consumer("billing", type="shared")
        assert refused.value.code == "DAMAGED"
        assert [one["file"] for one in topic.describe()["damaged"]] == [cursor_name("billing")]
        with topic.consumer("audit", type="shared") as consumer:
            message = consumer.receive(timeout=20)
            assert message is not None
            assert message.payload == "a"
        assert topic.seek("billing", "earliest") == 0
        with topic.consumer("billing", type="shared") as consumer:
            assert consumer.receive(timeout=20) is not None


def test_grants_of_topics_are_taken_over_from_a_changed_configuration(site: TopicSite) -> None:
    with site.node("consumer.1") as node:
        topic = node.topic("orders")
        with pytest.raises(speed.ApplicationError) as refused:
            topic.publish("x")
        assert refused.value.code == "DENIED"
        site.config.write_text(CONFIG.replace('"producer.*"', '"consumer.1"'))
        site.started[-1].send_signal(signal.SIGHUP)

        def is_allowed() -> bool:
            try:
                return topic.publish("x") is not None
            except speed.ApplicationError:
                return False

        until(is_allowed)
    with speed.Node("producer.1", root=site.root, key=site.key) as node, pytest.raises(speed.AccessDeniedError):
        node.topic("orders").publish("x")


def test_beyond_its_size_a_topic_drops_the_oldest_or_refuses_as_it_was_told(tmp_path: Path) -> None:
    bounds = 'max_bytes = 1048576\n[[topic]]\nname = "strict"\nmax_bytes = 1048576\nbacklog = "refuse"\n'
    site = TopicSite(tmp_path, CONFIG + '[[topic]]\nname = "loose"\n' + bounds)
    try:
        site.start()
        with site.node() as node:
            loose, strict = node.topic("loose"), node.topic("strict")
            for topic in (loose, strict):
                topic.consumer("billing", start="earliest").close()
            for _ in range(40):
                loose.publish(bytes(50_000))
            assert loose.describe()["first"] > 0
            assert loose.describe()["subscriptions"][0]["cursor"] == loose.describe()["first"]
            with pytest.raises(speed.ApplicationError) as refused:
                for _ in range(40):
                    strict.publish(bytes(50_000))
            assert refused.value.code == "FULL"
            assert strict.describe()["first"] == 0
            strict.purge()
            assert strict.publish(b"room again") is not None
    finally:
        site.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[TopicSite]:
    """Topics on a file system of 256 KiB."""
    point = tmp_path / "small"
    point.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", str(point)], check=True)
    site = TopicSite(tmp_path, CONFIG.replace("[topics]", '[topics]\ndirectory = "small/topics"'))
    try:
        site.start()
        yield site
    finally:
        site.close()
        subprocess.run(["umount", "-l", str(point)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small filesystem")
def test_a_full_disk_refuses_what_cannot_be_kept_and_loses_nothing(small: TopicSite) -> None:
    with small.node() as node:
        topic = node.topic("orders")
        topic.publish_batch("ab")
        with topic.consumer("billing", type="shared", start="earliest") as consumer:
            first, second = consumer.receive(timeout=20), consumer.receive(timeout=20)
            assert first is not None
            assert second is not None
            filler = fill(small.path / "small")
            kept = published_until_refused(topic)
            with pytest.raises(speed.ApplicationError) as refused:
                consumer.acknowledge(first)
            assert refused.value.code == "NOT_WRITTEN"
            filler.unlink()
            consumer.acknowledge(first)
            assert topic.publish("after") == kept
        small.kill()
        small.start()
        with topic.consumer("billing", type="shared") as consumer:
            again = [consumer.receive(timeout=20) for _ in range(kept)]
            assert [one and one.offset for one in again] == list(range(1, kept + 1))
            assert again[0] is not None
            assert again[0].redelivered


def fill(directory: Path) -> Path:
    """A file that takes all the room that is left."""
    path = directory / "filler"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return path


def published_until_refused(topic: speed.Topic) -> int:
    """The end of a topic that can take no more."""
    with pytest.raises(speed.ApplicationError) as refused:
        while True:
            topic.publish(bytes(500))
    assert refused.value.code == "NOT_WRITTEN"
    return int(topic.describe()["end"])


def test_with_durability_disk_all_goes_on_after_a_kill(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as directory:  # no memory, as the root may be
        options = f'[topics]\ndurability = "disk"\ndirectory = "{directory}/topics"'
        site = TopicSite(tmp_path, CONFIG.replace("[topics]", options))
        try:
            site.start()
            with site.node() as node:
                topic = node.topic("orders")
                topic.publish_batch("ab")
                with topic.consumer("billing", type="shared", start="earliest") as consumer:
                    message = consumer.receive(timeout=20)
                    assert message is not None
                    consumer.acknowledge(message)
                    site.kill()
                    site.start()
                    again = consumer.receive(timeout=30)
                    assert again is not None
                    assert (again.payload, consumer.acknowledge(again)) == ("b", 1)
                    assert consumer.receive(timeout=0.1) is None
        finally:
            site.close()
