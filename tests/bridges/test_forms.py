"""What single backends have beside the others: transactions of Kafka, channels of Redis, streams of administrators."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import nats
import pytest

from speed.messages import BackendAwayError, BackendRefusedError
from tests.bridges.conftest import WAIT_SECONDS, Bench, take
from tests.bridges.raw import RawRedis

pytestmark = [pytest.mark.system, pytest.mark.slow]
BenchOf = Callable[[str], Bench]


def test_a_transaction_of_kafka_is_whole_or_absent(bench_of: BenchOf) -> None:
    """B-3."""
    bench = bench_of("kafka")
    connection = bench.connect(f"transactional_id={bench.own}")
    connection.publish_all([(bench.topic, number, "k") for number in range(3)], timeout=WAIT_SECONDS)
    bench.raw.put(f"{bench.own}.other", b"")
    with pytest.raises((BackendRefusedError, BackendAwayError)):
        connection.publish_all([(bench.topic, "lost", "k"), (f"{bench.own}_other", "refused")], timeout=10.0)
    connection.publish(bench.topic, 3, key="k", timeout=WAIT_SECONDS)
    assert take(bench.subscribe(connection), 4) == [0, 1, 2, 3]


def test_a_second_program_with_the_transactional_id_shuts_the_first_out(bench_of: BenchOf) -> None:
    """B-3."""
    bench = bench_of("kafka")
    first, second = (bench.connect(f"transactional_id={bench.own}") for _ in range(2))
    first.publish(bench.topic, 0, timeout=WAIT_SECONDS)
    second.publish(bench.topic, 1, timeout=WAIT_SECONDS)
    with pytest.raises(BackendRefusedError, match="another program"):
        first.publish(bench.topic, 2, timeout=WAIT_SECONDS)


def test_channels_of_redis_reach_who_listens(bench_of: BenchOf) -> None:
    """B-1: the envelope alone, which stands for itself."""
    bench = bench_of("redis")
    connection = bench.connect("form=pubsub")
    assert isinstance(bench.raw, RawRedis)
    theirs = bench.raw.client.pubsub()
    theirs.subscribe(bench.topic)
    connection.publish(bench.topic, "nobody listens yet")
    one = bench.subscribe(connection, group="")
    every = bench.subscribe(connection, f"{bench.own}.*", group="")
    assert one.receive(0.1) is None
    assert every.receive(0.1) is None
    connection.publish_all([(bench.topic, number) for number in range(3)])
    assert take(one, 3) == take(every, 3) == [0, 1, 2]
    while (said := theirs.get_message(timeout=5.0))["type"] != "message":
        pass
    assert said["data"].endswith(b"nobody listens yet")
    theirs.close()


def test_a_stream_of_an_administrator_is_used_as_it_is(bench_of: BenchOf) -> None:
    """B-4."""
    bench = bench_of("nats")

    async def made() -> None:
        client = await nats.connect(bench.server.address)
        await client.jetstream().add_stream(name=f"ALL-{bench.own}", subjects=[f"{bench.own}.>"], max_msgs=50)
        await client.close()

    asyncio.run(made())
    connection = bench.connect()
    connection.publish(bench.topic, 1)
    message = bench.subscribe(connection).receive(WAIT_SECONDS)
    assert message is not None
    assert message.position == f"ALL-{bench.own}:1"


@pytest.mark.parametrize("name", ["nats", "redis"])
def test_slow_work_is_not_given_to_another(bench_of: BenchOf, name: str) -> None:
    """B-5: longer than a lease, while the process lives."""
    bench = bench_of(name)
    connection = bench.connect()
    connection.publish(bench.topic, "slow")
    slow = bench.subscribe(connection)
    assert slow.receive(WAIT_SECONDS) is not None
    other = bench.subscribe(connection)
    assert other.receive(5.0) is None
    slow.close()
    assert take(other, 1) == ["slow"]


def test_what_is_finished_by_another_thread_is_acknowledged(bench: Bench) -> None:
    connection = bench.connect()
    connection.publish_all([(bench.topic, number, "k") for number in range(4)])
    with bench.subscribe(connection) as subscription:
        held = []
        for _ in range(4):
            held.append(subscription.receive(WAIT_SECONDS))
            subscription._last = None  # it is not finished by the next
        workers = [threading.Thread(target=one.done) for one in held if one is not None]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(WAIT_SECONDS)
    connection.publish(bench.topic, "next", key="k")
    assert take(bench.subscribe(connection), 1) == ["next"]
