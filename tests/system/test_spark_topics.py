"""Durable topics with the format ``speed``: read, followed by a subscription, and written once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from tests.system.topics import TopicSite, started

pytestmark = [pytest.mark.system, pytest.mark.spark]

PATIENCE_SECONDS = 200.0
CONFIG = """
[node]
root = "root"
key = "speed.key"
[topics]
publish = ["test", "etl.*"]
consume = ["test", "etl.*"]
manage = ["test", "etl.*"]
[[topic]]
name = "orders"
[[topic]]
name = "returns"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicSite]:
    yield from started(tmp_path_factory.mktemp("topics"), CONFIG)


@pytest.fixture(scope="module")
def shop(site: TopicSite) -> Iterator[speed.Node]:
    with site.node() as node:
        yield node


@pytest.fixture
def topic(shop: speed.Node, request: pytest.FixtureRequest) -> speed.Topic:
    """A topic of this test alone."""
    topic = shop.topic("t." + request.node.name.replace("[", ".").replace("]", ""))
    topic.create()
    return topic


def options(site: TopicSite, topic: speed.Topic, **more: str) -> dict[str, str]:
    return {"root": str(site.root), "key": str(site.key), "durableTopic": topic.name, **more}


def run(frame: Any, to: Any, point: Path) -> Any:
    """A stream of all that there is, ended."""
    writer = to(frame.writeStream).option("checkpointLocation", str(point))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_SECONDS)
    return query


def parquet(out: Path) -> Any:
    return lambda writer: writer.format("parquet").option("path", str(out))


def everything(topic: speed.Topic) -> list[Any]:
    """The payloads that the topic keeps."""
    reader = topic.reader("earliest")
    messages = [reader.receive(10) for _ in range(topic.describe()["end"])]
    return [message.payload for message in messages if message is not None]


def test_a_message_is_a_row_with_its_key_and_what_was_said_with_it(
    session: Any, site: TopicSite, topic: speed.Topic
) -> None:
    topic.publish({"n": 1}, key="a", properties={"origin": "web"}, producer="till", sequence=7)
    topic.publish({"n": 2})
    topic.delete_key("a")
    frame = session.read.format("speed").options(**options(site, topic)).load()
    first, second, gone = frame.orderBy("offset").collect()
    assert (first.topic, first.offset, first.kind, first.key) == (topic.name, 0, "message", "a")
    assert (first.properties, first.producer, first.sequence) == ({"origin": "web"}, "till", 7)
    assert (first.publisher, first.content_type, first.due_at) == ("test", "application/msgpack", None)
    assert (second.key, second.properties, second.sequence) == (None, {}, None)
    assert (gone.kind, gone.key, gone.payload) == ("tombstone", "a", None)


def test_fields_of_payloads_are_columns_and_texts_and_bytes_come_as_they_are(
    session: Any, site: TopicSite, topic: speed.Topic
) -> None:
    topic.publish_batch([{"n": 1, "name": "x"}, {"n": 2}], keys=["a", "b"])
    topic.delete_key("a")
    frame = (
        session.read.format("speed").options(**options(site, topic)).schema("key string, n long, name string").load()
    )
    rows = [(row["key"], row["n"], row["name"]) for row in frame.collect()]
    assert rows == [("a", 1, "x"), ("b", 2, None), ("a", None, None)]
    topic.publish_batch(["text", b"bytes"])
    frame = session.read.format("speed").options(**options(site, topic)).load().where("offset > 2")
    assert [(row.content_type, bytes(row.payload)) for row in frame.orderBy("offset").collect()] == [
        ("text/plain", b"text"),
        ("application/octet-stream", b"bytes"),
    ]


def test_what_is_asked_of_topic_and_kind_is_found(session: Any, site: TopicSite, topic: speed.Topic) -> None:
    topic.publish(1)
    topic.delete_key("a")
    frame = session.read.format("speed").options(**options(site, topic)).load()
    assert frame.where("kind = 'tombstone'").count() == 1
    assert frame.where(f"topic = '{topic.name}' and kind = 'message'").count() == 1
    assert frame.where("topic = 'orders'").count() == 0


def test_a_stream_goes_on_where_it_ended(session: Any, site: TopicSite, topic: speed.Topic, tmp_path: Path) -> None:
    for _ in range(2):
        topic.publish_batch({"n": n} for n in range(50))
        frame = session.readStream.format("speed").options(**options(site, topic)).schema("offset long, n long").load()
        run(frame, parquet(tmp_path / "rows"), tmp_path / "point")
    rows = session.read.parquet(str(tmp_path / "rows")).orderBy("offset").collect()
    assert [(row.offset, row.n) for row in rows] == [(n, n % 50) for n in range(100)]


def test_a_subscription_gives_a_query_its_beginning_and_follows_it(
    session: Any, site: TopicSite, topic: speed.Topic, tmp_path: Path
) -> None:
    topic.publish_batch(range(10))
    with topic.consumer("billing", start="earliest") as consumer:
        for _ in range(4):
            message = consumer.receive(10)
            assert message is not None
            consumer.acknowledge(message)
    following = options(site, topic, subscription="billing")
    frame = session.readStream.format("speed").options(**following).schema("offset long").load()
    run(frame, parquet(tmp_path / "rows"), tmp_path / "point")
    assert sorted(row.offset for row in session.read.parquet(str(tmp_path / "rows")).collect()) == [*range(4, 10)]
    topic.publish(10)
    run(frame, parquet(tmp_path / "rows"), tmp_path / "point")  # a query tells of a batch when the next one begins
    (billing,) = topic.describe()["subscriptions"]
    assert billing["cursor"] >= 10
    assert session.read.parquet(str(tmp_path / "rows")).count() == 7


def test_a_subscription_that_is_not_there_is_made(
    session: Any, site: TopicSite, topic: speed.Topic, tmp_path: Path
) -> None:
    topic.publish_batch(range(3))
    following = options(site, topic, subscription="new", startingOffsets="latest")
    frame = session.readStream.format("speed").options(**following).schema("offset long").load()
    run(frame, parquet(tmp_path / "rows"), tmp_path / "point")
    (made,) = topic.describe()["subscriptions"]
    assert (made["subscription"], made["cursor"]) == ("new", 3)


def test_a_topic_that_is_not_there_cannot_be_followed(session: Any, site: TopicSite, tmp_path: Path) -> None:
    missing = {"root": str(site.root), "key": str(site.key), "durableTopic": "t.none", "subscription": "billing"}
    frame = session.readStream.format("speed").options(**missing).load()
    with pytest.raises(Exception, match=r"there is no durable topic 't\.none'"):
        run(frame, parquet(tmp_path / "rows"), tmp_path / "point")


def test_rows_are_published_with_their_keys_properties_and_times(
    session: Any, site: TopicSite, topic: speed.Topic
) -> None:
    frame = session.sql(
        "select 'k' as key, map('a', 'b') as properties, timestamp'2026-01-01 00:00:00Z' as deliver_at, "
        "named_struct('n', 5) as payload"
    )
    frame.write.format("speed").mode("append").options(**options(site, topic)).save()
    message = topic.reader("earliest").receive(10)
    assert message is not None
    assert (message.key, message.properties, message.payload) == ("k", {"a": "b"}, {"n": 5})
    assert message.publisher.startswith("etl.")


def test_rows_without_a_payload_are_maps_of_their_columns(session: Any, site: TopicSite, topic: speed.Topic) -> None:
    frame = session.range(3).selectExpr("id as n", "concat('x', id) as name").coalesce(1)
    frame.write.format("speed").mode("append").options(**options(site, topic)).save()
    assert everything(topic) == [{"n": n, "name": f"x{n}"} for n in range(3)]


def test_a_run_that_is_repeated_publishes_only_what_is_missing(
    session: Any, site: TopicSite, topic: speed.Topic
) -> None:
    named = options(site, topic, run="nightly")
    session.range(5).coalesce(1).write.format("speed").mode("append").options(**named).save()
    session.range(8).coalesce(1).write.format("speed").mode("append").options(**named).save()
    assert everything(topic) == [{"id": n} for n in range(8)]


def test_a_task_that_fails_after_it_published_publishes_nothing_twice(
    session: Any, site: TopicSite, topic: speed.Topic, tmp_path: Path
) -> None:
    """From a topic to a topic: each effect once, though a batch runs again."""
    source = topic
    target = source.node.topic("returns")
    before = target.describe()["end"]
    source.publish_batch({"n": n} for n in range(20))
    frame = session.readStream.format("speed").options(**options(site, source)).schema("n long").load()
    out = options(site, target)
    run(frame, lambda writer: writer.format("speed").options(**out), tmp_path / "point")
    (tmp_path / "point" / "commits" / "0").unlink()  # as if the driver had died before it noted the batch
    for crc in (tmp_path / "point" / "commits").glob(".0.crc"):
        crc.unlink()
    run(frame, lambda writer: writer.format("speed").options(**out), tmp_path / "point")
    assert target.describe()["end"] - before == 20


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ("named_struct('n', 5) as payload, 1 as key", "column 'key' is int: it must be string"),
        ("named_struct('n', 5) as payload, 'x' as colour", "column 'colour' has no place beside 'payload'"),
    ],
)
def test_columns_that_a_message_has_no_place_for_are_refused_before_the_job(
    session: Any, site: TopicSite, shop: speed.Node, columns: str, what: str
) -> None:
    frame = session.sql(f"select {columns}")
    with pytest.raises(Exception, match=what):
        frame.write.format("speed").mode("append").options(**options(site, shop.topic("orders"))).save()


def test_a_row_whose_payload_is_null_is_named(session: Any, site: TopicSite, shop: speed.Node) -> None:
    frame = session.sql("select cast(null as string) as payload")
    with pytest.raises(Exception, match="row 0 of the partition: payload is null"):
        frame.write.format("speed").mode("append").options(**options(site, shop.topic("orders"))).save()
