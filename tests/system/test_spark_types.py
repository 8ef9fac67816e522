"""Every type that a column of Spark may have, to services in three languages and back; what does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import speed
from speed import columns
from speed.column_services import by_row
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
            node.allow("etl.*")
            yield
    finally:
        for agent in agents:
            agent.end()


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


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("date'2013-01-01'", "of type date, which no service can take: cast it to a timestamp or a string"),
        ("timestamp_ntz'2013-01-01 00:00:00'", "timestamp_ntz, which no service can take: cast it to timestamp"),
        ("array(1, 2)", r"of type array<int>, which no service can take: use numbers"),
        ("named_struct('x', 1)", r"of type struct<x:int>, which no service can take: use numbers"),
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
        ("day date", {}, "'day' is of type date, which no service can answer: cast it"),
        ("many array<int>", {}, "'many' is of type array<int>, which no service can answer"),
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
