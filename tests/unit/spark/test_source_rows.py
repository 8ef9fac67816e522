"""Rows as messages: the same bytes as a node's own, and ids that a retry makes again (M-2, M-13)."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import chain

import pyarrow as pa
import pytest

from speed.errors import SpeedError
from speed.message.view import MessageView
from speed.message.writing import MessageIds
from speed.spark.source.rows import RowEncoder
from speed.wire.limits import MAX_PAYLOAD_BYTES

WORK = ("stream", "4c1f", "17", "3")


def encoder(topic: str | None = "message", content_type: str | None = None, *work: str) -> RowEncoder:
    return RowEncoder(MessageIds(*(work or WORK)), topic, content_type, "etl.app.1.2")


def views(*batches: pa.RecordBatch, rows: RowEncoder | None = None) -> list[MessageView]:
    rows = rows or encoder()
    runs = chain.from_iterable(rows.encode(batch) for batch in batches)
    return [MessageView(message).validate() for _, messages in runs for message in messages]


def test_a_row_without_a_payload_column_is_a_map_of_its_columns() -> None:
    moment = datetime(2013, 1, 1, 5, tzinfo=timezone.utc)
    rows = pa.RecordBatch.from_pylist([{"n": 1, "s": "é", "t": moment, "l": [1, None]}, {"n": None, "s": None}])
    first, second = views(rows)
    assert first.payload == {"n": 1, "s": "é", "t": moment, "l": [1, None]}
    assert second.payload == {"n": None, "s": None, "t": None, "l": None}
    assert (first.topic, first.publisher_id, first.priority) == ("message", "etl.app.1.2", 5)


@pytest.mark.parametrize(("value", "content_type"), [(b"\0\xff", "application/octet-stream"), ("ü", "text/plain")])
def test_a_payload_of_bytes_or_text_travels_as_it_is(value: bytes | str, content_type: str) -> None:
    (view,) = views(pa.RecordBatch.from_pylist([{"payload": value}]))
    assert (view.payload, view.content_type) == (value, content_type)


def test_a_content_type_may_be_given_for_all_or_by_a_column() -> None:
    rows = pa.RecordBatch.from_pylist(
        [{"payload": "{}", "content_type": None}, {"payload": "<a/>", "content_type": "text/xml"}]
    )
    found = views(rows, rows=encoder("message", "application/json"))
    assert [view.content_type for view in found] == ["application/json", "text/xml"]


def test_metadata_columns_are_the_metadata_of_the_message() -> None:
    said = {
        "topic": "orders.created",
        "priority": 9,
        "ttl_seconds": 60,
        "correlation_id": "c",
        "causality_parent": "p",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "message_id": "mine",
    }
    (view,) = views(pa.RecordBatch.from_pylist([{"payload": b"x", **said}]))
    assert {name: getattr(view, name) for name in said} == said


def test_headers_are_the_labels_of_the_message() -> None:
    schema = pa.schema([("payload", pa.binary()), ("headers", pa.map_(pa.string(), pa.string()))])
    rows = pa.RecordBatch.from_pylist([{"payload": b"x", "headers": [("a", "b")]}], schema=schema)
    assert views(rows)[0].labels == {"a": "b"}


def test_rows_come_in_runs_of_one_topic_and_keep_their_order() -> None:
    topics = ["a", "a", "b", None, None, "a"]
    rows = pa.RecordBatch.from_pylist([{"payload": str(n), "topic": topic} for n, topic in enumerate(topics)])
    runs = [(topic, [MessageView(m).payload for m in run]) for topic, run in encoder("z").encode(rows)]
    assert runs == [("a", ["0", "1"]), ("b", ["2"]), ("z", ["3", "4"]), ("a", ["5"])]


def test_ids_are_the_same_again_however_the_rows_are_cut_into_batches() -> None:
    """M-13."""
    rows = pa.RecordBatch.from_pylist([{"n": n} for n in range(10)])
    once = [view.message_id for view in views(rows)]
    again = [view.message_id for view in views(rows.slice(0, 3), rows.slice(3))]
    assert once == again
    assert len(set(once)) == 10
    assert all(message_id[14] == "8" and message_id[19] in "89ab" for message_id in once)


@pytest.mark.parametrize(
    "other", [("stream", "4c1f", "17", "4"), ("stream", "4c1f", "18", "3"), ("stream", "4c1f1", "7", "3")]
)
def test_ids_of_other_work_differ(other: tuple[str, ...]) -> None:
    """M-13: also where the names joined would read the same."""
    rows = pa.RecordBatch.from_pylist([{"n": 1}])
    assert views(rows)[0].message_id != views(rows, rows=encoder("message", None, *other))[0].message_id


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"payload": None}, "row 1 of the partition: payload is null"),
        ({"payload": b"", "topic": "a b"}, "row 1 of the partition: .*topic"),
        ({"payload": b"", "priority": 11}, "row 1 of the partition: .*priority"),
        ({"payload": b"x" * (MAX_PAYLOAD_BYTES + 1)}, "row 1 of the partition: the payload has 67108865 bytes"),
        ({"payload": b"", "message_id": ""}, "row 1 of the partition: .*message_id"),
        ({"payload": b"", "traceparent": "00"}, "row 1 of the partition: .*traceparent"),
    ],
)
def test_a_row_that_is_no_message_is_named(bad: dict[str, object], says: str) -> None:
    good = {**dict.fromkeys(bad), "payload": b"x"}
    with pytest.raises(SpeedError, match=says):
        views(pa.RecordBatch.from_pylist([good, bad]))


def test_an_event_needs_a_topic_in_each_row_if_no_option_names_one() -> None:
    rows = pa.RecordBatch.from_pylist([{"payload": b"x", "topic": "a"}, {"payload": b"x", "topic": None}])
    with pytest.raises(SpeedError, match="row 1 of the partition: topic is null"):
        views(rows, rows=encoder(None))
