"""What is no message, or is refused, ends nothing: it is told, acknowledged, and what follows is delivered."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from time import monotonic

import pytest

from speed.message.keys import generate_key
from speed.message.keystore import KeyStore
from speed.message.security import MessageSecurity
from speed.messages import Refused
from tests.bridges.conftest import WAIT_SECONDS, Bench, take
from tests.bridges.raw import RawPostgres

pytestmark = [pytest.mark.system, pytest.mark.slow]
BenchOf = Callable[[str], Bench]
OLD_FORM = json.dumps({"meta": {"schema": "v2", "ts": 1697200000}, "payload": {"order": "hidden-word"}}).encode()
FOREIGN = (b"\xff\xfe garbage hidden-word", b"", OLD_FORM, b"plain hidden-word")


def test_foreign_bytes_are_told_and_passed_over(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """B-9."""
    connection = bench.connect()
    connection.publish(bench.topic, "first")
    subscription = bench.subscribe(connection)
    assert take(subscription, 1) == ["first"]
    for data in FOREIGN:
        bench.raw.put(bench.topic, data)
    with caplog.at_level(logging.INFO, "speed"):
        connection.publish(bench.topic, "last")
        assert take(subscription, 1) == ["last"]
        for _ in range(80):  # of another partition, or behind it
            if subscription.refused < len(FOREIGN):
                assert subscription.receive(0.5) is None
    assert subscription.refused == len(FOREIGN)
    assert caplog.text.count("are refused: BAD_MESSAGE") == len(FOREIGN)
    assert "hidden-word" not in caplog.text


def test_a_program_may_look_at_foreign_bytes(bench: Bench) -> None:
    """B-9."""
    connection = bench.connect()
    connection.publish(bench.topic, "first")
    found: list[Refused] = []
    subscription = bench.subscribe(connection, on_refused=found.append)
    assert take(subscription, 1) == ["first"]
    bench.raw.put(bench.topic, OLD_FORM)
    deadline = monotonic() + WAIT_SECONDS
    while not found and monotonic() < deadline:
        assert subscription.receive(1.0) is None
    (one,) = found
    assert (one.data, one.code, one.topic) == (OLD_FORM, "BAD_MESSAGE", bench.topic)
    assert "hidden-word" not in repr(one)
    subscription.close()
    again = bench.subscribe(connection)
    connection.publish(bench.topic, "last")
    assert take(again, 1) == ["last"]
    assert again.refused == 0


def test_what_a_program_does_not_take_comes_again(bench_of: BenchOf) -> None:
    """B-9."""
    bench = bench_of("redis")

    def refuse(one: Refused) -> None:
        raise ValueError("not now")

    connection = bench.connect()
    bench.raw.put(bench.topic, OLD_FORM)
    with bench.subscribe(connection, on_refused=refuse) as subscription, pytest.raises(ValueError, match="not now"):
        subscription.receive(WAIT_SECONDS)
    found: list[Refused] = []
    again = bench.subscribe(connection, on_refused=found.append)
    assert again.receive(3.0) is None
    assert [one.data for one in found] == [OLD_FORM]


def test_a_message_longer_than_the_reader_takes_is_not_read(bench: Bench) -> None:
    """B-9."""
    writer = bench.connect(max_message_bytes=16 << 20)
    size = 900_000 if bench.name in ("kafka", "nats") else 10 << 20
    writer.publish(bench.topic, bytes(size), key="k", timeout=WAIT_SECONDS)
    writer.publish(bench.topic, "short", key="k")
    found: list[Refused] = []
    reader = bench.connect(max_message_bytes=size // 10)
    subscription = bench.subscribe(reader, on_refused=found.append)
    assert take(subscription, 1) == ["short"]
    assert [one.code for one in found] == ["TOO_LARGE"]


def test_signed_and_encrypted_messages_are_opened_by_who_may(bench: Bench) -> None:
    """B-1: signatures hold over the bytes that the backend kept."""
    signing, reading = generate_key("shop-1", "ed25519", publishers=("shop",)), generate_key("billing-1", "x-wing")
    keys = KeyStore({"shop": signing, "billing": reading})
    writes = MessageSecurity(keys=keys, sign_with="shop", encrypt_to=("billing",))
    reads = MessageSecurity(keys=keys, policy="require", trusted=("shop",))
    connection = bench.connect(name="shop", security=writes)
    connection.publish(bench.topic, "hidden-word", key="k")
    bench.connect(name="shop").publish(bench.topic, "unsigned", key="k")
    connection.publish(bench.topic, "again", key="k")
    assert all(b"hidden-word" not in kept.data for kept in bench.raw.kept(bench.topic))
    found: list[Refused] = []
    subscription = bench.subscribe(bench.connect(security=reads), on_refused=found.append)
    assert sorted(take(subscription, 2)) == ["again", "hidden-word"]
    for _ in range(20):  # of SQS it may come behind them, as they were looked at
        if not found:
            assert subscription.receive(0.5) is None
    assert [one.code for one in found] == ["UNSIGNED"]


def test_rows_of_another_form_are_refused(bench_of: BenchOf) -> None:
    """B-6."""
    bench = bench_of("postgres")
    connection = bench.connect()
    connection.publish(bench.topic, "first")
    assert isinstance(bench.raw, RawPostgres)
    for text in ('{"meta": {}, "payload": {"value": 3}}', "[]", "7"):
        bench.raw.ask(f"INSERT INTO {bench.own} (topic, envelope) VALUES ($1, $2)", bench.topic, text)
    subscription = bench.subscribe(connection)
    assert take(subscription, 1) == ["first"]
    assert subscription.receive(1.0) is None
    assert subscription.refused == 3
