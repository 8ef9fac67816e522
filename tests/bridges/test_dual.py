"""Both forms during a migration: written side by side, and read as one (M-40)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import speed.messages
from speed.errors import ConfigurationError, UnserialisableError, WireError
from speed.message.view import MessageView
from speed.messages import DualSubscription
from tests.bridges.conftest import WAIT_SECONDS, Bench
from tests.bridges.raw import RawPostgres, RawRedis
from tests.bridges.test_migration import fill, migrated

pytestmark = [pytest.mark.system, pytest.mark.slow]
BenchOf = Callable[[str], Bench]
TRACE = f"00-0af7651916cd43dd8448eb211c80319c-{'b' * 16}-01"


def take_both(subscription: DualSubscription, count: int) -> list[Any]:
    """The payloads of so many messages, and that no more come."""
    found = []
    for _ in range(count):
        message = subscription.receive(WAIT_SECONDS)
        assert message is not None, f"{found} of {count} came"
        found.append(message.payload)
    assert subscription.receive(2.0) is None
    return sorted(found, key=str)


def test_both_forms_are_written_and_each_message_is_read_once(bench_of: BenchOf) -> None:
    new, old = bench_of("kafka"), bench_of("redis")
    both = speed.messages.dual(new.connect(name="shop"), old.connect())
    own_id = both.publish(new.topic, {"id": 17}, key="c-4", options=speed.PublishOptions(traceparent=TRACE))
    (envelope,) = new.raw.kept(new.topic)
    view = MessageView(envelope.data)
    assert (view.message_id, view.payload) == (own_id, {"id": 17})
    assert isinstance(old.raw, RawRedis)
    ((_, fields),) = old.raw.client.xrange(new.topic)
    meta = {"message_id": own_id, "ts": view.published_at_ms, "trace_id": TRACE}
    assert json.loads(fields[b"data"]) == {"meta": meta, "payload": {"id": 17}}
    assert fields[b"key"] == b"c-4"
    old.raw.client.xadd(new.topic, {"data": b'{"payload": "of a producer that writes the old form alone"}'})
    with both.subscribe(new.topic, group=new.group, start="earliest") as subscription:
        assert take_both(subscription, 2) == ["of a producer that writes the old form alone", {"id": 17}]
        subscription.flush()
        assert subscription.old.beside == 1
    assert [one for one in subscription] == []  # noqa: C416 - what a loop over a closed one gives


def test_old_records_of_kafka_have_the_old_headers(bench_of: BenchOf) -> None:
    bench = bench_of("kafka")
    connection = bench.connect()
    both = speed.messages.dual(connection, connection, old_topic=lambda topic: f"{topic}.v1")
    (own_id,) = both.publish_all(
        [(bench.topic, {"id": 17}, "k")], options=speed.PublishOptions(correlation_id="cart-7")
    )
    (kept,) = bench.raw.kept(f"{bench.topic}.v1")
    assert kept.data == b'{"id": 17}'
    assert kept.said == {
        "correlation-id": "cart-7",
        "prism-message-id": own_id,
        "timestamp": kept.said["timestamp"],
    }
    with both.subscribe(bench.topic, old_pattern=f"{bench.topic}.v1", group=bench.group, start="earliest") as reads:
        assert take_both(reads, 1) == [{"id": 17}]


def test_old_messages_of_nats_have_the_old_headers(bench_of: BenchOf) -> None:
    new, old = bench_of("redis"), bench_of("nats")
    own_id = speed.messages.dual(new.connect(), old.connect()).publish(new.topic, b"raw")
    (kept,) = old.raw.kept(new.topic)
    assert (kept.data, dict(kept.said)) == (b"raw", {"Nats-Msg-Id": own_id, "Prism-Message-ID": own_id})


def test_old_rows_of_postgres_are_written_into_the_old_table(bench_of: BenchOf) -> None:
    new, old = bench_of("redis"), bench_of("postgres")
    assert isinstance(old.raw, RawPostgres)
    table = f"old_{old.own}"
    old.raw.ask(f"CREATE TABLE {table} (id BIGSERIAL PRIMARY KEY, topic TEXT, payload JSONB, metadata JSONB)")
    with speed.messages.connect(f"{old.server.address}?table={table}&form=rows") as rows:
        both = speed.messages.dual(new.connect(), rows)
        own_id = both.publish(new.topic, {"id": 17})
        old.raw.ask(f"INSERT INTO {table} (topic, payload) VALUES ($1, '3')", new.topic)
        (first, _) = old.raw.ask(f"SELECT * FROM {table} ORDER BY id")
        assert (json.loads(first["payload"]), json.loads(first["metadata"])) == ({"id": 17}, {"message_id": own_id})
        with both.subscribe(new.topic, group=new.group, start="earliest") as reads:
            assert take_both(reads, 2) == [3, {"id": 17}]
        with pytest.raises(speed.messages.BackendRefusedError, match="old form"):
            rows.publish(new.topic, 1)


def test_one_topic_may_hold_both_forms(bench_of: BenchOf) -> None:
    bench = bench_of("redis")
    connection = bench.connect(namespace="shop")
    fill(bench, [b'{"payload": 1}', b"neither"])
    connection.publish(bench.topic, 2)
    with bench.subscribe(connection, old_forms=True) as subscription:
        first, second = (subscription.receive(WAIT_SECONDS) for _ in range(2))
        assert first is not None and second is not None
        assert (first.payload, second.payload) == (1, 2)
        assert (first.metadata.namespace, first.topic) == ("shop", bench.topic)
        assert subscription.receive(1.0) is None
        assert (subscription.refused, subscription.beside) == (1, 0)


def test_a_migration_passes_over_what_lies_beside_envelopes(bench_of: BenchOf, tmp_path: Path) -> None:
    new, old = bench_of("kafka"), bench_of("redis")
    speed.messages.dual(new.connect(), old.connect()).publish(old.topic, "both")
    fill(old, [b'{"payload": "old"}'])
    told = migrated(old, new, tmp_path, "--compare")
    assert told["counts"] == {"beside": 1, "redis": 1}
    assert sorted(MessageView(one.data).payload for one in new.raw.kept(old.topic)) == ["both", "old"]


def test_what_has_no_old_form_is_not_published_at_all(bench_of: BenchOf) -> None:
    new, old = bench_of("kafka"), bench_of("redis")
    both = speed.messages.dual(new.connect(), old.connect())
    with pytest.raises(UnserialisableError, match="JSON"):
        both.publish(new.topic, b"\x00")
    with pytest.raises(WireError, match="content_encoding"):
        both.publish(new.topic, "x" * 5000, options=speed.PublishOptions(compression="gzip"))
    new.connect().publish(new.topic, "last")
    assert [MessageView(one.data).payload for one in new.raw.kept(new.topic)] == ["last"]
    assert "kafka" in repr(both) and "redis" in repr(both)


def test_what_cannot_be_both_is_said() -> None:
    redis, s3 = (speed.messages.connect(text) for text in ("redis://h", "s3://bucket"))
    rows = speed.messages.connect("postgres://h/shop")
    for old in (s3, rows):
        with pytest.raises(ConfigurationError, match="no older form"):
            speed.messages.dual(redis, old)
    with pytest.raises(ConfigurationError, match="old_topic"):
        speed.messages.dual(redis, redis)
