"""Every type that a column of Spark may have, to services in three languages and back; what does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest

import speed
from speed import columns
from speed.column_services import by_arrow, by_row
from speed.spark import Speed
from tests.interop.harness import Agent
from tests.interop.languages import LANGUAGES

pytestmark = [pytest.mark.system, pytest.mark.spark]

TYPES = {
    "tinyint": ["1Y", "-128Y"],
    "int": ["1", "-2147483648"],
    "bigint": ["1L", "-9223372036854775808L"],
    "float": ["1.5F", "float('-inf')"],
    "double": ["1.5D", "double('nan')"],
    "boolean": ["true", "false"],
    "string": ["'grüße'", "''"],
    "binary": ["X'00ff'", "X''"],
    "timestamp": ["timestamp'2013-01-01 05:00:00.123456'", "timestamp'0001-01-01 00:00:00'"],
    "decimal(10,2)": ["12345678.90BD", "-0.01BD"],
    "decimal(38,18)": ["12345678901234567890.123456789012345678BD", "-0.000000000000000001BD"],
}

NESTED = {
    "date": ["date'2013-01-01'", "date'0001-01-01'"],
    "timestamp_ntz": ["timestamp_ntz'2013-01-01 05:00:00.123456'", "timestamp_ntz'9999-12-31 23:59:59'"],
    "interval day to second": ["interval '1 02:03:04.000005' day to second", "interval '-1' day"],
    "time(6)": ["time'23:59:59.000001'", "time'00:00:00'"],
    "array<int>": ["array(1, NULL)", "array()"],
    "array<array<string>>": ["array(array('grüße', NULL), NULL)", "array(array())"],
    "struct<a:int,b:string>": ["named_struct('a', 1, 'b', 'x')", "named_struct('a', NULL, 'b', NULL)"],
    "map<string,double>": ["map('a', 1.5D, 'b', NULL)", "map()"],
    "map<int,date>": ["map(1, date'2013-01-01')", "map()"],
    "array<struct<m:map<string,array<decimal(38,3)>>>>": [
        "array(named_struct('m', map('k', array(1.234BD, NULL))), NULL)",
        "array(named_struct('m', NULL))",
    ],
    "variant": ['parse_json(\'{"a": [1, "x"]}\')', "parse_json('1')"],
    "array<variant>": ["array(parse_json('[]'), NULL)", "array()"],
    "struct<l:array<boolean>>": ["named_struct('l', array(true, NULL))", "named_struct('l', NULL)"],
}
"""What the Python path alone takes."""
WIDENED = {"tinyint", "int", "float", "decimal(10,2)"}
"""They reach any service as another type of this table."""


@pytest.fixture(scope="module", autouse=True)
def services(module_root: str) -> Iterator[None]:
    """``echo`` in every language: ``data`` as it came; and services in Python that do not keep their promise."""
    agents = [Agent(language, f"echo.{language}", module_root, allow=["etl.*"]) for language in LANGUAGES]
    try:
        for agent in agents:
            agent.ready()
        with speed.Node("other", root=module_root) as node:
            node.register("nothing", nothing)
            node.register("length", by_row(length))
            node.register("rows", by_row(rows))
            node.register("same", by_arrow(lambda batch: batch))
            node.allow("etl.*")
            yield
    finally:
        for agent in agents:
            agent.end()


@pytest.fixture(scope="module")
def python_sp(spark: Any, module_root: str) -> Iterator[Speed]:
    """By Python workers: the other path does not know all types."""
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield (made := Speed(spark, root=module_root, path="python", name="etl.types"))
    made.close()
    spark.conf.unset("spark.sql.timeType.enabled")


def nothing(a: speed.Column) -> speed.Column:
    return columns.from_values([None] * a.rows, "float64")


def length(a: str) -> int:
    return len(a)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_type_reaches_a_service_and_comes_back(spark: Any, sp: Speed, language: str) -> None:
    """C-3: with nulls, in one column after the other."""
    for kind, (one, other) in TYPES.items():
        if language != "python" and kind in WIDENED:
            continue
        values = f"(CAST({one} AS {kind})), (CAST({other} AS {kind})), (CAST(NULL AS {kind}))"
        sent = spark.sql(f"SELECT data FROM VALUES {values} AS t(data)").coalesce(1)
        back = sp.enrich(sent, node=f"echo.{language}", service="echo", columns=["data"], returns=f"back {kind}")
        rows = back.selectExpr("data <=> back AS same", "data IS NULL AS null").collect()
        assert [(row.same, row.null) for row in rows] == [(True, False), (True, False), (True, True)], kind


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_nested_type_and_time_reaches_a_service_and_comes_back(
    spark: Any, python_sp: Speed, language: str
) -> None:
    """C-9: with nulls in every one."""
    for kind, (one, other) in NESTED.items():
        values = f"(CAST({one} AS {kind})), (CAST({other} AS {kind})), (CAST(NULL AS {kind}))"
        sent = spark.sql(f"SELECT data FROM VALUES {values} AS t(data)").coalesce(1)
        back = python_sp.enrich(sent, node=f"echo.{language}", service="echo", columns=["data"], returns=f"back {kind}")
        rows = back.selectExpr(
            "CAST(data AS STRING) <=> CAST(back AS STRING) AS same", "back IS NULL AS null"
        ).collect()
        assert [(row.same, row.null) for row in rows] == [(True, False), (True, False), (True, True)], kind


def test_a_schema_may_be_given_as_a_struct_type_to_each_way_of_calling(spark: Any, python_sp: Speed) -> None:
    from pyspark.sql import types as t

    kind = t.ArrayType(t.StructType().add("day", t.DateType()))
    schema = t.StructType().add("back", kind)
    sent = spark.sql("SELECT array(named_struct('day', date'2013-01-01')) AS data")
    expected = [t.Row(day=date(2013, 1, 1))]
    enriched = python_sp.enrich(sent, node="echo.python", service="echo", columns=["data"], returns=schema)
    assert enriched.first().back == expected
    assert sent.select(python_sp.udf("echo.python", "echo", kind)("data")).first()[0] == expected
    mapped = python_sp.map(sent, node="other", service="same", schema=t.StructType().add("data", kind))
    assert mapped.first().data == expected


def test_rows_of_python_answer_what_spark_declares(spark: Any, python_sp: Speed) -> None:
    """V-5, C-8: lists, dicts and dates of a service of rows."""
    sent = spark.sql("SELECT date'2013-01-01' AS day, array('a', 'b') AS tags, named_struct('n', 2) AS size")
    returns = "next date, counts map<string,int>, made struct<tag:string,more:array<int>>, text string"
    row = python_sp.enrich(sent, node="other", service="rows", columns=["day", "tags", "size"], returns=returns).first()
    assert (row.next, row.counts) == (date(2013, 1, 3), {"a": 1, "b": 1})
    assert (row.made.tag, row.made.more, row.text) == ("a", [2], "2013-01-01")


def rows(day: date, tags: list[str], size: dict[str, int]) -> dict[str, Any]:
    return {
        "next": day + timedelta(days=size["n"]),
        "counts": {tag: tags.count(tag) for tag in tags},
        "made": {"tag": tags[0], "more": [size["n"]]},
        "text": day,
    }


@pytest.mark.parametrize(
    ("returns", "says"),
    [
        ("back array<tinyint>", r"row 0: the answer for 'back\[\]' is an integer that int8 does not hold"),
        ("back array<bigint> NOT NULL", r"row 1: the answer for 'back' is null, which was promised NOT NULL"),
        ("back string", r"row 0: the answer for 'back' is a list, which string does not hold"),
        ("back map<string,int>", r"row 0: the answer for 'back' is a list, which map<string, int32> does not hold"),
    ],
)
def test_an_item_that_its_promised_type_does_not_hold_names_its_row(
    spark: Any, python_sp: Speed, returns: str, says: str
) -> None:
    """V-5."""
    sent = spark.sql("SELECT data FROM VALUES (array(1000)), (NULL) AS t(data)").coalesce(1)
    with pytest.raises(Exception, match=says):
        python_sp.enrich(sent, node="echo.python", service="echo", columns=["data"], returns=returns).collect()


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        (
            "interval '1-2' year to month",
            "interval year to month, which no service can take: Spark hands none to Python",
        ),
        ("NULL", "of type void, which no service can take: cast it to the type that it is to have"),
        ("array(make_interval(1))", r"of type array<interval>, which no service can take: cast it"),
    ],
)
def test_a_type_that_does_not_travel_is_refused_before_a_job_starts(
    spark: Any, sp: Speed, expression: str, says: str
) -> None:
    sent = spark.sql(f"SELECT {expression} AS data")
    with pytest.raises(speed.ConfigurationError, match=says):
        sp.enrich(sent, node="echo.python", service="echo", columns=["data"], returns="back string")


@pytest.mark.parametrize(
    ("returns", "options", "says"),
    [
        ("gap interval", {}, "'gap' is of type interval, which no service can answer: cast it to an interval of days"),
        ("many array<void>", {}, "'many' is of type array<void>, which no service can answer"),
        ("back string not null", {"on_error": "null"}, "'back' is promised NOT NULL"),
    ],
)
def test_a_promise_that_no_service_can_keep_is_refused_before_a_job_starts(
    spark: Any, sp: Speed, returns: str, options: dict[str, str], says: str
) -> None:
    sent = spark.sql("SELECT 'x' AS data")
    with pytest.raises(speed.ConfigurationError, match=says):
        sp.enrich(sent, node="echo.python", service="echo", columns=["data"], returns=returns, **options)


def test_nulls_alone_fit_every_promise_but_not_null(spark: Any, sp: Speed) -> None:
    frame = spark.range(3).selectExpr("id AS a")
    empty = sp.enrich(frame, node="other", service="nothing", columns=["a"], returns="back string")
    assert {row.back for row in empty.collect()} == {None}
    broken = sp.enrich(frame, node="other", service="nothing", columns=["a"], returns="back string NOT NULL")
    with pytest.raises(Exception, match=r"row 0: the answer for 'back' is null, which was promised NOT NULL"):
        broken.collect()


def test_a_null_that_the_service_does_not_declare_names_its_row(spark: Any, sp: Speed) -> None:
    """C-7: INVALID_ARGUMENTS of row 250 of the partition, the third batch."""
    frame = spark.range(300).coalesce(1).selectExpr("IF(id = 250, NULL, 'x') AS a")
    failing = sp.enrich(frame, node="other", service="length", columns=["a"], returns="n long")
    with pytest.raises(
        Exception, match=r"InvalidArgumentsError: other\.length, batch 2 .*, row 250: .*'a' must be str"
    ):
        failing.collect()


def test_an_argument_of_another_kind_is_refused_by_the_service(spark: Any, sp: Speed) -> None:
    """S-9."""
    failing = sp.enrich(
        spark.range(3).selectExpr("id AS a"), node="other", service="length", columns=["a"], returns="n int"
    )
    with pytest.raises(
        Exception, match=r"InvalidArgumentsError: other\.length, batch 0 .*row 0: .*'a' must be str, not int"
    ):
        failing.collect()


def test_a_batch_over_the_size_limit_is_split(spark: Any, module_root: str, path: str) -> None:
    """``max_payload_bytes``: 48 MiB of text in one batch of Arrow; each part and its answer fit into an envelope."""
    wide = spark.range(12).coalesce(1).selectExpr("id", "repeat(chr(65 + id), 4 << 20) AS data")
    sp = Speed(spark, root=module_root, name="etl.split", path=path)  # with figures of its own
    back = sp.enrich(wide, node="echo.python", service="echo", columns=["data"], returns="back string")
    rows = back.selectExpr("id", "data = back AS same", "length(back) AS size").collect()
    assert [(row.id, row.same, row.size) for row in rows] == [(number, True, 4 << 20) for number in range(12)]
    assert sp.metrics["calls"] == 4
    sp.close()


def test_arguments_of_a_udf_are_called_like_their_columns(spark: Any, sp: Speed) -> None:
    from pyspark.sql.functions import col

    echo = sp.udf("echo.java", "echo", "string")
    frame = spark.sql("SELECT 'x' AS data, 'y' AS other")
    row = frame.select(echo("data").alias("one"), echo(col("other").alias("data")).alias("two")).first()
    assert (row.one, row.two) == ("x", "y")
    frame.createOrReplaceTempView("letters")
    spark.udf.register("echo", sp.udf("echo.java", "echo", "string", columns=["data"]))
    assert spark.sql("SELECT echo(other) FROM letters").first()[0] == "y"
    assert frame.withColumn("two", echo(col("other").alias("data"))).first().two == "y"


def test_arguments_without_names_are_refused_with_what_to_do(spark: Any, sp: Speed) -> None:
    unnamed = sp.udf("echo.python", "echo", "string")
    with pytest.raises(Exception, match="'my data' cannot be an argument: use letters, digits and _, or an alias"):
        spark.sql("SELECT 'x' AS `my data`").select(unnamed("`my data`")).collect()
