"""Servers that are full, or refuse who asks; and that no credentials are told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import nats
import pytest

import speed.messages
from scripts.servers import Kafka, Redis
from scripts.servers.server import PASSWORD, USER
from speed.errors import ConfigurationError
from speed.messages import BackendError, BackendFullError, BackendRefusedError
from tests.bridges.conftest import WAIT_SECONDS, Bench, take
from tests.bridges.raw import RawPostgres, RawRedis

pytestmark = [pytest.mark.system, pytest.mark.slow]
BenchOf = Callable[[str], Bench]
WRONG = "wrong-secret-01"


def secured(bench: Bench, password: str, user: str = USER) -> str:
    """The address for who has a password."""
    port = bench.server.secured if isinstance(bench.server, Kafka) else bench.server.port
    place = f"/postgres?table={bench.own}" if bench.name == "postgres" else ""
    return f"{bench.name}://{user}:{password}@127.0.0.1:{port}{place}"


@pytest.mark.parametrize("name", ["kafka", "nats", "redis", "postgres"])
def test_who_has_the_password_gets_in(bench_of: BenchOf, name: str) -> None:
    bench = bench_of(name)
    with speed.messages.connect(secured(bench, PASSWORD)) as connection:
        connection.publish(bench.topic, 1)
        with bench.subscribe(connection) as subscription:
            assert take(subscription, 1) == [1]


@pytest.mark.parametrize("name", ["kafka", "nats", "redis", "postgres"])
def test_who_has_another_is_refused_and_no_log_says_it(
    bench_of: BenchOf, name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    bench = bench_of(name)
    texts = []
    with caplog.at_level(logging.DEBUG), speed.messages.connect(secured(bench, WRONG)) as connection:
        with pytest.raises(BackendRefusedError) as caught:
            connection.publish(bench.topic, 1, timeout=WAIT_SECONDS)
        texts += [str(caught.value), repr(caught.value)]
        with bench.subscribe(connection) as subscription, pytest.raises(BackendRefusedError) as caught:
            subscription.receive(WAIT_SECONDS)
        texts += [str(caught.value), repr(connection), repr(subscription), str(connection.health(WAIT_SECONDS))]
        assert "BACKEND_REFUSED" in texts[-1]
    output = capfd.readouterr()
    everything = "\n".join([*texts, caplog.text, output.out, output.err])
    assert WRONG not in everything
    assert PASSWORD not in everything


@pytest.mark.parametrize(("name", "more"), [("redis", ""), ("kafka", ""), ("kafka", "&transactional_id=corrected")])
def test_a_password_that_is_corrected_is_read_again(bench_of: BenchOf, tmp_path: Any, name: str, more: str) -> None:
    bench = bench_of(name)
    port = bench.server.secured if isinstance(bench.server, Kafka) else bench.server.port
    file = tmp_path / "password"
    file.write_text(WRONG)
    with speed.messages.connect(f"{name}://{USER}@127.0.0.1:{port}?password_file={file}{more}") as connection:
        with pytest.raises(BackendRefusedError):
            connection.publish(bench.topic, 1, timeout=WAIT_SECONDS)
        file.write_text(PASSWORD)
        connection.publish(bench.topic, 1, timeout=WAIT_SECONDS)


@pytest.mark.parametrize("name", ["redis", "postgres"])
def test_a_certificate_is_checked(bench_of: BenchOf, name: str) -> None:
    bench = bench_of(name)
    port = bench.server.secured if isinstance(bench.server, Redis) else bench.server.port
    place = f"/postgres?table={bench.own}&" if name == "postgres" else "?"
    address = f"{name}://{USER}:{PASSWORD}@127.0.0.1:{port}{place}tls=true"
    with speed.messages.connect(f"{address}&trusted={bench.server.certificate}") as connection:
        connection.publish(bench.topic, 1)
        with bench.subscribe(connection) as subscription:
            assert take(subscription, 1) == [1]
    with speed.messages.connect(address) as connection:
        with pytest.raises(BackendRefusedError, match="not trusted"):
            connection.publish(bench.topic, 1, timeout=WAIT_SECONDS)
        with bench.subscribe(connection) as subscription, pytest.raises(BackendRefusedError, match="not trusted"):
            subscription.receive(WAIT_SECONDS)


def test_a_subject_that_is_not_allowed_is_refused(bench_of: BenchOf) -> None:
    bench = bench_of("nats")
    with speed.messages.connect(secured(bench, PASSWORD, "deaf")) as connection, pytest.raises(BackendRefusedError):
        connection.publish(bench.topic, 1, timeout=6.0)


def test_a_bucket_that_is_not_there_is_refused(bench_of: BenchOf) -> None:
    bench = bench_of("s3")
    address = bench.server.address.replace("@events?", "@nothing-here?")
    with speed.messages.connect(address) as connection:
        with pytest.raises(BackendRefusedError, match="NoSuchBucket") as caught:
            connection.publish(bench.topic, 1)
        assert PASSWORD not in str(caught.value)
        with bench.subscribe(connection) as subscription, pytest.raises(BackendRefusedError):
            subscription.receive(WAIT_SECONDS)
        assert not connection.health().is_up


def test_a_key_that_holds_something_else_is_refused(bench_of: BenchOf) -> None:
    bench = bench_of("redis")
    assert isinstance(bench.raw, RawRedis)
    bench.raw.client.set(bench.topic, "mine")
    connection = bench.connect()
    with pytest.raises(BackendRefusedError, match="something else"):
        connection.publish(bench.topic, 1)
    with pytest.raises(BackendRefusedError, match="something else"):
        bench.subscribe(connection).receive(5.0)


def test_a_second_group_of_a_table_is_refused(bench_of: BenchOf) -> None:
    """B-6."""
    bench = bench_of("postgres")
    connection = bench.connect()
    connection.publish(bench.topic, 1)
    assert take(bench.subscribe(connection), 1) == [1]
    with pytest.raises(BackendRefusedError, match="another group"):
        bench.subscribe(connection, group=f"{bench.own}-audit").receive(5.0)


def test_a_redis_without_memory_is_full(bench_of: BenchOf) -> None:
    bench = bench_of("redis")
    assert isinstance(bench.raw, RawRedis)
    connection = bench.connect()
    connection.publish(bench.topic, "before")
    bench.raw.client.config_set("maxmemory", "1mb")
    try:
        with pytest.raises(BackendFullError):
            connection.publish(bench.topic, bytes(100_000))
    finally:
        bench.raw.client.config_set("maxmemory", "0")
    connection.publish(bench.topic, "after")
    assert take(bench.subscribe(connection), 2) == ["before", "after"]


def test_a_stream_that_reached_its_limit_is_full(bench_of: BenchOf) -> None:
    bench = bench_of("nats")

    async def limited() -> None:
        client = await nats.connect(bench.server.address)
        config = {"name": bench.own, "subjects": [bench.topic], "max_bytes": 100_000, "discard": "new"}
        await client.jetstream().add_stream(**config)
        await client.close()

    asyncio.run(limited())
    connection = bench.connect()
    with pytest.raises(BackendFullError):
        connection.publish_all([(bench.topic, bytes(20_000)) for _ in range(10)])
    kept = len(bench.raw.kept(bench.topic))
    assert 0 < kept < 10
    assert len(take(bench.subscribe(connection), kept)) == kept


def test_a_postgres_whose_disk_is_full_says_so(bench_of: BenchOf) -> None:
    """The server's own error, raised by a trigger."""
    bench = bench_of("postgres")
    assert isinstance(bench.raw, RawPostgres)
    connection = bench.connect()
    connection.publish(bench.topic, "before")
    body = "BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END"
    bench.raw.ask(f"CREATE FUNCTION {bench.own}_full() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$")
    trigger = f"CREATE TRIGGER full_now BEFORE INSERT ON {bench.own} EXECUTE FUNCTION {bench.own}_full()"
    bench.raw.ask(trigger)
    with pytest.raises(BackendFullError):
        connection.publish(bench.topic, "lost")
    bench.raw.ask(f"DROP TRIGGER full_now ON {bench.own}")
    connection.publish(bench.topic, "after")
    assert take(bench.subscribe(connection), 2) == ["before", "after"]


def test_what_a_subscription_cannot_be_is_said(bench_of: BenchOf) -> None:
    bench = bench_of("redis")
    connection = bench.connect()
    for how in ({"group": ""}, {"start": "now"}, {"prefetch": 0}, {"prefetch": "many"}):
        with pytest.raises(ConfigurationError):
            bench.subscribe(connection, **how)
    with pytest.raises(ConfigurationError, match="no groups"):
        bench.subscribe(bench.connect("form=pubsub"))


def test_a_program_that_finishes_nothing_is_stopped(bench_of: BenchOf) -> None:
    bench = bench_of("redis")
    connection = bench.connect()
    for _ in range(2):
        connection.publish_all([(bench.topic, number) for number in range(2100)])
    subscription = bench.subscribe(connection, prefetch=4096)
    held = []
    with pytest.raises(BackendError, match="not finished"):
        while True:
            held.append(subscription.receive(WAIT_SECONDS))
            subscription._last = None  # as a program does that hands messages to others
    assert len(held) == 4096
