"""Services on the columns of DataFrames, on a local Spark of two cores."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import speed
from speed import columns
from speed.column_services import by_array, by_row
from speed.engine import why_unusable
from speed.spark import Speed
from speed.spark.nodes import worker_node

pytestmark = [pytest.mark.system, pytest.mark.spark]


@pytest.fixture(scope="module", autouse=True)
def geo(module_root: str) -> Iterator[speed.Node]:
    """The node whose services the tests call."""
    with speed.Node("geo", root=module_root) as node:
        node.register("hypot", by_array(lambda a, b: np.hypot(a, b)))
        node.register("label", by_row(label))
        node.register("nothing", nothing)
        node.register("first_half", first_half)
        node.register("plain", lambda a: 2 * a)
        node.register("slow", by_row(slow))
        node.register("twice", by_row(twice))
        node.register("several", by_row(several))
        node.register("length", by_row(length))
        node.register("signs", by_array(lambda x, k: {"sign": np.sign(x), "size": np.abs(k)}))
        node.register("positive", by_array(lambda a: {"a": a[a > 0], "twice": 2 * a[a > 0]}, any_rows=True))
        node.allow("etl.*")
        yield node


def nothing(a: speed.Column) -> None:
    return None


def first_half(a: speed.Column) -> speed.Column:
    return columns.from_numpy(columns.to_numpy(a)[: a.rows // 2])


def slow(a: int) -> int:
    time.sleep(0.1)
    return a


def twice(amount: int) -> int:
    return 2 * amount


def length(a: str) -> int:
    return len(a)


def several(a: int | None) -> dict[str, Any] | None:
    if a is None:
        return None
    return {"x": Decimal(10**29 + a)} if a < 100 else {"y": "text"}


def label(a: int, b: float | None) -> str | None:
    if a < 0:
        raise ValueError("negative")
    return None if b is None else f"{a}:{b:g}"


def frame(spark: Any, rows: int = 1000) -> Any:
    return spark.range(rows).selectExpr("id AS a", "CAST(id AS DOUBLE) AS b").repartition(4)


def test_enrich_adds_the_column_that_a_service_answers(spark: Any, sp: Speed) -> None:
    enriched = sp.enrich(frame(spark), node="geo", service="hypot", columns=["a", "b"], returns="c double")
    assert enriched.columns == ["a", "b", "c"]
    rows = enriched.collect()
    assert len(rows) == 1000
    assert all(row.c == pytest.approx(row.a * 2**0.5) for row in rows)


def plan(asked: Any) -> str:
    return str(asked._jdf.queryExecution().executedPlan())


def test_the_plan_tells_which_path_runs(spark: Any, sp: Speed, path: str) -> None:
    asked = sp.enrich(frame(spark), node="geo", service="hypot", columns=["a", "b"], returns="c double")
    assert ("SpeedCall geo.hypot(a=a#" in plan(asked)) == (path == "jvm")
    assert ("ArrowEvalPython" in plan(asked)) == (path == "python")


def test_columns_that_nobody_wants_go_no_further_than_the_service(spark: Any, sp: Speed) -> None:
    asked = sp.enrich(frame(spark), node="geo", service="hypot", columns=["a", "b"], returns="c double")
    only = asked.selectExpr("c / 2 AS half")
    assert sorted(row.half for row in only.collect()) == pytest.approx([n * 2**0.5 / 2 for n in range(1000)])


def test_a_path_is_that_of_the_use_else_of_speed_else_of_the_session(spark: Any, sp: Speed, module_root: str) -> None:
    def asked(of: Speed, **options: Any) -> str:
        arguments = {"node": "geo", "service": "hypot", "columns": ["a", "b"], "returns": "c double"}
        return plan(of.enrich(frame(spark), **arguments, **options))

    assert "SpeedCall" in asked(sp, path="auto")
    assert "SpeedCall" not in asked(sp, path="python")
    with closing(Speed(spark, root=module_root, name="etl.plain")) as plainly:
        assert "SpeedCall" in asked(plainly)
        spark.conf.set("spark.speed.path", "python")
        try:
            assert "SpeedCall" not in asked(plainly)
        finally:
            spark.conf.unset("spark.speed.path")
    with pytest.raises(speed.ConfigurationError, match="path is 'java': use auto, jvm or python"):
        asked(sp, path="java")


def test_a_stream_goes_the_same_way(spark: Any, sp: Speed, path: str, tmp_path: Path) -> None:
    frame(spark).write.parquet(str(tmp_path / "in"))
    arriving = spark.readStream.schema("a long, b double").parquet(str(tmp_path / "in"))
    enriched = sp.enrich(arriving, node="geo", service="hypot", columns=["a", "b"], returns="c double")
    rows: list[Any] = []
    query = enriched.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    running = query.option("checkpointLocation", str(tmp_path / "seen")).trigger(availableNow=True).start()
    assert running.awaitTermination(120)
    assert len(rows) == 1000
    assert all(row.c == pytest.approx(row.a * 2**0.5) for row in rows)
    assert ("SpeedCall" in running._jsq.explainInternal(False)) == (path == "jvm")


def test_the_metrics_count_what_the_workers_did(spark: Any, sp: Speed) -> None:
    before = sp.metrics
    sp.enrich(frame(spark), node="geo", service="hypot", columns=["a", "b"], returns="c double").count()
    sp.enrich(frame(spark), node="geo", service="hypot", columns=["a", "b"], returns="c double").collect()
    after = sp.metrics
    assert after["rows"] - before["rows"] >= 1000
    assert after["calls"] - before["calls"] >= 10
    assert 0 < after["p50_seconds"] <= after["p99_seconds"]


def test_a_udf_calls_a_service_in_select_and_in_sql(spark: Any, sp: Speed) -> None:
    from pyspark.sql.functions import col

    labelled = sp.udf("geo", "label", "string", columns=["a", "b"])
    values = {row[0] for row in frame(spark, 10).select(labelled(col("a"), col("b"))).collect()}
    assert values == {f"{number}:{number}" for number in range(10)}
    spark.udf.register("label", labelled)
    assert spark.sql("SELECT label(7L, 0.5D)").collect()[0][0] == "7:0.5"
    assert spark.sql("SELECT label(7L, CAST(NULL AS DOUBLE))").collect()[0][0] is None


def test_a_function_without_names_for_its_arguments_is_refused_when_it_is_registered_for_sql(
    spark: Any, sp: Speed
) -> None:
    with pytest.raises(speed.ConfigurationError, match=r"have no names: give them to sp.udf, as columns=\['miles'"):
        spark.udf.register("label", sp.udf("geo", "label", "string"))


def test_columns_go_to_arguments_of_other_names(spark: Any, sp: Speed) -> None:
    renamed = spark.range(4).selectExpr("id AS `net amount`", "-id AS `a.b`")
    asked = sp.enrich(renamed, node="geo", service="twice", columns={"amount": "net amount"}, returns="b long")
    assert asked.columns == ["net amount", "a.b", "b"]
    assert [row.b for row in asked.collect()] == [0, 2, 4, 6]
    both = sp.enrich(renamed, node="geo", service="hypot", columns={"a": "a.b", "b": "a.b"}, returns="c double")
    assert [row.c for row in both.collect()] == pytest.approx([number * 2**0.5 for number in range(4)])


def test_a_plain_function_is_refused_with_what_would_make_it_one_of_columns(spark: Any, sp: Speed) -> None:
    asked = sp.enrich(frame(spark), node="geo", service="plain", columns=["a"], returns="c long")
    with pytest.raises(Exception, match=r"argument 'a' is a column, .* use @by_row, @by_array"):
        asked.collect()


def test_a_time_out_tells_rows_seconds_a_row_and_what_helps(spark: Any, sp: Speed) -> None:
    one = spark.range(100).coalesce(1).selectExpr("id AS a")
    asked = sp.enrich(one, node="geo", service="slow", columns=["a"], returns="c long", timeout_seconds=1)
    with pytest.raises(Exception, match=r"100 rows in 1 s are 0.01 s a row: raise timeout_seconds, .*maxRecordsPer"):
        asked.collect()


def test_map_gives_the_rows_that_the_service_makes(spark: Any, sp: Speed) -> None:
    frame_of_one = spark.range(-50, 50).selectExpr("id AS a")
    mapped = sp.map(frame_of_one, node="geo", service="positive", schema="a long, twice long")
    assert sorted((row.a, row.twice) for row in mapped.collect()) == [(a, 2 * a) for a in range(1, 50)]


@pytest.mark.parametrize("engine", ["auto", "native", "python"])
def test_the_workers_nodes_have_the_engine_that_was_asked_for(spark: Any, module_root: str, engine: str) -> None:
    """Native where it is built, unless the session or its environment tells otherwise."""
    is_built = not why_unusable(speed.__version__)
    by_itself = os.environ.get("SPEED_ENGINE") or ("native" if is_built else "python")
    if engine == "native" and not is_built:
        with pytest.raises(speed.ConfigurationError, match="the native engine cannot be used"):
            Speed(spark, root=module_root, name="etl.native", engine=engine)
        return
    with closing(Speed(spark, root=module_root, name=f"etl.{engine}", engine=engine, path="python")) as sp_of_engine:
        settings = sp_of_engine._settings

        def engines(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                yield pa.RecordBatch.from_pydict({"engine": [worker_node(settings).engine] * batch.num_rows})

        found = {row.engine for row in frame(spark, 10).mapInArrow(engines, "engine string").collect()}
        assert found == {engine if engine != "auto" else by_itself}
        enriched = sp_of_engine.enrich(
            frame(spark), node="geo", service="hypot", columns=["a", "b"], returns="c double"
        )
        assert len(enriched.collect()) == 1000


def test_an_error_names_node_service_batch_and_row_and_reaches_the_driver(spark: Any, sp: Speed) -> None:
    one = spark.range(300).coalesce(1).selectExpr("IF(id = 217, -1L, id) AS a", "1D AS b")
    failing = sp.enrich(one, node="geo", service="label", columns=["a", "b"], returns="c string")
    with pytest.raises(
        Exception, match=r"geo\.label, batch 2 \(rows 200 to 299 of the partition\), row 217: .*negative"
    ):
        failing.collect()


def test_a_batch_that_fails_may_become_nulls(spark: Any, sp: Speed) -> None:
    one = spark.range(300).coalesce(1).selectExpr("IF(id = 217, -1L, id) AS a", "1D AS b")
    tolerant = sp.enrich(one, node="geo", service="label", columns=["a", "b"], returns="c string", on_error="null")
    rows = tolerant.collect()
    assert [row.c is None for row in rows] == [False] * 200 + [True] * 100


def test_of_an_idempotent_service_only_the_rows_that_it_names_become_nulls(spark: Any, sp: Speed) -> None:
    """C-7: whichever rows are bad, the first, the last, side by side; the others have their answers."""
    bad = {0, 1, 50, 99, 150, 217, 299}
    negative = f"IF(id IN ({', '.join(map(str, bad))}), -1L, id) AS a"
    one = spark.range(300).coalesce(1).selectExpr("id", negative, "1D AS b")
    options = {"on_error": "null", "idempotent": True}
    before = sp.metrics["failed_rows"]
    tolerant = sp.enrich(one, node="geo", service="label", columns=["a", "b"], returns="c string", **options)
    assert {row.id: row.c for row in tolerant.collect()} == {n: None if n in bad else f"{n}:1" for n in range(300)}
    assert sp.metrics["failed_rows"] - before == len(bad)


def test_an_answer_of_several_columns_stands_behind_the_others(spark: Any, sp: Speed) -> None:
    """Columns that are no argument may be of any type, and stay what they are."""
    one = spark.range(-2, 2).selectExpr("id AS x", "array(id) AS list", "id AS k", "id + 1 AS later").coalesce(1)
    both = sp.enrich(one, node="geo", service="signs", columns=["x", "k"], returns="sign long, size long NOT NULL")
    assert both.columns == ["x", "list", "k", "later", "sign", "size"]
    found = [tuple(row) for row in both.collect()]
    assert found == [(n, [n], n, n + 1, (n > 0) - (n < 0), abs(n)) for n in range(-2, 2)]


def test_a_service_is_asked_once_however_often_its_answer_is_used(spark: Any, sp: Speed) -> None:
    before = sp.metrics["rows"]
    enriched = sp.enrich(frame(spark, 100), node="geo", service="hypot", columns=["a", "b"], returns="c double")
    kept = enriched.where("c > 10").selectExpr("c + c AS twice", "c * c AS square").where("twice > 40").collect()
    assert kept
    assert sp.metrics["rows"] - before == 100


@pytest.mark.parametrize(
    ("returns", "service", "says"),
    [
        ("c long", "label", r"geo\.label, batch .*, row \d+: the answer for 'c' is text, which int64 does not hold"),
        ("c double, d double", "hypot", r"the answer is one column, promised were columns \['c', 'd'\]"),
        ("c long", "nothing", "the answer is NoneType, promised were columns"),
        ("c long", "first_half", r"the answer has \[.*\] rows, promised were"),
    ],
)
def test_an_answer_other_than_promised_is_an_error(
    spark: Any, sp: Speed, returns: str, service: str, says: str
) -> None:
    names = ["a"] if service in ("first_half", "nothing") else ["a", "b"]
    with pytest.raises(Exception, match=says):
        sp.enrich(frame(spark), node="geo", service=service, columns=names, returns=returns).collect()


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"columns": ["a", "z"]}, speed.ConfigurationError, "the DataFrame has no column 'z'"),
        ({"columns": []}, speed.ConfigurationError, "at least one column"),
        ({"columns": {"a", "b"}}, speed.ConfigurationError, "as a list such as"),
        ({"columns": {"a": "z"}}, speed.ConfigurationError, "the DataFrame has no column 'z'"),
        ({"columns": {"not a name": "a"}}, speed.ConfigurationError, "column 'not a name' cannot be an argument"),
        ({"returns": "b double"}, speed.ConfigurationError, "has a column 'b' already"),
        ({"returns": "B double"}, speed.ConfigurationError, "has a column 'b' already, and 'B' is returned"),
        ({"returns": "c double, c long"}, speed.ConfigurationError, "names one column twice"),
        ({"returns": "c double, C long"}, speed.ConfigurationError, "names one column twice"),
        ({"returns": "c double double"}, speed.ConfigurationError, "is no schema"),
        ({"paralel": 3}, speed.ConfigurationError, "there is no option 'paralel'"),
        ({"retries": 3}, speed.ConfigurationError, "idempotent=True"),
        ({"on_error": "ignore"}, speed.ConfigurationError, "use one of raise, null"),
        ({"service": "none"}, speed.ServiceNotFoundError, "geo has no service 'none'; it has first_half"),
        ({"node": "nobody", "wait_seconds": 0.1}, speed.UnknownNodeError, "no node 'nobody' is there"),
        ({"node": "closed", "wait_seconds": 0.1}, speed.AccessDeniedError, "closed does not allow etl"),
    ],
)
def test_what_can_be_known_is_said_before_a_job_starts(
    spark: Any, sp: Speed, module_root: str, changed: dict[str, Any], error: type[Exception], says: str
) -> None:
    arguments = {"node": "geo", "service": "hypot", "columns": ["a", "b"], "returns": "c double", **changed}
    with speed.Node("closed", root=module_root), pytest.raises(error, match=says):
        sp.enrich(frame(spark), **arguments)


def test_a_column_that_no_service_can_take_is_named(spark: Any, sp: Speed) -> None:
    """C-3: before a job starts, with what to do."""
    months = spark.sql("SELECT INTERVAL '3' MONTH AS a, 1D AS b")
    with pytest.raises(speed.ConfigurationError, match="'a' is of type interval month, which no service can take"):
        sp.enrich(months, node="geo", service="hypot", columns=["a", "b"], returns="c double")


def test_the_promise_decides_what_comes_of_batches_that_lack_columns(spark: Any, sp: Speed) -> None:
    """C-8: one batch of 100 rows has x alone, one y alone, one nothing."""
    frame = spark.range(300).coalesce(1).selectExpr("IF(id < 200, id, NULL) AS a")
    promised = "x decimal(38,0), y string"
    made = sp.enrich(frame, node="geo", service="several", columns=["a"], returns=promised)
    rows = [tuple(row) for row in made.collect()]
    assert (rows[7], rows[107], rows[207]) == ((7, Decimal(10**29 + 7), None), (107, None, "text"), (None, None, None))


def test_text_that_is_not_utf8_is_named_or_null(spark: Any, sp: Speed) -> None:
    frame = spark.sql("SELECT CAST(a AS STRING) AS a FROM VALUES (X'61'), (X'ff') AS t(a)").coalesce(1)
    options = {"node": "geo", "service": "length", "columns": ["a"], "returns": "n long"}
    with pytest.raises(Exception, match=r"InvalidArgumentsError: geo\.length, .*row 1: column 'a' is text that is not"):
        sp.enrich(frame, **options).collect()
    rows = sp.enrich(frame, **options, on_error="null", idempotent=True).select("n").collect()
    assert [row.n for row in rows] == [1, None]
