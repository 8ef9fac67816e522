"""Which way a service is called, as far as it is decided without a session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types

from speed.errors import ConfigurationError
from speed.spark import paths
from speed.spark.functions import ServiceUse, map_function, udf_function
from speed.spark.nodes import CallSettings, NodeSettings

KNOWN = [
    types.BooleanType(),
    types.ByteType(),
    types.ShortType(),
    types.IntegerType(),
    types.LongType(),
    types.FloatType(),
    types.DoubleType(),
    types.DecimalType(38, 18),
    types.StringType(),
    types.BinaryType(),
    types.TimestampType(),
    types.DateType(),
    types.TimestampNTZType(),
    types.DayTimeIntervalType(),
    types.TimeType(),
    types.VariantType(),
    types.ArrayType(types.MapType(types.StringType(), types.StructType().add("a", types.LongType()))),
]
UNKNOWN = [
    types.StructType([]),
    types.StructType().add("a", types.LongType()).add("a", types.LongType()),
    types.StringType("UTF8_LCASE"),
    types.NullType(),
    types.YearMonthIntervalType(),
    types.ArrayType(types.NullType()),
    types.MapType(types.StringType("UTF8_LCASE"), types.LongType()),
    types.StructType().add("a", types.ArrayType(types.CalendarIntervalType())),
]


def why(**changed: Any) -> str | None:
    return paths.why_python(**{"is_connect": False, "types": KNOWN, **changed})


def test_a_classic_session_on_a_shared_root_with_known_types_has_nothing_against_the_jvm() -> None:
    assert why() is None


@pytest.mark.parametrize("kind", UNKNOWN, ids=str)
def test_a_type_that_the_jvm_does_not_know_is_named(kind: types.DataType) -> None:
    assert why(types=[*KNOWN, kind]) == f"type {kind.simpleString()} is not known there"


def test_spark_connect_and_roots_of_each_host_go_by_python() -> None:
    assert why(is_connect=True) == "the plan of a session of Spark Connect is made elsewhere"


def test_the_jvm_that_was_asked_for_and_cannot_be_is_an_error_and_auto_tells_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ConfigurationError, match=r"path='jvm' cannot be taken for geo\.twice: there is no jar"):
        paths.say_why_python("jvm", "geo.twice", "there is no jar")
    with caplog.at_level("DEBUG", logger="speed.spark.paths"):
        paths.say_why_python("auto", "geo.twice", "there is no jar")
    assert caplog.messages == ["geo.twice is called by Python workers: there is no jar"]


def test_a_word_that_is_no_path_is_refused() -> None:
    assert [paths.checked(word) for word in paths.PATHS] == ["auto", "jvm", "python"]
    with pytest.raises(ConfigurationError, match="path is 'java': use auto, jvm or python"):
        paths.checked("java")


def test_a_jar_is_taken_for_its_minor_version_of_spark_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged, built = tmp_path / "jars", tmp_path / "target"
    monkeypatch.setattr(paths, "_PACKAGED", packaged)
    monkeypatch.setattr(paths, "_BUILT", built)
    assert paths.jar("4.3.0") is None
    for place in (packaged, built):  # what was built here is newer
        place.mkdir()
        (place / "speed-spark_4.3-0.1.0.jar").touch()
        assert paths.jar("4.3.7") == place / "speed-spark_4.3-0.1.0.jar"
        assert paths.jar("4.2.0") is None
        assert paths.jar("4.30.0") is None


def test_what_is_missing_where_there_is_no_jar_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_PACKAGED", tmp_path)
    monkeypatch.setattr(paths, "_BUILT", tmp_path)
    monkeypatch.setattr(paths, "version", lambda name: "4.3.1")
    with pytest.raises(ConfigurationError, match=r"there is no jar for Spark 4\.3 here \(there are those for: none\)"):
        paths.here()
    (tmp_path / "speed-spark_4.2-0.1.0.jar").touch()
    with pytest.raises(ConfigurationError, match=r"\(there are those for: 4\.2\): in a checkout scripts/spark-jar"):
        paths.here()
    (tmp_path / "speed-spark_4.3-0.1.0.jar").touch()
    assert paths.here() == tmp_path / "speed-spark_4.3-0.1.0.jar"


def test_functions_carry_what_the_jvm_is_to_know_as_one_line_of_ascii() -> None:
    use = ServiceUse(
        NodeSettings("/srv/größe", None, "etl", "app-1"),
        CallSettings("geo.*", "twice"),
        ("a",),
        pa.schema([pa.field("b", pa.int64(), nullable=False)]),
        None,
        "driver",
        "use-1",
    )
    text = paths.described(use, "etl.app-1")
    assert text.isascii()
    said = json.loads(text.removeprefix("speed-call:").removesuffix(":speed-call"))
    assert (said["root"], said["key"], said["family"], said["node"]) == ("/srv/größe", None, "etl.app-1", "geo.*")
    assert said["promised"] == [{"name": "b", "said": "int64", "nullable": False, "inner": []}]
    described = use._replace(described=text)
    assert udf_function(described).described == map_function(described).described == text  # type: ignore[attr-defined]


def test_what_is_promised_to_lie_in_a_column_is_described_by_the_names_that_errors_have() -> None:
    fields = pa.struct([pa.field("a", pa.int8(), nullable=False)])
    kind = pa.map_(pa.string(), pa.list_(pa.field("element", fields)))
    described = paths._promise(pa.field("m", kind), "m")
    key, items = described["inner"]
    assert (described["name"], key["name"], key["nullable"], items["name"]) == ("m", "[key]", False, "[]")
    (item,) = items["inner"]
    assert (item["name"], item["said"]) == ("[]", "struct<a: int8 not null>")
    assert item["inner"] == [{"name": "a", "said": "int8", "nullable": False, "inner": []}]


def test_calls_for_rows_columns_of_errors_and_spans_are_for_python_workers() -> None:
    use = ServiceUse(
        NodeSettings("/r", None, "etl", "app-1"), CallSettings("geo", "twice"), ("a",), pa.schema([]), None, None, ""
    )
    assert paths.why_workers(use) is None
    assert paths.why_workers(use._replace(by_row=True)) == "a call for each row is made by Python workers"
    tolerant = CallSettings("geo", "twice", on_error="null", error_column="error")
    assert paths.why_workers(use._replace(call=tolerant)) == "a column of errors is written by Python workers"
    recorded = use._replace(make_provider=lambda: None)
    assert paths.why_workers(recorded) == "spans of tasks are recorded by Python workers"
