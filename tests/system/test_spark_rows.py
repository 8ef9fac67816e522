"""A call for each row, errors in a column, calls of the driver, and what a user sees of a node that is not there."""

from __future__ import annotations

import io
import logging
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing, redirect_stderr
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.column_services import by_row
from speed.spark import Speed, paths
from tests.system.spark_sessions import Sessions

pytestmark = [pytest.mark.system, pytest.mark.spark]


@pytest.fixture(scope="module", autouse=True)
def rules(module_root: str) -> Iterator[speed.Node]:
    """The node whose services the tests call."""
    with speed.Node("rules", root=module_root, workers=8) as node:
        node.register("label", label)
        node.register("sizes", lambda text: {"characters": len(text), "bytes": len(text.encode())})
        node.register("slow", slow)
        node.register("labels", by_row(label))
        node.allow("etl.*")
        yield node


def label(number: int, text: str | None = None) -> str:
    if number % 100 == 17:
        raise ValueError("unlucky")
    return f"{number}:{text}"


def slow(number: int) -> int:
    time.sleep(0.02 * (number % 3))
    return number


@pytest.fixture(scope="module")
def rows(spark: Any, module_root: str) -> Iterator[Speed]:
    """Calls of Python workers."""
    with closing(Speed(spark, root=module_root, name="etl.rows")) as sp:
        yield sp


def frame(spark: Any, first: int = 18, last: int = 117) -> Any:
    return spark.range(first, last).coalesce(1).selectExpr("id AS number", "CONCAT('t', id) AS text")


def test_each_row_is_a_request_of_values_and_the_order_is_kept(spark: Any, rows: Speed) -> None:
    labelled = rows.call_each(frame(spark), node="rules", service="label", returns="label string")
    assert labelled.columns == ["number", "text", "label"]
    assert [row.label for row in labelled.collect()] == [f"{number}:t{number}" for number in range(18, 117)]
    mixed = rows.call_each(frame(spark), node="rules", service="slow", columns=["number"], returns="same long")
    assert [row.same for row in mixed.collect()] == list(range(18, 117))


def test_a_map_that_a_row_is_answered_with_becomes_columns(spark: Any, rows: Speed) -> None:
    sized = rows.call_each(
        frame(spark, 18, 20), node="rules", service="sizes", columns=["text"], returns="characters int, lines int"
    )
    assert [tuple(row) for row in sized.collect()] == [(18, "t18", 3, None), (19, "t19", 3, None)]


def test_a_row_that_fails_ends_the_job_or_tells_its_error_beside_the_others(spark: Any, rows: Speed) -> None:
    asked = {"node": "rules", "service": "label", "returns": "label string"}
    with pytest.raises(Exception, match=r"rules\.label, row 17 of the partition: .*unlucky"):
        rows.call_each(frame(spark, 0, 30), **asked).collect()
    found = rows.call_each(frame(spark, 0, 30), **asked, error_column="error").collect()
    assert [row.number for row in found if row.error] == [17]
    assert found[17].label is None
    assert found[17].error.startswith("EXECUTION_FAILED: ")
    assert "unlucky" in found[17].error
    assert found[18].label == "18:t18"


def test_enrich_tells_the_error_of_a_row_in_a_column(spark: Any, rows: Speed) -> None:
    asked = {"node": "rules", "service": "labels", "columns": ["number"], "returns": "label string"}
    found = rows.enrich(frame(spark, 0, 50), **asked, idempotent=True, error_column="why").collect()
    assert [row.number for row in found if row.why] == [17]
    assert found[16].label == "16:None"
    with pytest.raises(speed.ConfigurationError, match="has a column 'text' already"):
        rows.enrich(frame(spark), **asked, error_column="text")
    with pytest.raises(speed.ConfigurationError, match="'label' is promised: give the errors another name"):
        rows.enrich(frame(spark), **asked, error_column="label")


def test_a_function_and_a_map_tell_their_errors_too(spark: Any, rows: Speed) -> None:
    labels = rows.udf("rules", "labels", "string", columns=["number"], error_column="error", idempotent=True)
    found = [row.made for row in frame(spark, 16, 18).select(labels("number").alias("made")).collect()]
    assert (found[0].value, found[0].error) == ("16:None", None)
    assert (found[1].value, "unlucky" in found[1].error) == (None, True)
    only = frame(spark, 17, 18).select("number")
    (row,) = rows.map(only, node="rules", service="labels", schema="label string", error_column="error").collect()
    assert (row.label, "unlucky" in row.error) == (None, True)


def test_calls_for_rows_are_those_of_python_workers(spark: Any, rows: Speed) -> None:
    with pytest.raises(speed.ConfigurationError, match=r"path='jvm' cannot be taken for rules\.label: a call for each"):
        rows.call_each(frame(spark), node="rules", service="label", returns="label string", path="jvm")
    asked = {"node": "rules", "service": "labels", "columns": ["number"], "returns": "label string"}
    with pytest.raises(speed.ConfigurationError, match="a column of errors is written by Python workers"):
        rows.enrich(frame(spark), **asked, error_column="error", path="jvm")


def test_the_driver_calls_for_each_request_in_order_behind_a_bar(rows: Speed) -> None:
    requests = [{"number": number} for number in range(18, 60)]
    with redirect_stderr(io.StringIO()) as shown:
        answers = rows.call_all(requests, node="rules", service="slow", progress=True)
    assert answers == list(range(18, 60))
    assert "rules.slow" in shown.getvalue()
    with pytest.raises(speed.SpeedError, match=r"rules\.label, row 1: .*unlucky"):
        rows.call_all([{"number": 1}, {"number": 17}], node="rules", service="label")
    tolerant = rows.call_all([{"number": 17}, {"number": 1}], node="rules", service="label", on_error="null")
    assert tolerant == [None, "1:None"]


def test_an_error_stands_at_once_behind_the_lines_of_spark(spark: Any, rows: Speed) -> None:
    """No frames of this package between Spark's own and the message."""
    with pytest.raises(Exception, match="unlucky") as caught:
        rows.call_each(frame(spark, 17, 18), node="rules", service="label", returns="label string").collect()
    text = str(caught.value)
    assert text.count("speed/spark/") <= 1, text


def test_a_worker_that_waits_for_a_node_soon_says_so_in_the_driver(
    spark: Any, rows: Speed, module_root: str, caplog: pytest.LogCaptureFixture
) -> None:
    late = speed.Node("late", root=module_root)
    late.register("label", label)
    late.allow("etl.*")
    asked = rows.call_each(frame(spark, 0, 5), node="late", service="label", returns="label string")
    late.close()
    is_told = threading.Event()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "no node 'late' is there" in record.getMessage() and "executor driver on" in record.getMessage():
                is_told.set()

    handler = Told()
    logging.getLogger("speed").addHandler(handler)
    found: list[Any] = []
    job = threading.Thread(target=lambda: found.extend(asked.collect()), name="job")
    job.start()
    try:
        assert is_told.wait(60)
        with speed.Node("late", root=module_root) as anew:
            anew.register("label", label)
            anew.allow("etl.*")
            job.join(60)
    finally:
        logging.getLogger("speed").removeHandler(handler)
        job.join(60)
    assert [row.label for row in found] == [f"{number}:t{number}" for number in range(5)]


def another_jar(directory: Path, minor: str) -> str:
    """What the driver looks at of our jar, as if it were for another version of Spark."""
    made = directory / f"speed-spark_{minor}.jar"
    with zipfile.ZipFile(paths.here()) as jar, zipfile.ZipFile(made, "w") as other:
        for name in jar.namelist():
            if name.startswith("speed/spark/") and not name.endswith("/"):
                other.writestr(name, minor if name.endswith("spark-minor") else jar.read(name))
    return str(made)


@pytest.mark.usefixtures("rows")  # else the JVM would begin with that jar, for all tests of this process
def test_a_jar_beside_another_is_told_with_the_places_of_both(
    spark_sessions: Sessions, module_root: str, tmp_path: Path
) -> None:
    asked = {"node": "rules", "service": "labels", "columns": ["id"], "returns": "label string", "path": "jvm"}
    spark = spark_sessions.get("local[2]", {"spark.jars": another_jar(tmp_path, "4.0")})
    says = r"2 jars of it are on the class path, leave one: .*speed-spark_4\.0\.jar"
    with closing(Speed(spark, root=module_root, name="etl.jars")) as sp:
        with pytest.raises(speed.ConfigurationError, match=says):
            sp.enrich(spark.range(3), **asked)
        assert sp.enrich(spark.range(18, 20), **{**asked, "path": "auto"}).count() == 2


@pytest.mark.parametrize("path", ["python", "jvm"])
def test_a_session_after_another_with_caches_of_arrow_calls_on_each_path(
    spark_sessions: Sessions, module_root: str, path: str
) -> None:
    """It and what stands before it end the module's session. Spark 4.3.0 itself fails at such a cache."""
    serializer = "org.apache.spark.sql.execution.columnar.ArrowCachedBatchSerializer"
    spark = spark_sessions.get("local[2]", {"spark.sql.cache.serializer": serializer})
    kept = spark.range(18, 90).selectExpr("id AS number").cache()
    assert kept.count() == 72
    with closing(Speed(spark, root=module_root, name=f"etl.arrow.{path}")) as sp:
        asked = sp.enrich(kept, node="rules", service="labels", columns=["number"], returns="label string", path=path)
        assert sorted(row.label for row in asked.collect()) == sorted(f"{number}:None" for number in range(18, 90))
    kept.unpersist()
