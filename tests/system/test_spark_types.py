"""Every type that a column of Spark may have, to services in three languages and back; what does not fit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import types

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
            node.register("picky", by_row(picky))
            node.register("counts", by_row(counts))
            node.allow("etl.*")
            yield
    finally:
        for agent in agents:
            agent.end()


@pytest.fixture(scope="module", autouse=True)
def times_of_day(spark: Any) -> Iterator[None]:
    """Spark 4.3 has them where this is set."""
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
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
def test_every_nested_type_and_time_reaches_a_service_and_comes_back(spark: Any, sp: Speed, language: str) -> None:
    """C-9: with nulls in every one."""
    for kind, (one, other) in NESTED.items():
        values = f"(CAST({one} AS {kind})), (CAST({other} AS {kind})), (CAST(NULL AS {kind}))"
        sent = spark.sql(f"SELECT data FROM VALUES {values} AS t(data)").coalesce(1)
        back = sp.enrich(sent, node=f"echo.{language}", service="echo", columns=["data"], returns=f"back {kind}")
        rows = back.selectExpr(
            "CAST(data AS STRING) <=> CAST(back AS STRING) AS same", "back IS NULL AS null"
        ).collect()
        assert [(row.same, row.null) for row in rows] == [(True, False), (True, False), (True, True)], kind


@pytest.mark.parametrize("seed", range(8))
def test_whatever_lies_in_whatever_comes_back_as_it_was_sent(spark: Any, sp: Speed, seed: int) -> None:
    """C-9: lists, structs and maps at random in each other, with nulls at each place; in batches of a few rows."""
    chance = random.Random(seed)
    schema = types.StructType([types.StructField(f"c{at}", nested(chance, 4)) for at in range(3)])
    rows = [tuple(value(chance, field.dataType) for field in schema.fields) for _ in range(250)]
    sent = spark.createDataFrame(rows, schema).coalesce(1)
    sent = sent.cache() if seed % 2 else sent
    for name in schema.names:
        back = types.StructType([types.StructField("back", schema[name].dataType)])
        options = {"returns": back, "batch_bytes": chance.choice([100, 2000, 1 << 20])}
        got = sp.enrich(sent, node="echo.python", service="echo", columns={"data": name}, **options).collect()
        assert [repr(row.back) for row in got] == [repr(row[name]) for row in sent.collect()]
    sent.unpersist()


def nested(chance: random.Random, depth: int) -> types.DataType:
    leaves = [types.LongType(), types.ByteType(), types.StringType(), types.DoubleType(), types.BooleanType()]
    leaves += [types.DateType(), types.BinaryType(), types.DecimalType(9, 2), types.DecimalType(38, 3)]
    form = chance.choice(["list", "struct", "map", "leaf"]) if depth else "leaf"
    if form == "list":
        return types.ArrayType(nested(chance, depth - 1))
    if form == "map":
        return types.MapType(chance.choice([types.StringType(), types.LongType()]), nested(chance, depth - 1))
    if form == "struct":
        fields = range(chance.randint(1, 3))
        return types.StructType([types.StructField(f"f{at}", nested(chance, depth - 1)) for at in fields])
    return chance.choice(leaves)


def value(chance: random.Random, kind: types.DataType, *, may_be_null: bool = True) -> Any:
    if may_be_null and chance.random() < 0.2:
        return None
    if isinstance(kind, types.ArrayType):
        return [value(chance, kind.elementType) for _ in range(chance.choice([0, 1, 3]))]
    if isinstance(kind, types.StructType):
        return tuple(value(chance, field.dataType) for field in kind.fields)
    if isinstance(kind, types.MapType):
        keys = [value(chance, kind.keyType, may_be_null=False) for _ in range(chance.choice([0, 1, 3]))]
        return {key: value(chance, kind.valueType) for key in keys}
    number = chance.randint(-128, 127)
    leaves = {"string": f"é{number}", "double": number / 8, "boolean": number > 0, "binary": bytearray([abs(number)])}
    leaves |= {"date": date(2000, 1, 1) + timedelta(days=number), "decimal": Decimal(number) / 4}
    return leaves.get(kind.typeName(), number)


def test_only_the_nested_row_that_a_service_refuses_becomes_null(spark: Any, sp: Speed) -> None:
    """A batch is cut around it: what lies in its columns too."""
    sent = spark.range(90).coalesce(1)
    sent = sent.selectExpr(
        "id",
        "transform(sequence(0, id % 5), i -> IF(i = 1, NULL, concat('x', id))) AS list",
        "IF(id % 7 = 3, NULL, named_struct('id', id, 'flag', id % 2 = 0, 'tags', map(concat('k', id), id))) AS made",
    )
    options = {"on_error": "null", "idempotent": True, "returns": "back string"}
    got = sp.enrich(sent, node="other", service="picky", columns=["list", "made"], **options)
    expected = sent.selectExpr("*", "IF(id % 30 = 11, NULL, concat_ws(',', list, made.tags[concat('k', id)])) AS back")
    assert got.collect() == expected.collect()


def picky(list: list[str | None], made: dict[str, Any] | None) -> str:  # noqa: A002 - a column's name
    if made is not None and made["id"] % 30 == 11:
        raise ValueError("no such row")
    tags = [] if made is None else [str(made["tags"][f"k{made['id']}"])]
    return ",".join([one for one in list if one is not None] + tags)


def test_maps_may_be_promised_as_structs(spark: Any, sp: Speed) -> None:
    """V-5: each field is the value of its key."""
    sent = spark.sql("SELECT text FROM VALUES ('a b a'), ('c'), (NULL), ('') AS t(text)").coalesce(1)
    promised = "counts struct<a:tinyint,b:double,z:string>, last map<string,int>"
    got = sp.enrich(sent, node="other", service="counts", columns=["text"], returns=promised).collect()
    assert [row.counts and tuple(row.counts) for row in got] == [(2, 1.0, None), (None, None, None), None, (None,) * 3]
    assert [row.last for row in got] == [{"a": 2, "b": 1}, {"c": 0}, None, {}]


def counts(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    words = text.split()
    return {"counts": {word: words.count(word) for word in words}, "last": {word: at for at, word in enumerate(words)}}


def test_a_schema_may_be_given_as_a_struct_type_to_each_way_of_calling(spark: Any, sp: Speed) -> None:
    kind = types.ArrayType(types.StructType().add("day", types.DateType()))
    schema = types.StructType().add("back", kind)
    sent = spark.sql("SELECT array(named_struct('day', date'2013-01-01')) AS data")
    expected = [types.Row(day=date(2013, 1, 1))]
    enriched = sp.enrich(sent, node="echo.python", service="echo", columns=["data"], returns=schema)
    assert enriched.first().back == expected
    assert sent.select(sp.udf("echo.python", "echo", kind)("data")).first()[0] == expected
    mapped = sp.map(sent, node="other", service="same", schema=types.StructType().add("data", kind))
    assert mapped.first().data == expected


def test_rows_of_python_answer_what_spark_declares(spark: Any, sp: Speed) -> None:
    """V-5, C-8: lists, dicts and dates of a service of rows."""
    sent = spark.sql("SELECT date'2013-01-01' AS day, array('a', 'b') AS tags, named_struct('n', 2) AS size")
    returns = "next date, counts map<string,int>, made struct<tag:string,more:array<int>>, text string"
    row = sp.enrich(sent, node="other", service="rows", columns=["day", "tags", "size"], returns=returns).first()
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
        (
            "back array<struct<a:int>>",
            r"row 0: the answer for 'back\[\]' is an integer, which struct<a: int32> does not",
        ),
    ],
)
def test_an_item_that_its_promised_type_does_not_hold_names_its_row(
    spark: Any, sp: Speed, returns: str, says: str
) -> None:
    """V-5."""
    sent = spark.sql("SELECT data FROM VALUES (array(1000)), (NULL) AS t(data)").coalesce(1)
    with pytest.raises(Exception, match=says):
        sp.enrich(sent, node="echo.python", service="echo", columns=["data"], returns=returns).collect()


@pytest.mark.parametrize(
    ("returns", "says"),
    [
        ("back struct<a:struct<b:tinyint>>", r"row 1: the answer for 'back.a.b' is an integer that int8 does not hold"),
        ("back struct<a:struct<c:int NOT NULL>>", r"row 0: the answer for 'back.a.c' is null, and declared NOT NULL"),
        ("back struct<m:map<string,array<date>>>", r"row 1: the answer for 'back.m\[\]\[\]' is text, which date32"),
        ("back struct<m:map<int,array<string>>>", r"row 0: the answer for 'back.m\[key\]' is text, which int32"),
        ("back struct<m:struct<k:array<boolean>>>", r"row 1: the answer for 'back.m.k\[\]' is text, which bool does"),
    ],
)
def test_the_place_of_what_does_not_fit_is_told(spark: Any, sp: Speed, returns: str, says: str) -> None:
    """V-5: with the path of the field; what lies in a null does not count."""
    fields = "named_struct('a', named_struct('b', {}), 'm', map('k', array({})))"
    one, other = fields.format("1", "NULL"), fields.format("1000", "'x'")
    sent = spark.sql(f"SELECT data FROM VALUES ({one}), ({other}), (NULL) AS t(data)").coalesce(1)
    with pytest.raises(Exception, match=says):
        sp.enrich(sent, node="echo.python", service="echo", columns=["data"], returns=returns).collect()


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
