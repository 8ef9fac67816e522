"""What a backend keeps though its answer is lost: it is neither published twice nor passed over (B-14)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from speed.backends import open_backend
from speed.backends.backend import Checkpoint, Outgoing
from speed.message.view import MessageView
from speed.message.writing import encode_message
from speed.messages import BackendAwayError
from tests.bridges.conftest import WAIT_SECONDS, Bench
from tests.system.topics import until
from tests.torture.relay import Relay

pytestmark = [pytest.mark.system, pytest.mark.slow]
BenchOf = Callable[[str], Bench]
PLACING = ["kafka", "redis", "postgres"]


def outgoing(topic: str, number: int) -> Outgoing:
    own_id = f"m-{number}"
    data = encode_message({"n": number}, topic=topic, namespace="default", message_id=own_id, published_at_ms=1)
    return Outgoing(topic, "k", data, own_id, 1, None)


def placing(bench: Bench) -> Any:
    more = ("&" if "?" in bench.address else "?") + f"transactional_id={bench.own}" if bench.name == "kafka" else ""
    return open_backend(bench.address + more)


def numbers(bench: Bench, count: int) -> list[int]:
    """What is there: ``count`` messages, and nothing more."""
    with bench.subscribe(bench.connect()) as subscription:
        came = [subscription.receive(WAIT_SECONDS) for _ in range(count)]
        assert subscription.receive(2.0) is None
    return [one.payload["n"] for one in came if one is not None]


@pytest.mark.parametrize("name", PLACING)
def test_who_believes_in_another_place_publishes_nothing_and_is_told_what_is_there(
    bench_of: BenchOf, name: str
) -> None:
    bench = bench_of(name)
    two = [outgoing(bench.topic, number) for number in (1, 2)]
    first, second = placing(bench), placing(bench)
    try:
        place = Checkpoint(f"b-{bench.own}", "lane-1", bench.topic, 2)
        assert first.publish_at(two, [place], WAIT_SECONDS) == {}
        assert second.publish_at(two, [place], WAIT_SECONDS) == {"lane-1": 2}
        assert second.publish_at([outgoing(bench.topic, 3)], [place._replace(next=3, before=2)], WAIT_SECONDS) == {}
        assert second.next_of(place, WAIT_SECONDS) == 3
    finally:
        first.close()
        second.close()
    assert numbers(bench, 3) == [1, 2, 3]


@pytest.mark.parametrize("name", ["redis", "postgres"])
def test_of_several_lanes_one_that_is_elsewhere_keeps_all_back(bench_of: BenchOf, name: str) -> None:
    bench = bench_of(name)
    backend = placing(bench)
    try:
        places = [Checkpoint(f"b-{bench.own}", lane, bench.topic, number) for lane, number in (("x", 1), ("a", 2))]
        both = [outgoing(bench.topic, number) for number in (1, 2)]
        assert backend.publish_at(both[:1], places[:1], WAIT_SECONDS) == {}
        assert backend.publish_at(both, places, WAIT_SECONDS) == {"x": 1, "a": 0}
        assert backend.publish_at(both[1:], places[1:], WAIT_SECONDS) == {}
    finally:
        backend.close()
    assert numbers(bench, 2) == [1, 2]


@pytest.mark.parametrize("alone", [False, True])
def test_what_an_answer_of_redis_held_that_was_lost_comes_before_anything_new(
    bench_of: BenchOf, *, alone: bool
) -> None:
    bench = bench_of("redis")
    client = redis.Redis(port=bench.server.port)
    relay = Relay(bench.server.port)
    backend = open_backend(f"redis://127.0.0.1:{relay.port}")
    try:
        subscription = backend.subscribe(bench.topic, bench.group, "earliest", alone=alone)
        backend.publish([outgoing(bench.topic, 1)], WAIT_SECONDS)
        held = subscription.receive(1, WAIT_SECONDS)
        with ThreadPoolExecutor(1) as waiting:
            asked = waiting.submit(subscription.receive, 1, WAIT_SECONDS)
            until(lambda: client.info("clients")["blocked_clients"] > 0)
            relay.cut()
            with pytest.raises(BackendAwayError):
                asked.result(WAIT_SECONDS)
        relay.mend()
        backend.publish([outgoing(bench.topic, number) for number in (2, 3, 4)], WAIT_SECONDS)
        (consumer,) = client.xinfo_consumers(bench.topic, bench.group)
        client.xreadgroup(bench.group, consumer["name"], {bench.topic: ">"}, count=2)  # nobody hears of these
        came = [*held, *(one for _ in range(3) for one in subscription.receive(1, WAIT_SECONDS))]
        assert [MessageView(one.envelope).payload["n"] for one in came] == [1, 2, 3, 4]
        subscription.acknowledge(came)
        assert client.xpending(bench.topic, bench.group)["pending"] == 0
        subscription.close()
    finally:
        backend.close()
        relay.close()
        client.close()
