"""A service makes the same of rows wherever they come from, and whatever else is in their plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.column_services import by_row
from speed.spark import Speed
from tests.representative import fewer

pytestmark = [pytest.mark.system, pytest.mark.spark]

ROWS = 1500
"""Of a frame; a call takes 100 of them (``spark_sessions``), a batch of the readers below 256."""


@pytest.fixture(scope="module", autouse=True)
def service(module_root: str) -> Iterator[list[int]]:
    """The rows of each call of ``echo.same``."""
    sizes: list[int] = []

    def same(a: speed.Column) -> speed.Column:
        sizes.append(a.rows)
        return a

    with speed.Node("echo", root=module_root) as node:
        node.register("same", same)
        node.register("both", by_row(lambda a: {"x": a, "y": None if a is None else str(a)}))
        node.register("picky", by_row(picky))
        node.register("size", by_row(lambda a: len(a)))
        node.allow("etl.*")
        yield sizes


def picky(a: int) -> int:
    if a % 500 == 7:
        raise ValueError("no such number")
    return -a


FLAT = """
    id, CAST(id % 100 AS TINYINT) AS tiny, CAST(id AS SMALLINT) AS small, CAST(id AS INT) AS whole,
    id * 1000003 AS large, CAST(id AS FLOAT) / 4 AS real, id / 3D AS double, id % 3 = 0 AS flag
"""
MORE = """
    concat('text ', id % 7, repeat('é', CAST(id % 3 AS INT))) AS text, CAST(concat('b', id) AS BINARY) AS bytes,
    timestamp_micros(id * 1000001) AS instant, CAST(id AS DECIMAL(9, 2)) AS few, CAST(id AS DECIMAL(38, 10)) AS many,
    CAST(id AS DECIMAL(18, 3)) AS some
"""
KEPT = """
    date_add(DATE'2013-01-01', CAST(id AS INT)) AS day, CAST(timestamp_micros(id * 7) AS TIMESTAMP_NTZ) AS local,
    make_dt_interval(CAST(id AS INT)) AS span, 'constant' AS constant
"""
NESTED = "array(id, id + 1) AS list, named_struct('p', id, 'q', CAST(id AS STRING)) AS pair, map(id, 'v') AS mapped"
COLUMNS = {"flat": FLAT, "all": f"{FLAT}, {MORE}, {KEPT}", "nested": f"{FLAT}, {NESTED}"}


def numbers(spark: Any, columns: str = FLAT, rows: int = ROWS) -> Any:
    """A frame of three partitions, whose rows are null here and there."""
    names = [f"IF(id % 5 = 1, NULL, {name}) AS {name}" for name in spark.range(1).selectExpr(*split(columns)).columns]
    made = spark.range(rows).selectExpr(*split(columns)).selectExpr(*names).selectExpr("*", "id AS a")
    return made.repartition(3)


def split(columns: str) -> list[str]:
    """The expressions of a list, whose commas in parentheses stay."""
    depth, parts = 0, [""]
    for letter in columns:
        depth += (letter == "(") - (letter == ")")
        parts = [*parts, ""] if letter == "," and depth == 0 else [*parts[:-1], parts[-1] + letter]
    return [part.strip() for part in parts]


def in_memory(frame: Any, _: Path) -> Any:
    frame.cache().count()
    return frame


def written(kind: str, **options: str) -> Callable[[Any, Path], Any]:
    def read(frame: Any, place: Path) -> Any:
        where = str(place / kind)
        frame.write.options(**options).format(kind).mode("overwrite").save(where)
        return frame.sparkSession.read.schema(frame.schema).format(kind).load(where)

    return read


def of_partitions(frame: Any, place: Path) -> Any:
    """A column of the directories has one value for all rows of a batch."""
    where = str(place / "parts")
    frame.selectExpr("*", "a % 2 AS part").write.partitionBy("part").mode("overwrite").parquet(where)
    return frame.sparkSession.read.parquet(where).select(*frame.columns, "part")


def filtered(frame: Any, place: Path) -> Any:
    return in_memory(frame, place).where("a IS NULL OR a % 2 = 0")


SOURCES = {
    "rows": lambda frame, _: frame,
    "cache": in_memory,
    "parquet": written("parquet"),
    "orc": written("orc"),
    "partitions": of_partitions,
    "filtered": filtered,
}


@pytest.fixture(autouse=True)
def own_cache(spark: Any) -> Iterator[None]:
    """What a test kept is not read by the next one, whose plan is the same."""
    yield
    spark.catalog.clearCache()


@pytest.fixture(scope="module")
def small_batches(spark: Any) -> Iterator[None]:
    """Of readers of files, which use their memory again after 256 rows, and of the cache."""
    settings = {
        "spark.sql.parquet.columnarReaderBatchSize": "256",
        "spark.sql.orc.columnarReaderBatchSize": "256",
        "spark.sql.inMemoryColumnarStorage.batchSize": "250",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


def told(frame: Any) -> list[str]:
    """The rows, in an order of their own; NULL and values of all types can be told apart."""
    return sorted(map(repr, frame.collect()))


def same(sp: Speed, frame: Any, name: str, **options: Any) -> Any:
    """``frame`` with ``back``, which is the column itself."""
    kind = frame.schema[name].dataType.simpleString()
    return sp.enrich(frame, node="echo", service="same", columns={"a": name}, returns=f"back {kind}", **options)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.rotate("source", 2)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_every_source_gives_the_same_rows(spark: Any, sp: Speed, tmp_path: Path, source: str, columns: str) -> None:
    if source == "orc" and columns != FLAT:
        columns = FLAT + ", text".replace("text", split(MORE)[0])  # ORC has no intervals
    frame = SOURCES[source](numbers(spark, columns), tmp_path)
    for name in ("a", "double", *({"text", "many", "flag", "list", "pair", "mapped"} & set(frame.columns))):
        assert told(same(sp, frame, name)) == told(frame.selectExpr("*", f"{name} AS back")), name


@pytest.mark.usefixtures("small_batches")
def test_every_type_goes_and_comes_from_a_cache_and_from_files(spark: Any, sp: Speed, tmp_path: Path) -> None:
    columns = f"{FLAT}, {MORE}"
    for source in ("cache", "parquet"):
        frame = SOURCES[source](numbers(spark, columns), tmp_path)
        for name in frame.columns:
            kept = frame.select("a", frame[name].alias("sent"))
            assert told(same(sp, kept, "sent")) == told(kept.selectExpr("*", "sent AS back")), (source, name)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("path", ["jvm"], indirect=True)
@pytest.mark.parametrize(
    ("source", "is_columnar"), [("cache", True), ("parquet", True), ("rows", False), ("filtered", False)]
)
def test_columns_of_a_scan_are_taken_as_they_are(
    spark: Any, sp: Speed, tmp_path: Path, source: str, is_columnar: bool
) -> None:
    """The plan has rows above the call, and no rows below it."""
    enriched = same(sp, SOURCES[source](numbers(spark), tmp_path), "double")
    enriched.collect()
    plan = enriched._jdf.queryExecution().executedPlan().toString().split("Initial Plan")[0]
    above, _, below = plan.partition("SpeedCall")
    assert ("ColumnarToRow" in above, "ColumnarToRow" in below) == (is_columnar, False)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.rotate("source", 3)
@pytest.mark.parametrize("source", SOURCES)
def test_what_stands_above_a_call_in_a_plan_changes_nothing(spark: Any, sp: Speed, tmp_path: Path, source: str) -> None:
    frame = SOURCES[source](numbers(spark), tmp_path)
    once = same(sp, frame, "a")
    twice = sp.enrich(once, node="echo", service="same", columns={"a": "back"}, returns="again long")
    own = frame.selectExpr("*", "a AS back")
    assert told(twice) == told(own.selectExpr("*", "back AS again"))
    assert told(once.select("back")) == told(own.select("back"))
    assert told(once.select("back", "a")) == told(own.select("back", "a"))
    assert told(once.where("back % 4 = 2")) == told(own.where("back % 4 = 2"))
    assert told(once.groupBy("flag").sum("back")) == told(own.groupBy("flag").sum("back"))
    assert told(once.alias("l").join(once.alias("r"), "a").select("l.back", "r.back", "l.double")) == told(
        own.alias("l").join(own.alias("r"), "a").select("l.back", "r.back", "l.double")
    )
    assert told(once.unionByName(own)) == told(own.unionByName(own))
    assert once.limit(7).count() == 7
    assert len(once.take(3)) == 3
    assert once.cache().where("back IS NULL").count() == own.where("a IS NULL").count()
    once.unpersist()


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("source", ["rows", "cache", "parquet"])
def test_several_answers_and_failed_rows_are_those_of_their_rows(
    spark: Any, sp: Speed, tmp_path: Path, source: str
) -> None:
    frame = SOURCES[source](spark.range(ROWS).selectExpr("id AS a", "id / 2D AS half").repartition(2), tmp_path)
    both = sp.enrich(frame, node="echo", service="both", columns=["a"], returns="x long, y string")
    assert told(both) == told(frame.selectExpr("*", "a AS x", "CAST(a AS STRING) AS y"))
    options = {"on_error": "null", "idempotent": True}
    some = sp.enrich(frame, node="echo", service="picky", columns=["a"], returns="c long", **options)
    assert told(some) == told(frame.selectExpr("*", "IF(a % 500 = 7, NULL, -a) AS c"))
    mapped = sp.map(frame.select("a"), node="echo", service="both", schema="x long, y string")
    assert told(mapped) == told(frame.selectExpr("a AS x", "CAST(a AS STRING) AS y"))


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("source", ["rows", "cache", "parquet"])
def test_no_call_has_more_rows_or_bytes_than_it_may(
    spark: Any, sp: Speed, tmp_path: Path, service: list[int], source: str
) -> None:
    frame = SOURCES[source](spark.range(ROWS).selectExpr("id AS a", "repeat('x', 100) AS text").coalesce(1), tmp_path)
    service.clear()
    same(sp, frame, "a", batch_bytes=400).collect()
    assert sum(service) == ROWS
    assert max(service) <= 50
    service.clear()
    same(sp, frame, "text", batch_bytes=1100).collect()
    assert sum(service) == ROWS
    assert max(service) <= 10
    service.clear()
    same(sp, frame, "text", batch_bytes=10).collect()
    assert set(service) == {1}  # a row that is larger is sent alone


@pytest.mark.parametrize("source", ["rows", "cache", "parquet"])
def test_nothing_is_called_for_no_rows(spark: Any, sp: Speed, tmp_path: Path, service: list[int], source: str) -> None:
    service.clear()
    empty = SOURCES[source](spark.range(100).selectExpr("id AS a").where("a < 0").repartition(3), tmp_path)
    assert same(sp, empty, "a").collect() == []
    none = spark.createDataFrame(spark.sparkContext.emptyRDD(), "a long")
    assert same(sp, none, "a").collect() == []
    assert service == []


def test_partitions_may_be_many_and_hold_a_row_or_none(spark: Any, sp: Speed) -> None:
    rows = fewer(300, 75)
    frame = spark.range(0, rows, 1, 2 * rows).selectExpr("id AS a")
    assert same(sp, frame, "a").where("back = a").count() == rows


@pytest.mark.thorough
@pytest.mark.parametrize("path", ["jvm"], indirect=True)
def test_partitions_may_be_ten_thousand(spark: Any, sp: Speed) -> None:
    assert same(sp, spark.range(0, 10_000, 1, 10_000).selectExpr("id AS a"), "a").where("back = a").count() == 10_000


def test_a_row_may_take_a_message_of_its_own(spark: Any, sp: Speed) -> None:
    frame = spark.range(2).selectExpr("id AS a", "repeat('x', 60 * 1024 * 1024) AS text").coalesce(1)
    sizes = sp.enrich(frame, node="echo", service="size", columns={"a": "text"}, returns="n long").select("n")
    assert [row.n for row in sizes.collect()] == [60 << 20] * 2
