"""Journals read with the format ``speed``: batches, and what ``speedd`` records."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.wire.journal import Subject
from tests.system.journals_for_spark import PUBLISHED_MS, Recorded

pytestmark = [pytest.mark.system, pytest.mark.spark]

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PATIENCE_SECONDS = 200.0


@pytest.fixture
def read(session: Any, recorded: Recorded) -> Callable[..., Any]:
    """A DataFrame of the journal."""

    def frame(schema: str | None = None, **options: str) -> Any:
        reader = session.read.format("speed").options(root=recorded.root, **options)
        return (reader.schema(schema) if schema else reader).load()

    return frame


# --- batches ---


def test_a_row_has_all_metadata_of_its_message(recorded: Recorded, read: Callable[..., Any]) -> None:
    recorded.inbox(
        "orders",
        "shop",
        1,
        payload=b"\x00\x01",
        topic="new",
        priority=9,
        ttl_seconds=60,
        correlation_id="c",
        causality_parent="p",
        traceparent=TRACE,
        labels={"a": "b"},
    )
    (row,) = read().selectExpr("*", "unix_millis(published_at) AS ms").collect()
    (lane,) = recorded.journal.lanes()
    (record,) = recorded.journal.read(lane.id, 0, 1)
    expected = {
        "message_id": record.view.message_id,
        "kind": "inbox",
        "topic": "new",
        "inbox": "orders",
        "source": "shop",
        "priority": 9,
        "ttl_seconds": 60,
        "content_type": "application/octet-stream",
        "content_encoding": "none",
        "correlation_id": "c",
        "causality_parent": "p",
        "trace_id": TRACE[3:35],
        "headers": {"a": "b"},
        "lane": lane.id,
        "offset": 0,
        "redelivered": False,
        "payload": b"\x00\x01",
        "ms": PUBLISHED_MS,
    }
    assert {name: row[name] for name in expected} == expected
    assert int(row.recorded_at.timestamp() * 1000) == record.recorded_at_ms


def test_events_have_no_inbox_and_what_was_not_said_is_null(recorded: Recorded, read: Callable[..., Any]) -> None:
    recorded.topic("flights.ua", "producer", 1)
    row = read().first()
    assert (row.kind, row.topic, row.inbox, row.priority) == ("topic", "flights.ua", None, 5)
    assert (row.correlation_id, row.trace_id, row.ttl_seconds, row.headers) == (None, None, None, {})


def test_payloads_come_as_text_or_as_columns(recorded: Recorded, read: Callable[..., Any]) -> None:
    """msgpack and JSON alike; metadata columns may stand beside those of the payload."""
    recorded.topic("t", "msgpack", 2)
    recorded.topic("t", "json", 2, payload='{"n": 7, "s": "é", "l": [1.5]}', content_type="application/json")
    texts = read(source="json", payload="string").select("payload").collect()
    assert [row.payload for row in texts] == ['{"n": 7, "s": "é", "l": [1.5]}'] * 2
    rows = read("source string, n long, s string, l array<double>").orderBy("source", "n").collect()
    assert [tuple(row) for row in rows] == [
        ("json", 7, "é", [1.5]),
        ("json", 7, "é", [1.5]),
        ("msgpack", 0, None, None),
        ("msgpack", 1, None, None),
    ]
    nested = read(payloadSchema="n long, s string", source="json").select("payload.*", "topic").first()
    assert tuple(nested) == (7, "é", "t")


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        ({"n": "no number"}, "n is text, which int64 does not hold"),
        ({"n": 1 << 63}, "n is an integer that int64 does not hold"),
        ({"n": 1.5}, "n is a float that int64 does not hold"),
        ([1], "payload is no map"),
        (b"\xc1", "its content type has no columns"),
        ("{", "it is no JSON"),
    ],
)
def test_a_payload_that_does_not_fit_is_named_or_null(
    recorded: Recorded, read: Callable[..., Any], payload: Any, says: str
) -> None:
    recorded.topic("t", "p", 2)
    recorded.topic("t", "p", 1, payload=payload)
    recorded.topic("t", "p", 1)
    schema = "offset long, n long"
    with pytest.raises(Exception, match=f"PayloadError: topic t from p, lane [0-9a-f]*, offset 2: .*{says}"):
        read(schema).collect()
    rows = read(schema, onError="null").orderBy("offset").collect()
    assert [row.n for row in rows] == [0, 1, None, 3]


def test_no_field_of_a_payload_becomes_another_value(recorded: Recorded, read: Callable[..., Any]) -> None:
    """V-5: in JSON and msgpack alike; what does not fit its column is null where that is asked for."""
    recorded.topic("t", "json", 1, payload='{"at": 1700000000}', content_type="application/json")
    recorded.topic("t", "json", 1, payload='{"p": 12345678901234567.89}', content_type="application/json")
    recorded.topic("t", "msgpack", 1, payload={"s": b"bytes"})
    rows = read("offset long, at timestamp, p decimal(19,2)", onError="null", source="json").orderBy("offset").collect()
    assert [(row.at, str(row.p)) for row in rows] == [(None, "None"), (None, "12345678901234567.89")]
    with pytest.raises(Exception, match=r"PayloadError: .*: s is bytes, which string does not hold"):
        read("s string").collect()


def test_bytes_that_are_no_message_are_named(recorded: Recorded, read: Callable[..., Any]) -> None:
    recorded.topic("t", "p", 1)
    recorded.raw(Subject("topic", "t", "p"), b"garbage")
    with pytest.raises(Exception, match=r"BAD_MESSAGE: topic t from p, lane [0-9a-f]*, offset 1"):
        read().collect()


def test_filters_of_one_query_leave_nothing_out_of_the_next_one(recorded: Recorded, read: Callable[..., Any]) -> None:
    recorded.topic("a", "p", 300)
    recorded.topic("b", "p", 30)
    frame = read()
    assert frame.where("topic = 'b'").count() == 30
    assert frame.where("recorded_at < current_timestamp() - INTERVAL 1 HOUR").count() == 0
    assert frame.where("recorded_at > current_timestamp() - INTERVAL 1 HOUR AND offset >= 100").count() == 200
    assert frame.where("topic = 'a' OR topic = 'b'").count() == 330
    assert frame.count() == 330


def test_a_lane_is_read_by_several_tasks(recorded: Recorded, read: Callable[..., Any]) -> None:
    recorded.topic("a", "p", 1000)
    frame = read("n long", messagesPerPartition="300")
    assert frame.rdd.getNumPartitions() == 4
    assert sorted(row.n for row in frame.collect()) == list(range(1000))


@pytest.mark.parametrize(
    ("options", "schema", "says"),
    [
        ({"jurnal": "/j"}, None, "there is no option 'jurnal'"),
        ({"topic": "a", "inbox": "b"}, None, "topic and inbox are both given"),
        ({"startingOffsets": "latest"}, "n long", "startingOffsets is 'latest': use earliest, or"),
        ({}, "topic long", "column 'topic' is asked for as bigint: it is string"),
        ({"calls": "true"}, "n long", "the call log has no column 'n'; it has answered_at, service"),
        ({"payloadSchema": "n long"}, "n long", "a schema and payloadSchema are both given"),
        ({"key": "/nowhere/speed.key"}, None, "there is no key file /nowhere/speed.key"),
        ({"journal": "/nowhere"}, None, "there is no journal in /nowhere"),
    ],
)
def test_what_cannot_be_read_is_said_before_a_job_runs(
    recorded: Recorded, read: Callable[..., Any], options: dict[str, str], schema: str | None, says: str
) -> None:
    from pyspark.errors import AnalysisException

    recorded.topic("a", "p", 1)
    with pytest.raises(AnalysisException, match=says):
        read(schema, **options).collect()


def test_the_plan_holds_the_path_of_the_key_and_never_the_key(recorded: Recorded, read: Callable[..., Any]) -> None:
    recorded.topic("a", "p", 1)
    key = Path(recorded.key).read_text().split()[-1]
    frame = read(key=recorded.key)
    plan = frame._jdf.queryExecution().toString()
    assert "speed" in plan
    assert key not in plan


# --- with speedd ---

CONFIG = """
[node]
root = "{root}"
key = "{root}/speed.key"
allow = ["client"]
[python]
path = ["{lib}"]
[[service]]
name = "half"
entry = "svc:half"
[journal]
topics = ["alerts.*"]
inboxes = ["orders"]
allow = ["etl.*"]
calls = true
"""


@pytest.fixture(scope="module")
def speedd(module_root: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """speedd with a journal and a service; gives the root."""
    root, tmp_path = module_root, tmp_path_factory.mktemp("speedd")
    (tmp_path / "svc.py").write_text("def half(value: int) -> float:\n    return value / 2 if value else 1 / 0\n")
    config = tmp_path / "speedd.toml"
    config.write_text(CONFIG.format(root=root, lib=tmp_path))
    command = [sys.executable, "-m", "speed.daemon", "run", "-c", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        events = (json.loads(line)["event"] for line in process.stderr if line.startswith("{"))
        assert "ready" in events
        yield root
        process.terminate()


def test_what_spark_writes_to_topics_and_inboxes_spark_reads_from_the_journal(session: Any, speedd: str) -> None:
    from pyspark.sql.functions import count
    from pyspark.sql.functions import sum as sum_

    def write(frame: Any, **options: str) -> None:
        frame.write.format("speed").mode("append").options(root=speedd, **options).save()

    numbers = session.range(1000).selectExpr("id AS n", "CAST(id AS STRING) AS s")
    write(numbers, topic="alerts.late")
    write(numbers.limit(10), node="orders")
    frame = session.read.format("speed").options(root=speedd).schema("kind string, n long, s string").load()
    rows = frame.groupBy("kind").agg(sum_("n"), count("s")).orderBy("kind").collect()
    assert [tuple(row) for row in rows] == [("inbox", 45, 10), ("topic", 499_500, 1000)]


def test_the_call_log_is_a_table_without_what_was_said(session: Any, speedd: str) -> None:
    with speed.Node("client", root=speedd) as client:
        client.wait_for("speedd")
        assert client.call("speedd", "half", {"value": 5}) == 2.5
        with pytest.raises(speed.ExecutionFailedError):
            client.call("speedd", "half", {"value": 0})
    log = session.read.format("speed").options(root=speedd, calls="true").load()
    assert {"answered_at", "service", "caller", "microseconds", "outcome"} < set(log.columns)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(rows := log.orderBy("answered_at", "offset").collect()) < 2:
        assert time.monotonic() < deadline, "the calls are not in the log"
    assert [(row.service, row.caller, row.outcome) for row in rows] == [
        ("half", "client", "OK"),
        ("half", "client", "EXECUTION_FAILED"),
    ]
    assert log.where("service = 'other'").count() == 0
    assert log.where("service = 'half' AND outcome <> 'OK'").count() == 1
