"""Where topic, key, envelope and the rest of a message lie, as the backends' own libraries see it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

import speed.messages
from scripts.servers import Moto
from speed.errors import PayloadTooLargeError
from speed.message.options import PublishOptions
from speed.message.view import MessageView
from speed.message.writing import encode_message, with_security
from speed.messages import BackendRefusedError, Refused
from tests.bridges.conftest import WAIT_SECONDS, Bench, take
from tests.bridges.raw import RawKafka, RawPostgres, RawRedis, RawS3, RawSqs

pytestmark = [pytest.mark.system, pytest.mark.slow]
TRACE = "0af7651916cd43dd8448eb211c80319c"
TOKEN = b"\x1a\x14a-token-of-trials-01"
BenchOf = Callable[[str], Bench]


def published(bench: Bench) -> tuple[str, Any]:
    """The id of a message, and how it lies there."""
    connection = bench.connect()
    own_id = connection.publish(
        bench.topic, {"id": 1}, key="c-4", options=PublishOptions(traceparent=f"00-{TRACE}-{'b' * 16}-01")
    )
    (kept,) = bench.raw.kept(bench.topic)
    view = MessageView(kept.data).validate()
    assert (view.topic, view.message_id, view.payload) == (bench.topic, own_id, {"id": 1})
    assert kept.key == "c-4"
    return own_id, kept


def test_kafka_has_headers_that_tools_filter_by(bench_of: BenchOf) -> None:
    """B-1."""
    bench = bench_of("kafka")
    own_id, kept = published(bench)
    expected = {"prism-envelope-version": "1", "prism-message-id": own_id, "prism-topic": bench.topic}
    assert kept.said == {**expected, "prism-trace-id": TRACE}


def test_nats_has_headers_and_recognises_a_repetition(bench_of: BenchOf) -> None:
    """B-1, B-3."""
    bench = bench_of("nats")
    own_id, kept = published(bench)
    expected = {"Prism-Envelope-Version": "1", "Prism-Message-ID": own_id, "Nats-Msg-Id": own_id}
    assert kept.said == {**expected, "Prism-Trace-ID": TRACE, "Prism-Key": "c-4"}
    assert bench.connect().forward(kept.data) == own_id
    assert len(bench.raw.kept(bench.topic)) == 1


def test_redis_has_an_entry_of_a_stream(bench_of: BenchOf) -> None:
    """B-1."""
    bench = bench_of("redis")
    published(bench)
    assert isinstance(bench.raw, RawRedis)
    rows: Any = bench.raw.client.xrange(bench.topic)
    assert set(rows[0][1]) == {b"envelope", b"key"}


def test_postgres_has_a_row_that_people_query(bench_of: BenchOf) -> None:
    """B-1, B-6."""
    bench = bench_of("postgres")
    own_id, kept = published(bench)
    told = json.loads(kept.said["envelope"])
    assert told["metadata"]["messageId"] == own_id
    assert told["observability"]["traceId"] == TRACE
    assert isinstance(bench.raw, RawPostgres)
    (row,) = bench.raw.ask(
        f"SELECT consumed FROM {bench.own} WHERE envelope @> $1::jsonb", json.dumps({"metadata": {"messageId": own_id}})
    )
    assert row["consumed"] is False
    plans = bench.raw.ask("SELECT indexdef FROM pg_indexes WHERE tablename = $1", bench.own)
    assert {"(topic, consumed)", "USING gin"} <= {
        part for part in ("(topic, consumed)", "USING gin") for one in plans if part in one["indexdef"]
    }
    take(bench.subscribe(bench.connect()), 1)
    assert bench.raw.ask(f"SELECT consumed FROM {bench.own}")[0]["consumed"] is True


def test_s3_has_an_object_of_the_day_and_the_topic(bench_of: BenchOf) -> None:
    """B-1, B-2."""
    bench = bench_of("s3")
    own_id, kept = published(bench)
    expected = {"prism-envelope-version": "1", "prism-message-id": own_id, "prism-topic": bench.topic}
    assert kept.said == {**expected, "prism-key": "c-4"}
    assert isinstance(bench.raw, RawS3)
    (one,) = bench.raw.client.list_objects_v2(Bucket=bench.own, Prefix="events/")["Contents"]
    assert one["Key"].split("/")[4:] == [bench.topic, f"{own_id}.bin"]


def test_sqs_has_attributes_and_the_message_as_text(bench_of: BenchOf) -> None:
    """B-1."""
    bench = bench_of("sqs")
    own_id, kept = published(bench)
    expected = {"prism-envelope-version": "1", "prism-message-id": own_id, "prism-topic": bench.topic}
    assert kept.said == {**expected, "prism-trace-id": TRACE, "prism-key": "c-4"}


def test_a_pointer_of_sqs_leads_to_no_other_object(bench_of: BenchOf) -> None:
    """B-2: who writes into a queue makes no reader fetch what lies elsewhere in its bucket."""
    bench = bench_of("sqs")
    assert isinstance(bench.server, Moto)
    assert isinstance(bench.raw, RawSqs)
    bench.server.client("s3").put_object(Bucket=bench.own, Key="secret", Body=b"hidden-word")
    said = {"prism-s3-key": {"DataType": "String", "StringValue": "secret"}}
    bench.raw.client.send_message(
        QueueUrl=bench.raw.url,
        MessageBody="none",
        MessageAttributes=said,
        MessageGroupId="g",
        MessageDeduplicationId="1",
    )
    found: list[Refused] = []
    subscription = bench.subscribe(bench.connect(), on_refused=found.append)
    assert subscription.receive(2.0) is None
    assert [one.data for one in found] == [base64.b64decode("none")]


def test_a_queue_has_one_group_and_leaves_other_topics_to_others(bench_of: BenchOf) -> None:
    """B-5."""
    bench = bench_of("sqs")
    connection = bench.connect()
    connection.publish_all([(f"{bench.own}.other", "theirs"), (bench.topic, "ours")])
    assert take(bench.subscribe(connection), 1) == ["ours"]
    with pytest.raises(BackendRefusedError, match="another group"):
        bench.subscribe(connection, group=f"{bench.own}-audit").receive(5.0)
    assert take(bench.subscribe(connection, f"{bench.own}.other"), 1) == ["theirs"]


def test_a_queue_without_a_bucket_takes_no_long_message(bench_of: BenchOf) -> None:
    bench = bench_of("sqs")
    address = bench.address.replace(f"&bucket={bench.own}", "")
    with speed.messages.connect(address) as connection, pytest.raises(PayloadTooLargeError, match="bucket"):
        connection.publish(bench.topic, bytes(300_000))


def test_a_token_reaches_no_backend(bench: Bench) -> None:
    """B-1."""
    own_id = "0190163d-8694-739b-aea5-966c26f8ad90"
    head = {"topic": bench.topic, "namespace": "default", "published_at_ms": 1_718_000_000_000}
    message = encode_message(1, message_id=own_id, **head)
    connection = bench.connect()
    connection.forward(with_security(message, TOKEN))
    (kept,) = bench.raw.kept(bench.topic)
    assert kept.data == message
    assert "a-token" not in str(kept)


def test_a_topic_that_kafka_keeps_for_itself_is_one_like_others(bench_of: BenchOf) -> None:
    """B-2."""
    bench = bench_of("kafka")
    topics = ["__consumer_offsets", f"{bench.own}.{'a' * 240}", f"{bench.own}.{'a' * 240}b"]
    connection = bench.connect()
    for topic in topics:
        connection.publish(topic, topic)
    for topic in topics:
        message = bench.subscribe(connection, topic).receive(WAIT_SECONDS)
        assert message is not None
        assert message.payload == message.topic == topic
    assert isinstance(bench.raw, RawKafka)
    assert bench.raw.kept("..__consumer_offsets")


def test_topics_that_kafka_takes_for_the_same_are_refused(bench_of: BenchOf) -> None:
    """B-2."""
    bench = bench_of("kafka")
    connection = bench.connect()
    connection.publish(f"{bench.own}.a", 1)
    with pytest.raises(BackendRefusedError, match="differ"):
        connection.publish(f"{bench.own}_a", 1, timeout=WAIT_SECONDS)


def test_a_long_topic_and_a_strange_key_fit_everywhere(bench: Bench) -> None:
    """B-2."""
    topic, key = f"{bench.own}.{'a' * 230}", "caf\u00e9 100%\r\nX: y"
    connection = bench.connect()
    connection.publish(topic, 1, key=key)
    message = bench.subscribe(connection, topic).receive(WAIT_SECONDS)
    assert message is not None
    assert (message.topic, message.key) == (topic, key)


def test_rows_of_others_are_read_as_their_json_says(bench_of: BenchOf) -> None:
    """B-6."""
    bench = bench_of("postgres")
    connection = bench.connect()
    connection.publish(bench.topic, "ours")
    assert isinstance(bench.raw, RawPostgres)
    metadata = {"messageId": "m-1", "topic": bench.topic, "namespace": "default", "publishedAtMs": "1718000000000"}
    theirs = {"metadata": metadata | {"contentType": "CONTENT_TYPE_JSON"}, "payload": {"value": "eyJhIjogMX0="}}
    bench.raw.ask(f"INSERT INTO {bench.own} (topic, envelope) VALUES ($1, $2)", bench.topic, json.dumps(theirs))
    assert take(bench.subscribe(connection), 2) == ["ours", {"a": 1}]


def test_long_messages_go_as_far_as_the_server_takes_them(bench: Bench) -> None:
    """Objects of S3 in parts."""
    payload = bytes(10 << 20)
    connection = bench.connect(max_message_bytes=16 << 20)
    subscription = bench.subscribe(connection)
    if bench.name in ("kafka", "nats"):
        with pytest.raises(PayloadTooLargeError):
            connection.publish(bench.topic, payload)
        return
    connection.publish(bench.topic, payload, timeout=WAIT_SECONDS)
    message = subscription.receive(WAIT_SECONDS)
    assert message is not None
    assert message.payload == payload


def test_a_message_longer_than_the_bound_is_not_sent(bench: Bench) -> None:
    with pytest.raises(PayloadTooLargeError, match="max_message_bytes"):
        bench.connect().publish(bench.topic, bytes(1 << 20))
