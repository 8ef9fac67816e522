"""Durable topics that lie in Pulsar with the format ``speed``: read, followed by a subscription, and written once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from tests.pulsar.standalone import Server
from tests.pulsar.test_topics import configuration
from tests.system import conftest as those_of_spark
from tests.system.test_spark_topics import CONFIG as SPARK_CONFIG
from tests.system.test_spark_topics import options, parquet, run
from tests.system.topics import CONFIG, TopicSite, started, until

pytestmark = [pytest.mark.system, pytest.mark.java, pytest.mark.spark, pytest.mark.timeout(400)]
spark_sessions, spark, session = those_of_spark.spark_sessions, those_of_spark.spark, those_of_spark.session


@pytest.fixture(scope="module")
def site(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicSite]:
    where = configuration(server)[len(CONFIG.partition("[topics]")[0]) :].partition("publish")[0]
    yield from started(tmp_path_factory.mktemp("spark"), SPARK_CONFIG.replace("[topics]\n", where))


@pytest.fixture
def topic(site: TopicSite) -> Iterator[speed.Topic]:
    with site.node() as node:
        topic = node.topic("spark." + uuid.uuid4().hex)
        topic.create()
        yield topic
        topic.delete()


def test_a_topic_is_read_and_written_each_row_once(
    session: Any,
    site: TopicSite,
    topic: speed.Topic,
) -> None:
    named = options(site, topic, run="nightly")
    for count in (5, 8):
        rows = session.range(count).selectExpr("cast(id as string) as key", "named_struct('n', id) as payload")
        rows.coalesce(1).write.format("speed").mode("append").options(**named).save()
    topic.delete_key("7")
    frame = (
        session.read.format("speed").options(**options(site, topic)).schema("key string, n long, kind string").load()
    )
    found = [(row["key"], row["n"], row["kind"]) for row in frame.collect()]
    assert found == [*((str(n), n, "message") for n in range(8)), ("7", None, "tombstone")]


def test_a_stream_goes_on_where_it_ended_and_a_subscription_follows_it(
    session: Any,
    site: TopicSite,
    topic: speed.Topic,
    tmp_path: Path,
) -> None:
    offsets = topic.publish_batch({"n": n} for n in range(10))
    with topic.consumer("billing", start="earliest") as consumer:
        fourth = [consumer.receive(10) for _ in range(4)][-1]
        assert fourth is not None
        consumer.acknowledge_until(fourth)
        until(lambda: topic.describe()["subscriptions"][0]["cursor"] == offsets[4])
    frame = session.readStream.format("speed").options(**options(site, topic, subscription="billing"))
    frame = frame.schema("offset long, n long").load()
    for turn in range(2):
        run(frame, parquet(tmp_path / "rows"), tmp_path / "point")
        rows = session.read.parquet(str(tmp_path / "rows")).orderBy("offset").collect()
        assert [row.n for row in rows] == list(range(4, 10 + turn))
        if not turn:
            topic.publish({"n": 10})
    (billing,) = topic.describe()["subscriptions"]
    assert billing["cursor"] > (offsets[-1] or 0)
