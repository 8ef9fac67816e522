"""Every kind of value in every type that Spark declares: as it is, exactly, or refused (V-5, V-6)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as spark_types

from speed import columns
from speed.errors import ConfigurationError
from speed.spark.declared import MisfitError, array_of, cast, rows_of
from speed.spark.source.rows import check_value
from speed.wire.text import WrittenFloat, read_json
from speed.wire.value import pack, unpack
from tests.vectors import case_name, load, value_of

NY = pa.timestamp("us", "America/New_York")
ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(38,0)": pa.decimal128(38, 0),
    "string": pa.string(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "date": pa.date32(),
    "array<int>": pa.list_(pa.int32()),
    "array<double>": pa.list_(pa.float64()),
    "array<string>": pa.list_(pa.string()),
    "map<string,int>": pa.map_(pa.string(), pa.int32()),
    "map<int,int>": pa.map_(pa.int32(), pa.int32()),
    "struct<a:int>": pa.struct([("a", pa.int32())]),
}
VECTORS = load("declared")
OF_COLUMNS = {"int", "float", "decimal", "timestamp", "bytes"}


def is_column(value: Any) -> bool:
    """Whether a column holds it: what services answer."""
    if isinstance(value, dict):
        ((kind, content),) = value.items()
        return kind in OF_COLUMNS and (kind != "int" or int(content) < 2**63)
    return isinstance(value, bool | str)


CELLS = VECTORS["cells"]
ANSWERS = [cell for cell in CELLS if is_column(cell["value"]) and not cell["declared"].startswith(("map", "struct"))]


def check(cell: dict[str, Any], array: pa.Array) -> None:
    assert array.type == ARROW[cell["declared"]]
    expected = value_of(cell["becomes"])
    (found,) = array[:1].to_pylist(maps_as_pydicts="strict")
    if isinstance(expected, float) and np.isnan(expected):
        assert np.isnan(found)
    else:
        assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize("cell", CELLS, ids=case_name)
def test_a_value_that_is_read_is_as_it_was_or_refused(cell: dict[str, Any]) -> None:
    """V-5, of the data source: alone, and between rows that are null."""
    value, wanted = value_of(cell["value"]), ARROW[cell["declared"]]
    if "becomes" in cell:
        check(cell, array_of([value], wanted))
        check(cell, array_of([None, value, None], wanted)[1:])
        return
    with pytest.raises(MisfitError) as misfit:
        array_of([None, value], wanted)
    assert misfit.value.row == 1


@pytest.mark.parametrize("cell", ANSWERS, ids=case_name)
def test_a_value_that_a_service_answers_is_as_it_was_or_refused(cell: dict[str, Any]) -> None:
    """V-5, of answers."""
    column = columns.to_arrow(columns.from_values([None, value_of(cell["value"])]))
    if "becomes" in cell:
        check(cell, cast(column, ARROW[cell["declared"]])[1:])
        return
    with pytest.raises(MisfitError) as misfit:
        cast(column, ARROW[cell["declared"]])
    assert misfit.value.row == 1


NUMPY = {
    "boolean": np.bool_,
    "int": np.int64,
    "float": np.float64,
}


@pytest.mark.parametrize(
    "cell", [one for one in ANSWERS if isinstance(one["value"], dict) and set(one["value"]) & set(NUMPY)], ids=case_name
)
def test_a_number_of_numpy_is_as_it_was_or_refused(cell: dict[str, Any]) -> None:
    """V-5, of arrays."""
    kind = next(iter(cell["value"]))
    column = columns.to_arrow(columns.from_numpy(np.array([value_of(cell["value"])], NUMPY[kind])))
    if "becomes" in cell:
        check(cell, cast(column, ARROW[cell["declared"]]))
    else:
        with pytest.raises(MisfitError):
            cast(column, ARROW[cell["declared"]])


SPARK = {
    "decimal(10,2)": spark_types.DecimalType(10, 2),
    "decimal(38,0)": spark_types.DecimalType(38, 0),
    "date": spark_types.DateType(),
    "timestamp_ntz": spark_types.TimestampNTZType(),
}


@pytest.mark.parametrize("case", VECTORS["written"], ids=case_name)
def test_a_value_that_is_written_is_as_it_was_or_its_column_refused(case: dict[str, Any]) -> None:
    """V-6: whatever zone the session has."""
    if "written" not in case:
        with pytest.raises(ConfigurationError, match="no message holds"):
            check_value("c", SPARK[case["declared"]])
        return
    kind = NY if case["declared"] == "timestamp" else ARROW[case["declared"]]
    value = value_of(case["value"])
    array = array_of([value], ARROW[case["declared"]]).cast(kind)
    (row,) = rows_of(pa.RecordBatch.from_arrays([array], ["c"]))
    written = unpack(pack(row["c"]))
    assert (written, type(written)) == (value_of(case["written"]), type(value))


def test_a_misfit_names_the_first_row_and_the_field() -> None:
    kind = pa.struct([("items", pa.list_(pa.struct([("price", pa.decimal128(10, 2))])))])
    rows = [None, {"items": [{"price": 1}, {}]}, {"items": [{"price": 2.5}, {"price": 1.125}]}, {"items": ["x"]}]
    with pytest.raises(MisfitError, match=r"^items\[\]\.price is a float that decimal") as misfit:
        array_of(rows[:3], kind)
    assert misfit.value.row == 2
    with pytest.raises(MisfitError) as misfit:
        array_of([1, "x", 2.5, "y"], pa.int64())
    assert misfit.value.row == 1


def test_a_null_where_a_type_has_none_is_refused() -> None:
    kind = pa.list_(pa.field("item", pa.int64(), nullable=False))
    assert array_of([[1], None, []], kind).to_pylist() == [[1], None, []]
    with pytest.raises(MisfitError, match=r"^\[\] is null, and declared NOT NULL"):
        array_of([[1], [None]], kind)


def test_a_decimal_in_json_keeps_the_digits_that_stand_there() -> None:
    value = read_json(b'{"price": 12345678901234567.89, "rate": 0.1}', 9, written=True)
    kind = pa.struct([("price", pa.decimal128(38, 2)), ("rate", pa.float64())])
    assert array_of([value], kind)[0].as_py() == {"price": Decimal("12345678901234567.89"), "rate": 0.1}
    with pytest.raises(ValueError, match="beyond a double"):
        WrittenFloat.of("1e400")


def test_a_row_that_has_no_value_in_python_is_named_with_its_column() -> None:
    beyond = pa.array([0, -62_135_596_800_000_001]).cast(NY)
    with pytest.raises(MisfitError, match=r"^at is an instant beyond the years 1 to 9999") as misfit:
        rows_of(pa.RecordBatch.from_arrays([pa.array([1, 2]), beyond], ["n", "at"]))
    assert misfit.value.row == 1
    broken = pa.array([b"a", b"\xff"]).view(pa.string())
    with pytest.raises(MisfitError, match=r"^text is text that is not UTF-8"):
        rows_of(pa.RecordBatch.from_arrays([broken], ["text"]))


def test_the_table_has_a_cell_for_each_kind_and_type() -> None:
    assert {cell["declared"] for cell in CELLS} == set(ARROW)
    assert len({(json.dumps(cell["value"]), cell["declared"]) for cell in CELLS}) == len(CELLS)
