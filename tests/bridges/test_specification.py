"""What a backend promises, whichever it is: each test runs against a real server of each, and moto for S3 and SQS."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from scripts.servers import KINDS, Moto
from speed.message.options import PublishOptions
from speed.message.security import MessageSecurity
from speed.message.writing import encode_message
from speed.messages import BackendAwayError, BackendError, Received
from tests.bridges.conftest import WAIT_SECONDS, Bench, take, take_all

pytestmark = [pytest.mark.system, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
ONE_CONSUMER = {"s3"}
"""A group has no more."""


def test_a_message_arrives_as_it_was_published(bench: Bench) -> None:
    connection = bench.connect(name="shop")
    subscription = bench.subscribe(connection)
    message_id = connection.publish(
        bench.topic, {"id": 17}, key="customer-4", options=PublishOptions(labels={"region": "eu"}, priority=8)
    )
    message = subscription.receive(WAIT_SECONDS)
    assert isinstance(message, Received)
    assert (message.payload, message.topic, message.key) == ({"id": 17}, bench.topic, "customer-4")
    assert (message.message_id, message.source, message.metadata.labels) == (message_id, "shop", {"region": "eu"})
    assert (message.metadata.priority, message.redelivered) == (8, False)


def test_the_bytes_of_a_message_are_kept(bench: Bench) -> None:
    """Unknown fields, their order, a trace: all that a signature covers."""
    head = {"topic": bench.topic, "namespace": "default", "published_at_ms": 1_718_000_000_000}
    own_id = "0190163d-8694-739b-aea5-966c26f8ad90"
    sent = encode_message(b"\x00\xff", message_id=own_id, traceparent=f"00-{'a' * 32}-{'b' * 16}-01", **head)
    sent = b"\xa2\x06\x03abc" + sent  # field 100, before all others
    connection = bench.connect()
    subscription = bench.subscribe(connection)
    assert connection.forward(sent) == own_id
    message = subscription.receive(WAIT_SECONDS)
    assert message is not None
    assert message.metadata.to_bytes() == sent


def test_many_at_once_stay_in_order_by_key(bench: Bench) -> None:
    count = 60 if isinstance(bench.server, Moto) else 2000
    connection = bench.connect()
    subscription = bench.subscribe(connection)
    ids = connection.publish_all([(bench.topic, number, f"key-{number % 7}") for number in range(count)])
    assert len(set(ids)) == count
    of_key = defaultdict(list)
    for _ in range(count):
        message = subscription.receive(WAIT_SECONDS)
        assert message is not None
        of_key[message.key].append(message.payload)
    assert of_key == {f"key-{key}": list(range(key, count, 7)) for key in range(7)}


def test_what_a_killed_consumer_did_not_finish_comes_again_and_nothing_else(bench: Bench) -> None:
    connection = bench.connect()
    connection.publish_all([(bench.topic, number, "one key") for number in range(5)])
    words = [sys.executable, "-m", "tests.bridges.consumer", bench.address, bench.topic, bench.group, "2"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "2\n"
        process.kill()
    take_all(bench.subscribe(connection), {2, 3, 4})


def test_what_is_not_finished_comes_again_when_the_subscription_closes(bench: Bench) -> None:
    connection = bench.connect()
    connection.publish_all([(bench.topic, number, "one key") for number in range(3)])
    with bench.subscribe(connection) as first:
        assert first.receive(WAIT_SECONDS) is not None
    take_all(bench.subscribe(connection), {0, 1, 2})


def test_the_position_of_a_group_is_kept(bench: Bench) -> None:
    connection = bench.connect()
    connection.publish_all([(bench.topic, number, "one key") for number in range(6)])
    with bench.subscribe(connection, prefetch=2) as first:
        assert take(first, 2) == [0, 1]
        assert first.positions()
    connection.close()
    later = bench.connect()
    assert take(bench.subscribe(later), 4) == [2, 3, 4, 5]


def test_a_group_may_begin_with_what_comes(bench: Bench) -> None:
    connection = bench.connect()
    connection.publish(bench.topic, "before")
    subscription = bench.subscribe(connection, start="latest")
    assert subscription.receive(5.0) is None
    connection.publish(bench.topic, "after")
    assert take(subscription, 1) == ["after"]


def test_a_pattern_covers_topics_that_come_later(bench: Bench) -> None:
    connection = bench.connect()
    connection.publish(f"{bench.own}.first", 1)
    connection.publish(f"{bench.own}x", "of another family")
    subscription = bench.subscribe(connection, f"{bench.own}.*", start="earliest")
    assert take(subscription, 1) == [1]
    connection.publish(f"{bench.own}.second.part", 2)
    assert take(subscription, 1) == [2]


@pytest.mark.parametrize("backend", sorted(KINDS.keys() - ONE_CONSUMER))
def test_the_members_of_a_group_share_its_messages(bench: Bench) -> None:
    connection = bench.connect()
    members = [bench.subscribe(connection, prefetch=5) for _ in range(2)]
    connection.publish_all([(bench.topic, number, str(number)) for number in range(40)])
    found: set[int] = set()  # what was acknowledged as a member joined may come again, to the other
    for _ in range(200):
        for member in members:
            message = member.receive(0.2)
            if message is not None:
                found.add(message.payload)
                message.done()
        if len(found) == 40:
            break
    assert found == set(range(40))


def test_a_server_that_goes_away_is_missed_and_comes_back(own_bench: Bench) -> None:
    connection = own_bench.connect()
    subscription = own_bench.subscribe(connection)
    connection.publish(own_bench.topic, "before")
    assert take(subscription, 1) == ["before"]
    own_bench.server.kill()
    try:
        with pytest.raises(BackendAwayError):
            connection.publish(own_bench.topic, "lost", timeout=1.0)
        assert subscription.receive(1.0) is None
        health = connection.health(1.0)
        assert not health.is_up
        assert health.trouble.startswith("BACKEND_AWAY")
        early = own_bench.connect()  # one that begins now
        early_subscription = early.subscribe(own_bench.topic, group=own_bench.group)
        assert early_subscription.receive(0.5) is None
        early_subscription.close()
        with pytest.raises(BackendAwayError):
            early.publish(own_bench.topic, "lost", timeout=0.5)
    finally:
        own_bench.server.start()
    if isinstance(own_bench.server, Moto):  # it forgets all
        own_bench.server.make(own_bench.own)
    early.publish(own_bench.topic, "after", timeout=WAIT_SECONDS)
    while True:
        payloads = take(subscription, 1)  # what was lost may have been kept
        if payloads == ["after"]:
            break
        assert payloads == ["lost"]
    assert connection.health(WAIT_SECONDS).is_up


def test_a_message_that_expired_is_not_handed_over(bench: Bench) -> None:
    connection = bench.connect()
    own_id = "0190163d-8694-739b-aea5-966c26f8ad90"
    head = {"topic": bench.topic, "namespace": "default", "published_at_ms": 1_718_000_000_000, "message_id": own_id}
    connection.forward(encode_message("old", ttl_seconds=5, **head), key="k")
    connection.publish(bench.topic, "new", key="k", options=PublishOptions(ttl_seconds=500))
    subscription = bench.subscribe(connection)
    assert take(subscription, 1) == ["new"]
    assert subscription.expired == 1


def test_a_closed_connection_says_so(bench: Bench) -> None:
    connection = bench.connect()
    subscription = bench.subscribe(connection)
    subscription.close()
    with pytest.raises(BackendError, match="was closed"):
        subscription.receive(1.0)
    connection.close()
    with pytest.raises(BackendError, match="was closed"):
        connection.publish(bench.topic, 1)


def test_what_is_confidential_is_refused_in_the_clear(bench: Bench) -> None:
    """As nodes do: the same guard looks at what is published."""
    connection = bench.connect(security=MessageSecurity())
    with pytest.raises(Exception, match="must be encrypted"):
        connection.publish(bench.topic, 1, options=PublishOptions(classification="confidential"))
