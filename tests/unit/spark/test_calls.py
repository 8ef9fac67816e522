"""Batches over the limit, counts and percentiles, names of workers: what needs no Spark."""

from __future__ import annotations

import math
import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from speed import columns
from speed.errors import ConfigurationError, InvalidArgumentsError, InvalidNameError, SpeedError
from speed.spark import MAX_NAME_BYTES, CallSettings, NodeSettings, calls, nodes
from speed.spark.calls import BatchCalls, Counts, Reports, halved, promised_arrays, promised_row
from speed.spark.nodes import Targets, call_settings, worker_name
from speed.spark.session import check_names


def batch(rows: int, size: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"text": ["x" * size] * rows, "number": list(range(rows))})


def test_a_batch_over_the_limit_goes_in_parts_that_keep_the_order() -> None:
    whole = batch(10, 250)
    parts = list(halved(whole, ("text",), 1000))
    assert all(part.select(["text"]).nbytes <= 1000 for part in parts)
    assert pa.Table.from_batches(parts)["number"].to_pylist() == list(range(10))
    assert len(parts) == 4


def test_what_is_not_sent_does_not_count_for_the_limit() -> None:
    assert len(list(halved(batch(10, 250), ("number",), 1000))) == 1


def test_one_row_cannot_be_halved() -> None:
    assert len(list(halved(batch(1, 2000), ("text",), 1000))) == 1


def test_counts_add_up_and_survive_a_message() -> None:
    one, other = Counts(calls=2, retries=1), Counts(calls=1)
    one.add(rows=100, size=800, seconds=0.010)
    other.add(rows=1, size=8, seconds=2.0)
    both = one + other
    assert Counts.of_payload(both.payload()) == both
    summary = both.summary()
    assert (summary["calls"], summary["rows"], summary["bytes"], summary["retries"]) == (3, 101, 808, 1)
    assert 0.010 <= summary["p50_seconds"] <= 0.011
    assert 2.0 <= summary["p99_seconds"] <= 2.2


def test_without_a_call_there_is_no_percentile() -> None:
    assert math.isnan(Counts().summary()["p50_seconds"])


class Message:
    topic = "mine"

    def __init__(self, payload: object) -> None:
        self.payload = payload


@pytest.mark.parametrize(
    "payload", [None, 3, {}, {**Counts().payload(), "calls": "many"}, {**Counts().payload(), "latency": 1}]
)
def test_a_message_that_is_no_report_changes_nothing(payload: object) -> None:
    reports = Reports()
    reports.take(Message(Counts(calls=2).payload()))
    reports.take(Message(payload))
    assert reports.of("mine") == Counts(calls=2)
    assert reports.of("another's") == Counts()


@pytest.mark.parametrize("application", ["local-1", "app-20260101000000-0001", "x" * 300, "spark-4f/driver one.."])
def test_the_name_of_a_worker_keeps_the_naming_rule(application: str) -> None:
    """W-1."""
    name = worker_name(NodeSettings(root="/r", key=None, prefix="etl", application=application))
    assert len(name.encode()) <= MAX_NAME_BYTES
    assert name.startswith("etl.")
    assert ".." not in name


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"retries": 1}, "idempotent=True"),
        ({"in_flight": 0}, "at least 1"),
        ({"batch_bytes": 0}, "use 1 to 16777216"),
        ({"on_error": "skip"}, "use one of raise, null"),
        ({"timeout_seconds": -1.0}, "cannot be negative"),
        ({"timeout_seconds": math.nan}, "timeout_seconds is nan; use a number of seconds"),
        ({"wait_seconds": math.inf}, "wait_seconds is inf; use a number of seconds"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        CallSettings("geo", "distance", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "names", [{"node": "g eo"}, {"node": ""}, {"fallback": "spare/1"}, {"service": "dist*"}], ids=lambda one: str(one)
)
def test_what_no_node_or_service_is_called_is_not_waited_for(names: dict[str, str]) -> None:
    with pytest.raises(InvalidNameError):
        CallSettings(**{"node": "geo.*", "service": "distance", **names})  # type: ignore[arg-type]


class Asked:
    """A node whose calls are answered by a function of their columns, and what sees it alone."""

    name = "etl"

    def __init__(self, service: Any) -> None:
        self.node = self
        self._service = service
        self._entry = SimpleNamespace(name="geo", generation=1, allow=["etl"], deny=[], identities=())

    def entries(self) -> list[Any]:
        return [self._entry]

    def submit(self, target: str, service: str, arguments: dict[str, Any], **_: Any) -> Future[Any]:
        future = Future[Any]()
        future.set_result(self._service(**arguments))
        return future


class Waiting(Asked):
    """One that no entry fits until so many looks were taken."""

    def __init__(self, looks: int) -> None:
        super().__init__(None)
        self._looks = looks

    def entries(self) -> list[Any]:
        return super().entries() if self._looks <= 0 else []

    def wait(self, seconds: float) -> None:
        self._looks -= 1
        time.sleep(min(seconds, 0.02))


def test_who_waits_for_a_node_soon_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(nodes, "_SILENT_SECONDS", 0.03)
    live: Any = Waiting(10)
    with caplog.at_level("WARNING", logger="speed"):
        assert Targets(live, CallSettings("geo", "service")).take({}).name == "geo"
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("no node 'geo' is there (after 0.0")
    assert line.endswith("waiting for up to 30 s")


FLOAT = pa.schema([pa.field("b", pa.float32())])


def asked(service: Any, array: pa.Array, promised: pa.Schema = FLOAT, **options: Any) -> list[Any]:
    """What comes for the rows of ``array``; None for a part that failed."""
    live: Any = Asked(service)
    settings = CallSettings("geo", "service", **options)
    of_columns = BatchCalls(live, settings, None, lambda answer, rows: promised_arrays(answer, promised, rows))
    parts = of_columns.answers([pa.RecordBatch.from_arrays([array], ["a"])])
    return [None if part.failed else part.result[0].to_pylist() for part in parts]


def test_a_value_that_its_promised_type_does_not_hold_names_row_and_column_or_is_null() -> None:
    rows = pa.array([1.0, 1e300, 2.0])
    says = r"geo\.service, batch 0 \(rows 0 to 2 of the partition\), row 1: the answer for 'b' is beyond the range"
    with pytest.raises(SpeedError, match=says):
        asked(lambda a: a, rows)
    assert asked(lambda a: a, rows, on_error="null") == [None]
    assert asked(lambda a: a, rows, on_error="null", idempotent=True) == [[1.0], None, [2.0]]


def test_an_answer_of_another_form_is_an_error_whatever_becomes_null() -> None:
    with pytest.raises(SpeedError, match=r"geo\.service, batch 0 .*: the answer is int, promised were columns"):
        asked(lambda a: 7, pa.array([1.0]), on_error="null")


def test_text_that_is_not_utf8_names_row_and_column_or_is_null() -> None:
    rows = pa.array([b"a", b"\xff", b"b"]).view(pa.string())
    with pytest.raises(InvalidArgumentsError, match=r"row 1: column 'a' is text that is not UTF-8"):
        asked(lambda a: columns.from_values([1.0] * a.rows), rows)
    assert asked(lambda a: columns.from_values([1.0] * a.rows), rows, on_error="null") == [None]
    assert asked(lambda a: columns.from_values([1.0] * a.rows), rows, on_error="null", idempotent=True) == [
        [1.0],
        None,
        [1.0],
    ]


def test_names_that_differ_in_case_alone_are_one_name_as_to_spark() -> None:
    with pytest.raises(ConfigurationError, match="has a column 'x' already, and 'X' is returned"):
        check_names(["x"], ["x"], ["X"])
    check_names(["x"], ["x"], ["X"], exact_case=True)


def called(service: Any, batches: list[pa.RecordBatch], **options: Any) -> list[tuple[int, list[Any]]]:
    """First row and result of each call."""
    live: Any = Asked(service)
    joined = BatchCalls(
        live, CallSettings("geo", "service", **options), None, lambda answer, rows: promised_arrays(answer, FLOAT, rows)
    )
    return [(part.first_row, part.result[0].to_pylist()) for part in joined.answers(batches)]


def numbered(batches: int, rows: int) -> list[pa.RecordBatch]:
    return [
        pa.RecordBatch.from_pydict({"a": [float(first + row) for row in range(rows)]})
        for first in range(0, batches * rows, rows)
    ]


def test_batches_are_joined_while_calls_are_quick_and_rows_keep_their_order() -> None:
    batches = numbered(100, 10)
    found = called(lambda a: a, batches, in_flight=1)
    assert [row for _, rows in found for row in rows] == [float(row) for row in range(1000)]
    assert [first for first, _ in found[:5]] == [0, 10, 30, 70, 150]


def test_a_joined_batch_keeps_within_the_rows_and_bytes_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "ROWS_A_CALL", 40)
    assert max(len(rows) for _, rows in called(lambda a: a, numbered(100, 10), in_flight=1)) == 40
    assert max(len(rows) for _, rows in called(lambda a: a, numbered(100, 10), in_flight=1, batch_bytes=160)) == 20


def test_batches_of_a_slow_service_stay_those_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_QUICK_SECONDS", 0.0)
    assert {len(rows) for _, rows in called(lambda a: a, numbered(20, 10))} == {10}


def test_a_batch_that_may_become_null_as_a_whole_is_not_joined() -> None:
    assert {len(rows) for _, rows in called(lambda a: a, numbered(20, 10), on_error="null")} == {10}
    assert len(called(lambda a: a, numbered(20, 10), on_error="null", idempotent=True)) < 20


def each(service: Any, requests: list[dict[str, Any]], promised: pa.Schema = FLOAT, **options: Any) -> list[Any]:
    live: Any = Asked(service)
    rows = BatchCalls(
        live, CallSettings("geo", "service", **options), None, lambda answer, _: promised_row(answer, promised)
    )
    return [part.error if part.failed else tuple(one[0].as_py() for one in part.result) for part in rows.each(requests)]


def test_a_call_a_row_sends_values_and_keeps_the_order() -> None:
    requests = [{"a": number, "b": None} for number in range(100)]
    assert each(lambda a, b: a + (b or 0.5), requests, in_flight=8) == [(number + 0.5,) for number in range(100)]


def test_a_call_a_row_takes_several_columns_from_a_map() -> None:
    two = pa.schema([pa.field("x", pa.int64()), pa.field("y", pa.string())])
    assert each(lambda a: {"x": a} if a else None, [{"a": 1}, {"a": 0}], two) == [(1, None), (None, None)]
    with pytest.raises(
        SpeedError, match=r"geo\.service, row 0 of the partition: the answer is int, promised were \['x', 'y'\]"
    ):
        each(lambda a: a, [{"a": 1}], two)


def test_a_row_whose_answer_does_not_fit_is_named_or_tells_its_error() -> None:
    requests = [{"a": "1"}, {"a": 2.0}]
    with pytest.raises(
        SpeedError,
        match=r"^geo\.service, row 0 of the partition: the answer for 'b' is text, which float does not hold",
    ):
        each(lambda a: a, requests)
    told = "EXECUTION_FAILED: the answer for 'b' is text, which float does not hold"
    assert each(lambda a: a, requests, on_error="null") == [told, (2.0,)]
    with pytest.raises(
        SpeedError, match="row 1 of the partition: the answer for 'b' is null, which was promised NOT NULL"
    ):
        each(lambda a: a, [{"a": 1.0}, {"a": None}], pa.schema([pa.field("b", pa.float64(), nullable=False)]))


def test_a_column_of_errors_is_a_way_of_nulls() -> None:
    assert call_settings("geo", "service", {"error_column": "error"}).on_error == "null"
    with pytest.raises(ConfigurationError, match="error_column is a name, and needs on_error='null'"):
        call_settings("geo", "service", {"error_column": "error", "on_error": "raise"})


def test_of_all_workers_that_wait_for_a_node_one_line_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    reports = Reports()
    with caplog.at_level("WARNING", logger="speed"):
        for host in ("one", "two"):
            reports.take(Message({calls.WAITING: f"executor 1 on {host}: no node 'geo' is there"}))
    assert [record.getMessage() for record in caplog.records] == ["executor 1 on one: no node 'geo' is there"]
