"""What Spark asks of a host whose files it does not see: places, parts, rows, and what is lost."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import speed
from speed.errors import ConfigurationError, JournalExpiredError, JournalReplacedError
from speed.spark.source.options import read_options
from speed.spark.source.read import HostedPart, HostedReader, HostedStream
from tests.system.test_spark_topics import CONFIG
from tests.system.topics import TopicSite, started

pytestmark = [pytest.mark.system, pytest.mark.spark]

SCHEMA = pa.schema([("offset", pa.int64()), ("payload", pa.binary())])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicSite]:
    config = CONFIG.replace("[topics]", '[topics]\ndirectory = "elsewhere"\nmax_bytes = 1048576')
    yield from started(tmp_path_factory.mktemp("hosted"), config)


@pytest.fixture
def topic(site: TopicSite) -> Iterator[speed.Topic]:
    with site.node() as node:
        topic = node.topic("t." + uuid.uuid4().hex)
        topic.create()
        yield topic


def given(site: TopicSite, topic: speed.Topic, **more: str) -> dict[str, str]:
    return {"root": str(site.root), "key": str(site.key), "durableTopic": topic.name, **more}


def reader(site: TopicSite, topic: speed.Topic, **more: str) -> HostedReader:
    options = read_options(given(site, topic, **more), streaming=False)
    assert options.hosted
    return HostedReader(options, SCHEMA)


def stream(site: TopicSite, topic: speed.Topic, **more: str) -> HostedStream:
    return HostedStream(read_options(given(site, topic, **more)), SCHEMA)


def offsets(source: HostedReader | HostedStream, parts: Any) -> list[int]:
    return [offset for part in parts for batch in source.read(part) for offset in batch.column("offset").to_pylist()]


def test_a_batch_is_read_between_its_places(site: TopicSite, topic: speed.Topic) -> None:
    topic.publish_batch(range(5000))
    lane = topic.describe()["lane"]
    all_of_it = reader(site, topic)
    assert offsets(all_of_it, all_of_it.partitions()) == list(range(5000))
    places = {"startingOffsets": f'{{"{lane}": 3}}', "endingOffsets": f'{{"{lane}": 6}}'}
    some = reader(site, topic, **places)
    assert offsets(some, some.partitions()) == [3, 4, 5]


def test_a_batch_is_read_between_times(site: TopicSite, topic: speed.Topic) -> None:
    topic.publish("x")
    for option, time, expected in [
        ("startingTimestamp", "2000-01-01T00:00:00Z", [0]),
        ("startingTimestamp", "2100-01-01T00:00:00Z", []),
        ("endingTimestamp", "2000-01-01T00:00:00Z", []),
        ("endingTimestamp", "2100-01-01T00:00:00Z", [0]),
    ]:
        source = reader(site, topic, **{option: time})
        assert offsets(source, source.partitions()) == expected, (option, time)


def test_a_part_whose_end_is_gone_ends_where_the_topic_does(site: TopicSite, topic: speed.Topic) -> None:
    topic.publish("x")
    source = reader(site, topic)
    (part,) = source.partitions()
    assert offsets(source, [HostedPart(part.lane, 0, 9), object()]) == [0]


def test_a_stream_gives_what_came_since(site: TopicSite, topic: speed.Topic) -> None:
    topic.publish_batch("ab")
    source = stream(site, topic)
    start = source.initialOffset()
    end = source.latestOffset(start, source.getDefaultReadLimit())
    assert offsets(source, source.partitions(start, end)) == [0, 1]
    assert source.partitions(end, end) == []
    topic.publish("c")
    source.prepareForTriggerAvailableNow()
    topic.publish("d")
    later = source.latestOffset(end, ReadAllAvailable())
    assert offsets(source, source.partitions(end, later)) == [2]
    assert list(source.reportLatestOffset().values()) == [4]
    source.commit(later)


def test_a_stream_begins_where_it_is_told(site: TopicSite, topic: speed.Topic) -> None:
    topic.publish_batch("abc")
    lane = topic.describe()["lane"]
    for more, first in [
        ({"startingOffsets": "latest"}, 3),
        ({"startingOffsets": f'{{"{lane}": 1}}'}, 1),
        ({"startingTimestamp": "2100-01-01T00:00:00Z"}, 3),
        ({"subscription": "one", "startingOffsets": "latest"}, 3),
        ({"subscription": "two", "startingOffsets": f'{{"{lane}": 2}}'}, 2),
        ({"subscription": "three", "startingTimestamp": "2000-01-01T00:00:00Z"}, 0),
    ]:
        assert stream(site, topic, **more).initialOffset() == {lane: first}, more


def test_a_subscription_is_moved_as_a_query_commits(site: TopicSite, topic: speed.Topic) -> None:
    topic.publish_batch("abc")
    source = stream(site, topic, subscription="billing")
    source.initialOffset()
    source.commit({topic.describe()["lane"]: 2})
    assert topic.describe()["subscriptions"][0]["cursor"] == 2


def test_a_stream_without_its_topic_or_with_a_bound_is_refused(site: TopicSite, topic: speed.Topic) -> None:
    with pytest.raises(ConfigurationError, match="not for topics that lie in a cluster"):
        stream(site, topic, maxMessagesPerTrigger="5")
    topic.delete()
    with pytest.raises(ConfigurationError, match="there is no durable topic"):
        stream(site, topic, subscription="billing").initialOffset()


def test_what_was_removed_before_it_was_read_is_told(
    site: TopicSite, topic: speed.Topic, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(40):
        topic.publish(bytes(50_000))
    bounds = topic.describe()
    lane, first, end = bounds["lane"], bounds["first"], bounds["end"]
    assert first > 0
    with pytest.raises(JournalExpiredError, match="removed before they were read"):
        stream(site, topic).partitions({lane: 0}, {lane: end})
    lenient = stream(site, topic, failOnDataLoss="false")
    assert offsets(lenient, lenient.partitions({lane: 0}, {lane: end})) == list(range(first, end))
    assert "going on behind them" in caplog.text


def test_a_topic_that_is_gone_before_it_was_read_is_told(
    site: TopicSite, topic: speed.Topic, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    topic.publish("x")
    lane = topic.describe()["lane"]
    topic.delete()
    with pytest.raises(JournalReplacedError, match=f"lane {lane}.* is gone"):
        stream(site, topic).partitions({lane: 0}, {lane: 1})
    assert stream(site, topic).partitions({lane: 1}, {lane: 1}) == []
    assert stream(site, topic, failOnDataLoss="false").partitions({lane: 0}, {lane: 1}) == []
    assert "going on without it" in caplog.text
