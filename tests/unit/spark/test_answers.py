"""What a service answered against what was promised to Spark (C-6)."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from speed import columns
from speed.errors import ExecutionFailedError
from speed.spark.calls import promised_arrays


def arrays(answer: Any, *fields: pa.Field, rows: int | None = 2, named: bool = True) -> list[list[Any]]:
    found = promised_arrays(answer, pa.schema(fields), rows, named=named)
    assert [array.type for array in found] == [field.type for field in fields]
    return [array.to_pylist() for array in found]


@pytest.mark.parametrize(
    ("kind", "promised"),
    [
        ("float64", pa.string()),
        ("float64", pa.bool_()),
        ("float64", pa.timestamp("us", tz="UTC")),
        ("float64", pa.decimal128(10, 2)),
        ("int64", pa.binary()),
    ],
)
def test_nulls_alone_are_nulls_of_any_type(kind: str, promised: pa.DataType) -> None:
    """A service of rows in C++ or Java knows no kind where no row has a value."""
    assert arrays(columns.from_values([None, None], kind), pa.field("c", promised)) == [[None, None]]


def test_no_rows_are_no_rows_of_any_type() -> None:
    assert arrays(columns.from_values([], "float64"), pa.field("c", pa.string()), rows=0) == [[]]


@pytest.mark.parametrize(
    ("values", "promised", "expected"),
    [
        ([1, 2], pa.int32(), [1, 2]),
        ([1, 2], pa.float64(), [1.0, 2.0]),
        ([1.0, 2.0], pa.int64(), [1, 2]),
        ([1, 2], pa.decimal128(10, 2), [Decimal("1.00"), Decimal("2.00")]),
        ([Decimal("1.50"), None], pa.decimal128(10, 3), [Decimal("1.500"), None]),
    ],
)
def test_numbers_become_other_numbers_that_hold_them(values: list[Any], promised: pa.DataType, expected: Any) -> None:
    assert arrays(columns.from_values(values), pa.field("c", promised)) == [expected]


@pytest.mark.parametrize(
    ("values", "promised"),
    [
        ([1, 2**40], pa.int32()),
        ([1.5, 2.0], pa.int64()),
        ([Decimal("1.25"), None], pa.decimal128(10, 1)),
        ([1e300, 1.0], pa.float32()),
        ([1.125, None], pa.decimal128(10, 2)),
        (["1", "2"], pa.int64()),
        ([1, 2], pa.string()),
        ([True, False], pa.int64()),
        ([1, 0], pa.bool_()),
        ([1, 2], pa.timestamp("us", tz="UTC")),
        ([datetime(2013, 1, 1, tzinfo=timezone.utc), None], pa.int64()),
        ([b"a", b"b"], pa.string()),
    ],
)
def test_anything_else_is_the_services_failure(values: list[Any], promised: pa.DataType) -> None:
    with pytest.raises(ExecutionFailedError, match=r"the answer for 'c' is .* hold|range") as failed:
        arrays(columns.from_values(values), pa.field("c", promised))
    assert failed.value.details["row"] in (0, 1)


def test_a_null_that_was_promised_not_to_be_names_its_row() -> None:
    with pytest.raises(ExecutionFailedError, match=r"the answer for 'c' is null, .* promised NOT NULL") as failed:
        arrays(columns.from_values([1, None]), pa.field("c", pa.int64(), nullable=False))
    assert failed.value.details == {"row": 1}


def test_several_columns_come_by_name_and_in_the_promised_order() -> None:
    answer = {"b": columns.from_values(["x", "y"]), "a": columns.from_values([1, 2]), "c": columns.from_values([0, 0])}
    assert arrays(answer, pa.field("a", pa.int64()), pa.field("b", pa.string())) == [[1, 2], ["x", "y"]]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (columns.from_values([1]), r"the answer has \[1\] rows, promised were 2 rows"),
        (3, "the answer is int"),
        ({"a": 3}, "the answer is dict"),
    ],
)
def test_another_form_is_the_services_failure(answer: Any, says: str) -> None:
    with pytest.raises(ExecutionFailedError, match=says):
        arrays(answer, pa.field("a", pa.int64()))


A, B = pa.field("a", pa.int64()), pa.field("b", pa.string())


@pytest.mark.parametrize(
    "answer",
    [
        {"a": columns.from_values([None, None], "float64")},
        {},
        {"other": columns.from_values([1, 2])},
        columns.from_values([None, None], "float64"),
    ],
    ids=["no row has b", "no row has any", "rows have others", "all rows are null"],
)
def test_what_the_rows_of_a_batch_lack_is_null_as_the_promise_says(answer: Any) -> None:
    assert arrays(answer, A, B) == [[None, None], [None, None]]
    assert arrays(answer, B) == [[None, None]]


def test_what_the_rows_lack_and_was_promised_not_to_be_null_names_its_row() -> None:
    with pytest.raises(ExecutionFailedError, match=r"the answer for 'b' is nothing, .* promised NOT NULL") as failed:
        arrays({"a": columns.from_values([1, 2])}, A, B.with_nullable(False))
    assert failed.value.details == {"row": 0}


def test_a_function_of_columns_takes_one_column_and_no_map_of_others() -> None:
    with pytest.raises(ExecutionFailedError, match=r"the answer has the columns \['b'\], promised was one column"):
        arrays({"b": columns.from_values([1, 2])}, pa.field("value", pa.int64()), named=False)


def test_a_column_that_is_not_null_is_no_map() -> None:
    with pytest.raises(ExecutionFailedError, match=r"the answer is one column, promised were columns"):
        arrays(columns.from_values([1, None]), A, B)


def test_columns_of_different_lengths_are_refused_where_any_number_of_rows_may_come() -> None:
    answer = {"a": columns.from_values([1]), "b": columns.from_values([1, 2])}
    with pytest.raises(ExecutionFailedError, match=r"\[1, 2\] rows, promised were columns of one length"):
        arrays(answer, pa.field("a", pa.int64()), pa.field("b", pa.int64()), rows=None)


def test_of_rows_that_were_not_sent_the_row_of_the_answer_is_named() -> None:
    with pytest.raises(ExecutionFailedError, match="row 1 of the answer: the answer for 'c' is beyond") as failed:
        arrays(columns.from_values([1.0, 1e300]), pa.field("c", pa.float32()), rows=None)
    assert failed.value.details == {"row_of_answer": 1}


LISTS = pa.list_(pa.field("element", pa.int32()))
NOT_NULL = pa.list_(pa.field("element", pa.int32(), nullable=False))
PAIR = pa.struct([pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.string())])


@pytest.mark.parametrize(
    ("values", "promised", "expected"),
    [
        ([[1, None], None, []], LISTS, [[1, None], None, []]),
        ([[1], None], NOT_NULL, [[1], None]),
        ([[], [None]], pa.list_(pa.string()), [[], [None]]),
        ([{"a": 1, "b": "x"}, None], PAIR, [{"a": 1, "b": "x"}, None]),
        ([{"a": 1, "c": "x"}, None], PAIR, [{"a": 1, "b": None}, None]),
        ([{"a": 1}, {"a": 2, "c": None}], PAIR, [{"a": 1, "b": None}, {"a": 2, "b": None}]),
        ([{"a": 1, "b": 2.5}], pa.map_(pa.string(), pa.float32()), [[("a", 1.0), ("b", 2.5)]]),
        ([{1: [2.0]}, None, {}], pa.map_(pa.int8(), pa.list_(pa.int64())), [[(1, [2])], None, []]),
        ([date(2026, 1, 2), None], pa.string(), ["2026-01-02", None]),
        ([time(1, 2)], pa.string(), ["01:02:00"]),
        ([datetime(2026, 1, 2, 3)], pa.string(), ["2026-01-02T03:00:00"]),  # noqa: DTZ001
        ([timedelta(seconds=1)], pa.int64(), [1_000_000]),
        ([time(1, 2)], pa.time64("ns"), [time(1, 2)]),
        ([[date(2026, 1, 2)]], pa.list_(pa.date32()), [[date(2026, 1, 2)]]),
    ],
)
def test_nested_answers_and_times_are_as_promised(values: list[Any], promised: pa.DataType, expected: Any) -> None:
    """V-5, C-8."""
    (array,) = promised_arrays(columns.from_values(values), pa.schema([pa.field("c", promised)]), len(values))
    assert (array.type, array.to_pylist()) == (promised, expected)
    array.validate(full=True)


@pytest.mark.parametrize(
    ("values", "promised", "says"),
    [
        ([[1], [2, 2**31]], LISTS, r"row 1: .*'c\[\]' is an integer that int32 does not hold"),
        ([[1], None, [2, None]], NOT_NULL, r"row 2: .*'c\[\]' is null, and declared NOT NULL"),
        ([None, {"a": None, "b": "x"}], PAIR, r"row 1: .*'c\.a' is null, and declared NOT NULL"),
        ([{"a": 1}, {"a": 300}], PAIR, r"row 1: .*'c\.a' is an integer that int8 does not hold"),
        ([None, [1]], PAIR, "row 1.* is a list, which struct<.*> does not hold"),
        (
            [[{"a": "x", "b": [1]}]],
            pa.list_(pa.map_(pa.string(), pa.string())),
            r"row 0: .*'c\[\]' is a struct, which map",
        ),
        ([date(2026, 1, 2)], pa.timestamp("us", "UTC"), "row 0.* is a date, which timestamp"),
    ],
)
def test_what_a_nested_promise_does_not_hold_names_row_and_field(
    values: list[Any], promised: pa.DataType, says: str
) -> None:
    """V-5."""
    with pytest.raises(ExecutionFailedError) as refused:
        promised_arrays(columns.from_values(values), pa.schema([pa.field("c", promised)]), len(values))
    assert re.search(says, f"row {refused.value.details['row']}: {refused.value}")


def test_what_lies_in_a_null_row_keeps_no_promise() -> None:
    """C-4: neither for lists nor for structs."""
    hidden = replace(columns.from_values([[300], [1]]), validity=memoryview(b"\2"))
    (array,) = promised_arrays(hidden, pa.schema([pa.field("c", pa.list_(pa.int8()))]), 2)
    assert array.to_pylist() == [None, [1]]
    hidden = replace(columns.from_values([{"a": 300, "b": "x"}, {"a": 1, "b": "y"}]), validity=memoryview(b"\2"))
    (array,) = promised_arrays(hidden, pa.schema([pa.field("c", PAIR)]), 2)
    assert array.to_pylist() == [None, {"a": 1, "b": "y"}]
