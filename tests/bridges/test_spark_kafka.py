"""Spark reads Kafka with its own connector; ``envelope`` opens what lies in the records, in tables and in streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.servers import archives
from scripts.servers.server import ROOT
from speed.message.keys import generate_key
from speed.message.keystore import KeyStore
from speed.message.options import PublishOptions
from speed.message.security import MessageSecurity
from speed.spark import envelope
from tests.bridges.conftest import WAIT_SECONDS, Bench
from tests.system.spark_sessions import Sessions

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.spark]
BenchOf = Callable[[str], Bench]
SOURCE = Path(__file__).parent / "spark_connector"


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session with Spark's connector, whose JVM may have been started by other tests.

    One for all: another would load the connector once more, which registers its settings once in a JVM.
    """
    name, home = "Spark's connector to Kafka (10 MB)", ROOT / "build" / "spark-kafka"
    library = archives.provide(name, SOURCE / "pom.xml", SOURCE / "jars.sha256", home)
    sessions = Sessions()
    session = sessions.get()
    for jar in sorted(library.glob("*.jar")):
        session.sql(f"ADD JAR '{jar}'")
    yield session
    sessions.stop()


def options(bench: Bench) -> dict[str, str]:
    """Of Spark's connector."""
    servers = f"127.0.0.1:{bench.server.port}"
    return {"kafka.bootstrap.servers": servers, "subscribe": bench.topic, "startingOffsets": "earliest"}


def test_records_of_kafka_are_opened_in_a_table(bench_of: BenchOf, spark: Any) -> None:
    bench = bench_of("kafka")
    connection = bench.connect(name="shop")
    ids = connection.publish_all(
        [(bench.topic, {"id": number}, f"customer-{number % 2}") for number in range(50)],
        options=PublishOptions(labels={"region": "eu"}),
    )
    bench.raw.put(bench.topic, b"no message at all")
    records = spark.read.format("kafka").options(**options(bench)).load()
    rows = records.select("key", envelope("value").alias("m")).select("key", "m.*").collect()
    good = [row for row in rows if row.code is None]
    assert {row.message_id for row in good} == set(ids)
    assert len(good) == 50
    assert {(row.topic, row.publisher, row.headers["region"], row.is_verified) for row in good} == {
        (bench.topic, "shop", "eu", False)
    }
    assert {bytes(row.key) for row in good} == {b"customer-0", b"customer-1"}
    (bad,) = [row for row in rows if row.code is not None]
    assert (bad.code, bad.message_id, bad.payload) == ("BAD_MESSAGE", None, None)


def test_records_of_kafka_are_opened_and_verified_in_a_stream(bench_of: BenchOf, spark: Any, tmp_path: Path) -> None:
    bench = bench_of("kafka")
    key = generate_key("shop-1", "ed25519", publishers=("shop",))
    writes = MessageSecurity(keys=KeyStore({"shop": key}), sign_with="shop")
    record = key.public_part().to_record()

    def reads() -> MessageSecurity:
        from speed.message.keys import key_of_record

        return MessageSecurity(keys=KeyStore({"shop": key_of_record(record)}), policy="require", trusted=("shop",))

    signing = bench.connect(name="shop", security=writes)
    signing.publish(bench.topic, "first")
    bench.connect(name="shop").publish(bench.topic, "unsigned")
    records = spark.readStream.format("kafka").options(**options(bench)).load()
    opened = records.select(envelope("value", security=reads).alias("m")).select("m.*")
    query = (
        opened.writeStream.format("memory").queryName(bench.own).option("checkpointLocation", tmp_path / "c").start()
    )
    try:
        query.processAllAvailable()
        signing.publish(bench.topic, "second")
        query.processAllAvailable()
        rows = spark.table(bench.own).collect()
    finally:
        query.stop()
        query.awaitTermination(int(WAIT_SECONDS))
    found = {(row.payload and bytes(row.payload), row.is_verified, row.code) for row in rows}
    assert found == {(b"first", True, None), (b"second", True, None), (None, False, "UNSIGNED")}
